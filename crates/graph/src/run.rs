//! `graph serve` as a whole: looks at the sources, serves what follows, takes over a new configuration on SIGHUP; and
//! the one look of the commands that only want to see a graph.

use std::sync::Arc;
use std::time::Duration;

use logic::graph::{Graph, GraphData, Notes};
use oci::chain;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::current::{Current, State};
use crate::data;
use crate::error::Error;
use crate::scrape::{BoxFuture, DataError, DataSource, Loaded, Scraper};
use crate::serve::{Handle, Service};
use crate::settings::Settings;
use crate::source::cache::Cache;

/// Graph data as the scraper wants it: what was read last, as long as nothing changed.
struct Data {
    source: data::DataSource,
    last: Option<Loaded>,
}

impl Data {
    fn open(settings: &Settings) -> Result<Option<Self>, Error> {
        let source = data::DataSource::open(settings)?;
        Ok(source.map(|source| Self { source, last: None }))
    }

    async fn read(&mut self) -> Result<Loaded, data::DataError> {
        if let Some((data, notes)) = self.source.load().await? {
            let revision = self.source.revision().unwrap_or_default().to_owned();
            self.last = Some(Loaded { data: Arc::new(data), notes, revision });
        }
        // Nothing new without anything old does not happen; if it did, there is no data.
        Ok(self.last.clone().unwrap_or_else(|| Loaded {
            data: Arc::new(GraphData::default()),
            notes: Notes::default(),
            revision: String::new(),
        }))
    }
}

impl DataSource for Data {
    fn load(&mut self) -> BoxFuture<'_, Result<Loaded, DataError>> {
        Box::pin(async { self.read().await.map_err(|error| Box::new(error) as DataError) })
    }
}

/// One look at sources and graph data.
pub fn look(settings: &Settings) -> Result<(Graph, Notes), Error> {
    if settings.sources.is_empty() {
        return Err(Error::NoSource);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(Error::Runtime)?.block_on(async {
        let data = Data::open(settings)?.map(|data| Box::new(data) as Box<dyn DataSource>);
        let current = Current::default();
        let cache = Arc::new(Cache::open(&settings.cache_dir));
        let mut scraper = Scraper::new(settings, data, cache, current.clone())?;
        scraper.scrape().await?;
        match &*current.load() {
            State::Graph { snapshot, .. } => Ok((snapshot.graph.clone(), snapshot.notes.clone())),
            State::Nothing { .. } => Ok(Default::default()),
        }
    })
}

/// Serves until SIGTERM or SIGINT. `read_again` gives the configuration anew, on SIGHUP.
pub fn serve(
    settings: Settings,
    read_again: impl Fn() -> Result<Settings, String> + Send + 'static,
) -> Result<(), Error> {
    if settings.sources.is_empty() && settings.upstream.is_none() {
        return Err(Error::NoSource);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        let current = Current::default();
        let service = Service::bind(settings.clone(), current.clone()).await?;
        if let Ok(address) = service.address() {
            let admin = service.admin_address();
            tracing::info!(%address, admin = admin.map(tracing::field::display), "listening");
        }
        let handle = service.handle();
        let cache = Arc::new(Cache::open(&settings.cache_dir));
        let looking = Looking::start(&settings, &cache, &current, &handle)?;
        let reloader = tokio::spawn(reload_on_hangup(settings, read_again, cache, current, handle, looking));
        service.run(service::terminated()).await;
        reloader.abort();
        Ok(())
    })
}

/// What looks for releases, or for graph data alone where another service has the releases.
struct Looking {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    again: Arc<Notify>,
}

impl Looking {
    fn start(
        settings: &Settings,
        cache: &Arc<Cache>,
        current: &Current,
        handle: &Handle,
    ) -> Result<Self, Error> {
        let data = Data::open(settings)?;
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let (task, again) = match &settings.upstream {
            Some(_) => {
                let again = Arc::new(Notify::new());
                let follow = follow_data(data, settings.interval.get(), handle.clone(), Arc::clone(&again));
                let task = tokio::spawn(async move {
                    tokio::select! {
                        () = follow => {}
                        () = stopped => {}
                    }
                });
                (task, again)
            }
            None => {
                let data = data.map(|data| Box::new(data) as Box<dyn DataSource>);
                let scraper = Scraper::new(settings, data, Arc::clone(cache), current.clone())?;
                handle.set_scrape_counters(scraper.source_counters());
                let again = scraper.again();
                (tokio::spawn(scraper.run(stopped)), again)
            }
        };
        Ok(Self { task, stop, again })
    }

    async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// Where another service has the releases, only graph data is read here.
async fn follow_data(data: Option<Data>, interval: Duration, handle: Handle, again: Arc<Notify>) {
    let Some(mut data) = data else { return std::future::pending().await };
    let mut revision = None;
    loop {
        match data.read().await {
            Ok(loaded) if revision.as_ref() != Some(&loaded.revision) => {
                handle.set_graph_data((*loaded.data).clone());
                revision = Some(loaded.revision);
            }
            Ok(_) => {}
            Err(error) => tracing::error!(error = %chain(&error), "graph data could not be read"),
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = again.notified() => {}
        }
    }
}

/// A configuration that can't be used changes nothing: what was in force stays.
async fn reload_on_hangup(
    mut settings: Settings,
    read_again: impl Fn() -> Result<Settings, String>,
    cache: Arc<Cache>,
    current: Current,
    handle: Handle,
    mut looking: Looking,
) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        tracing::warn!("SIGHUP can't be waited for: the configuration is read at the start only");
        return std::future::pending().await;
    };
    while hangup.recv().await.is_some() {
        let new = match read_again() {
            Ok(new) => new,
            Err(error) => {
                tracing::error!(error, "the configuration can't be read again; the old one stays in force");
                continue;
            }
        };
        if let Err(error) = handle.reload(new.clone()).await {
            tracing::error!(error = %chain(&error), "the configuration can't be taken over; the old one stays in force");
            continue;
        }
        if same_inputs(&settings, &new) {
            looking.again.notify_one();
        } else {
            match Looking::start(&new, &cache, &current, &handle) {
                Ok(started) => std::mem::replace(&mut looking, started).end().await,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "the new sources can't be used; the old ones stay");
                    continue;
                }
            }
        }
        tracing::info!("the configuration was read again");
        settings = new;
    }
}

/// Whether what is looked at stays the same.
fn same_inputs(a: &Settings, b: &Settings) -> bool {
    let inputs = |settings: &Settings| {
        let Settings { upstream, sources, graph_data, graph_data_keys, interval, limits, .. } =
            settings.clone();
        (upstream, sources, graph_data, graph_data_keys, interval, limits)
    };
    inputs(a) == inputs(b)
}
