//! Calls in, answers out: who may call what, what is refused, and in which words.

use std::sync::Arc;

use logic::images::{DiskId, FileState, ImageId, ImageName, NodeName};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use wire::images as api;
use wire::images::image_manager_server::ImageManager;

use super::entry::{Doing, Entry};
use super::error::Refusal;
use super::handover::{self, Offers};
use super::registry::{Registry, blocking};
use super::run::Api;
use super::stream::{self, Stream_};
use super::work::{self, Work};
use super::{upload, volumes};
use crate::identity::Role;
use crate::volume::Volumes;

/// Peers that are told of one image; more are of no use to anybody.
const PEERS: usize = 4096;
/// Messages that a watcher may be behind.
const BEHIND: usize = 1;

pub struct Manager {
    pub registry: Arc<Registry>,
    pub volumes: Arc<Volumes>,
    pub offers: Offers,
    pub work: Arc<Work>,
    pub api: Api,
    pub node: NodeName,
    /// Of the program.
    pub version: String,
    pub stopping: CancellationToken,
}

/// Who calls, as the connection knows it.
#[derive(Debug, Clone)]
pub struct Caller(pub Role);

type Answer<T> = Result<Response<T>, Status>;

fn role<T>(request: &Request<T>) -> Option<Role> {
    request.extensions().get::<Caller>().map(|caller| caller.0.clone())
}

/// Everything but what peers need.
fn controllers_only<T>(request: &Request<T>, call: &'static str) -> Result<(), Refusal> {
    match role(request) {
        Some(Role::Controller) => Ok(()),
        other => {
            Err(Refusal::Role { role: other.map_or("nobody".to_owned(), |role| role.to_string()), call })
        }
    }
}

fn peers(peers: Vec<api::Peer>, myself: &DiskId) -> Result<Vec<api::Peer>, Refusal> {
    if peers.len() > PEERS {
        return Err(Refusal::Argument(format!("more than {PEERS} peers")));
    }
    for peer in &peers {
        DiskId::parse(&peer.disk).map_err(wire::BadMessage::from)?;
    }
    Ok(peers.into_iter().filter(|peer| peer.disk != myself.as_str()).collect())
}

impl Manager {
    fn image(&self, entry: &Entry) -> api::Image {
        wire::image(&entry.name, &entry.status(self.work.sending(&entry.id)))
    }

    fn images<'a>(&self, entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Vec<api::Image> {
        entries.into_iter().map(|entry| self.image(entry)).collect()
    }

    /// Calls that came with the second version.
    fn since_two(&self) -> Result<(), Refusal> {
        if self.api.version < 2 { Err(Refusal::Version(self.api.version)) } else { Ok(()) }
    }

    fn named(&self, image: Option<&api::ImageRef>) -> Result<Arc<Entry>, Refusal> {
        let (name, id) = api::ImageRef::required(image)?;
        self.registry.find(&name, &id)
    }

    async fn fetch(
        &self,
        doing: Doing,
        image: (ImageName, ImageId),
        peers: Vec<api::Peer>,
        order: work::Order,
    ) -> Result<Arc<Entry>, Refusal> {
        let work = Arc::clone(&self.work);
        let begun = self.registry.begin(doing, &image.0, &image.1, move |entry, cancel| {
            entry.peers.send_replace(peers);
            work::fetch(work, entry, order, cancel)
        });
        begun.await
    }

    /// What follows a growing list can be asked for before the image is whole; older managers can't follow.
    fn may_send(&self, entry: &Entry) -> Result<(), Refusal> {
        if entry.is_offered() {
            return Err(Refusal::Offered(entry.name.clone()));
        }
        if self.stopping.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        let filled = entry.file.filled_now();
        if self.api.version < 2 && !filled.downloaded {
            return Err(Refusal::NotDownloaded(entry.name.clone()));
        }
        if filled.checking {
            return Err(Refusal::Busy { name: entry.name.clone(), doing: "verified" });
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl ImageManager for Manager {
    async fn pull(&self, request: Request<api::PullRequest>) -> Answer<api::Image> {
        controllers_only(&request, "Pull")?;
        let request = request.into_inner();
        let image = api::ImageRef::required(request.image.as_ref()).map_err(Refusal::from)?;
        let order = work::Order {
            format: request.format().map_err(Refusal::from)?,
            seal: request.seal().map_err(Refusal::from)?,
            checksum: work::digest(request.checksum().map_err(Refusal::from)?)?,
            origin: Some(self.work.origin(&request.url, &image.0)?),
        };
        let peers = peers(request.peers, self.registry.disk.id())?;
        let entry = self.fetch(Doing::Pulling, image, peers, order).await?;
        Ok(Response::new(self.image(&entry)))
    }

    async fn sync(&self, request: Request<api::SyncRequest>) -> Answer<api::Image> {
        controllers_only(&request, "Sync")?;
        let request = request.into_inner();
        let image = api::ImageRef::required(request.image.as_ref()).map_err(Refusal::from)?;
        let order = work::Order {
            format: request.format().map_err(Refusal::from)?,
            seal: request.seal().map_err(Refusal::from)?,
            checksum: work::digest(request.checksum().map_err(Refusal::from)?)?,
            origin: None,
        };
        let peers = peers(request.peers, self.registry.disk.id())?;
        let entry = self.fetch(Doing::Syncing, image, peers, order).await?;
        Ok(Response::new(self.image(&entry)))
    }

    async fn send(&self, request: Request<api::SendRequest>) -> Answer<api::SendResponse> {
        let caller = role(&request);
        let request = request.into_inner();
        let receiver =
            DiskId::parse(&request.receiver).map_err(wire::BadMessage::from).map_err(Refusal::from)?;
        // A ticket is for whoever asks for it: nobody takes a place in somebody else's name.
        if caller != Some(Role::Manager(receiver.clone())) {
            let role = caller.map_or("nobody".to_owned(), |role| role.to_string());
            return Err(Refusal::Role { role, call: "Send for another disk" }.into());
        }
        let entry = self.named(request.image.as_ref())?;
        self.may_send(&entry)?;
        let ticket = self.work.ticket(&entry, &receiver)?;
        // An offer that was made meanwhile did not see this receiver.
        self.may_send(&entry)?;
        Ok(Response::new(api::SendResponse { ticket }))
    }

    async fn delete(&self, request: Request<api::DeleteRequest>) -> Answer<api::DeleteResponse> {
        controllers_only(&request, "Delete")?;
        let (name, id) =
            api::ImageRef::required(request.into_inner().image.as_ref()).map_err(Refusal::from)?;
        volumes::none_on(&self.registry, &self.volumes, &id).await?;
        self.work.stop_sending(&id);
        self.registry.delete(&name, &id).await?;
        tracing::info!(image = %name, uuid = %id, "deleted");
        Ok(Response::new(api::DeleteResponse {}))
    }

    async fn get(&self, request: Request<api::GetRequest>) -> Answer<api::Image> {
        controllers_only(&request, "Get")?;
        let name = ImageName::parse(&request.into_inner().name).map_err(wire::BadMessage::from);
        let name = name.map_err(Refusal::from)?;
        let entry = self.registry.get(&name).ok_or(Refusal::Unknown(name))?;
        Ok(Response::new(self.image(&entry)))
    }

    async fn list(&self, request: Request<api::ListRequest>) -> Answer<api::ListResponse> {
        controllers_only(&request, "List")?;
        let images = self.images(&self.registry.all());
        let disk = Arc::clone(&self.registry.disk);
        let (disk, room) = blocking(move || (disk.check(), disk.room())).await?;
        // What is known of another disk's images is of no use, and the controllers are to hear of it.
        disk.map_err(Refusal::NoDisk)?;
        // A disk that does not say how full it is is no reason not to answer.
        let (disk_free, disk_size) = room.map_or((0, 0), |room| (room.free, room.size));
        Ok(Response::new(api::ListResponse { images, disk_free, disk_size }))
    }

    async fn ownership_transfer_start(
        &self,
        request: Request<api::OwnershipTransferStartRequest>,
    ) -> Answer<api::OwnershipTransferStartResponse> {
        controllers_only(&request, "OwnershipTransferStart")?;
        let offered = self.offers.start(&self.registry, &self.work).await?;
        tracing::info!(images = offered.len(), "offered to another manager");
        Ok(Response::new(api::OwnershipTransferStartResponse { images: self.images(&offered) }))
    }

    async fn ownership_transfer_confirm(
        &self,
        request: Request<api::OwnershipTransferConfirmRequest>,
    ) -> Answer<api::OwnershipTransferConfirmResponse> {
        controllers_only(&request, "OwnershipTransferConfirm")?;
        let images = request.into_inner().images;
        if images.is_empty() {
            let count = self.offers.let_go(&self.registry, &self.work).await?;
            tracing::info!(images = count, "handed over to another manager");
        } else {
            let images: Vec<_> = images
                .iter()
                .map(|image| api::ImageRef::required(image.image.as_ref()))
                .collect::<Result<_, _>>()
                .map_err(Refusal::from)?;
            handover::take_on(&self.registry, &images).await?;
            tracing::info!(images = images.len(), "taken over from another manager");
        }
        Ok(Response::new(api::OwnershipTransferConfirmResponse {}))
    }

    type WatchStream = Stream_<api::Change>;

    async fn watch(&self, request: Request<api::WatchRequest>) -> Answer<Self::WatchStream> {
        controllers_only(&request, "Watch")?;
        let mut changes = self.registry.changes.subscribe();
        let (sender, receiver) = tokio::sync::mpsc::channel(BEHIND);
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            // What happened before it was heard of is a change, too.
            changes.mark_changed();
            loop {
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                    () = stopping.cancelled() => return,
                }
                // Waits for a slow watcher; however much happens meanwhile is one change.
                if sender.send(Ok(api::Change {})).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(stream::stream_of(receiver)))
    }

    async fn version_get(&self, _request: Request<api::VersionGetRequest>) -> Answer<api::Version> {
        Ok(Response::new(api::Version {
            api_version: self.api.version,
            api_min_version: self.api.min_version,
            version: self.version.clone(),
            disk: self.registry.disk.id().to_string(),
            node: self.node.to_string(),
        }))
    }

    async fn peers(&self, request: Request<api::PeersRequest>) -> Answer<api::PeersResponse> {
        controllers_only(&request, "Peers")?;
        self.since_two()?;
        let request = request.into_inner();
        let entry = self.named(request.image.as_ref())?;
        let peers = peers(request.peers, self.registry.disk.id())?;
        entry.peers.send_if_modified(|known| {
            let changed = *known != peers;
            *known = peers;
            changed
        });
        Ok(Response::new(api::PeersResponse {}))
    }

    async fn upload(&self, request: Request<Streaming<api::UploadRequest>>) -> Answer<api::Image> {
        controllers_only(&request, "Upload")?;
        self.since_two()?;
        let entry = upload::upload(&self.work, &self.registry, request.into_inner()).await?;
        let image = self.image(&entry);
        if image.state == FileState::Failed.name() {
            return Err(Refusal::Data(image.reason).into());
        }
        Ok(Response::new(image))
    }

    type ReadStream = Stream_<api::Data>;

    async fn read(&self, request: Request<api::ReadRequest>) -> Answer<Self::ReadStream> {
        controllers_only(&request, "Read")?;
        self.since_two()?;
        let request = request.into_inner();
        match &request.what {
            Some(api::read_request::What::Image(image)) => {
                let entry = self.named(Some(image))?;
                Ok(Response::new(stream::read(&entry, request.offset, self.work.outgoing())?))
            }
            Some(api::read_request::What::Volume(name)) => {
                let (registry, offset, outgoing) = (&self.registry, request.offset, self.work.outgoing());
                let data = volumes::read(registry, &self.volumes, name, offset, outgoing).await?;
                Ok(Response::new(data))
            }
            None => Err(Refusal::from(wire::BadMessage::NoImage).into()),
        }
    }

    async fn volume_create(&self, request: Request<api::VolumeCreateRequest>) -> Answer<api::Volume> {
        controllers_only(&request, "VolumeCreate")?;
        let made = volumes::create(&self.registry, &self.volumes, request.into_inner()).await?;
        Ok(Response::new(made))
    }

    async fn volume_restore(
        &self,
        request: Request<Streaming<api::VolumeRestoreRequest>>,
    ) -> Answer<api::Volume> {
        controllers_only(&request, "VolumeRestore")?;
        let restored = volumes::restore(&self.registry, &self.volumes, request.into_inner()).await?;
        Ok(Response::new(restored))
    }

    async fn volume_delete(
        &self,
        request: Request<api::VolumeDeleteRequest>,
    ) -> Answer<api::VolumeDeleteResponse> {
        controllers_only(&request, "VolumeDelete")?;
        volumes::delete(&self.registry, &self.volumes, &request.into_inner().name).await?;
        Ok(Response::new(api::VolumeDeleteResponse {}))
    }

    async fn volume_list(&self, request: Request<api::VolumeListRequest>) -> Answer<api::VolumeListResponse> {
        controllers_only(&request, "VolumeList")?;
        let volumes = volumes::list(&self.registry, &self.volumes).await?;
        Ok(Response::new(api::VolumeListResponse { volumes }))
    }
}
