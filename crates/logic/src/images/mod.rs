//! What images decides: what each manager should do next, who pulls, who sends, what is cleaned up; and the words for
//! images, their chunks and the disks they are on.
//!
//! An image is described by its chunks ([`ChunkList`]) under one root hash ([`Seal`]); what a disk has of it is [`Held`].

mod chunks;
mod cleanup;
mod disk;
mod held;
mod image;
mod manager;
mod name;
mod object;
mod puller;
mod same;
mod site;
mod state;
mod step;
pub mod swarm;
mod volume;

pub use chunks::{BadHash, Chunk, ChunkList, Hash, ListError, Piece, Seal};
pub use cleanup::{Keep, may_clean_up};
pub use disk::next as disk_next;
pub use held::Held;
pub use image::next as image_next;
pub use manager::{manager_name, missing as missing_manager, next as manager_next};
pub use name::{BadName, DiskId, ImageId, ImageName, NodeName};
pub use object::{
    BackingImage, BackingImageManager, Disk, DiskSpec, DiskStatus, ImageSpec, ImageStatus, ManagerSpec,
    ManagerState, ManagerStatus, Metadata, Object, OnDisk, Program, Puller, Source, Volume, VolumeSpec,
    VolumeState, VolumeStatus,
};
pub use puller::rendezvous;
pub use same::differs;
pub use site::{Backoff, Process, Report, Role, Rules, Site};
pub use state::{FileState, FileStatus, Format};
pub use step::{Call, PeerAddress, Step};
pub use volume::next as volume_next;
