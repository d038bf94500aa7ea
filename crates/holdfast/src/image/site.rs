//! The site that a command talks to: asking it, naming its disks, and waiting for what it does.

use std::time::{Duration, Instant};

use ::images::client::{Client, Error, ImageEvent, Lines};
use ::images::identity::Token;
use logic::exit::Exit;
use logic::images::{BackingImage, Disk, DiskId, FileState, ImageName};
use logic::period::Period;
use wire::rest::Event;

use super::progress::Progress;
use super::{Server, Waiting, read_token};
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};

/// A watch that ended is begun again after this long.
const AGAIN: Duration = Duration::from_millis(500);
/// How often a watch that fails is begun again before the command gives up.
const TRIES: u32 = 20;

pub struct Site {
    pub client: Client,
    runtime: tokio::runtime::Runtime,
    quiet: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

impl Site {
    pub fn open(server: &Server, global: &Global) -> Result<Self> {
        let settings = config::load(global.config.as_deref())?.config.images;
        let address = server.server.clone().unwrap_or_else(|| format!("http://{}", settings.listen));
        let token: Token = match (&server.token_file, std::env::var("HOLDFAST_TOKEN")) {
            (Some(file), _) => read_token(file)?,
            (None, Ok(token)) => token.parse().map_err(|error| Failure::from(Error::Token(error)))?,
            (None, Err(_)) => {
                let file = settings.state.with_file_name("admin.token");
                if !file.exists() {
                    return Err(Error::NoToken.into());
                }
                read_token(&file)?
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::Unexpected, &error, "see the limits on file descriptors"))?;
        let client = Client::new(&address, token)?;
        Ok(Self { client, runtime, quiet: global.quiet })
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn ask<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T> {
        Ok(self.runtime.block_on(question)?)
    }

    pub fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    /// The disks that people mean: by uuid or the beginning of it, node, path, or NODE:PATH.
    pub fn disks(&self, words: &[String]) -> Result<Vec<DiskId>> {
        if words.is_empty() {
            return Ok(vec![]);
        }
        let disks = self.ask(self.client.disks())?;
        words.iter().map(|word| named(word, &disks)).collect()
    }

    pub fn wait_if(&self, waiting: &Waiting, name: &ImageName, global: &Global) -> Result<Exit> {
        if !waiting.wait {
            return Ok(Exit::Done);
        }
        self.wait(name, &[], waiting.timeout, &mut Progress::new(global))
    }

    /// Until the image is downloaded to all disks that are to have it, or to those that were named.
    pub fn wait(
        &self,
        name: &ImageName,
        disks: &[DiskId],
        timeout: Option<Period>,
        progress: &mut Progress,
    ) -> Result<Exit> {
        let names = self.ask(self.client.disks())?;
        progress.know(&names);
        let until = timeout.map(|timeout| Instant::now() + timeout.get());
        let waited = self.block_on(async {
            let waiting = self.until_there(name, disks, progress);
            match until {
                Some(until) => tokio::time::timeout_at(until.into(), waiting).await.ok(),
                None => Some(waiting.await),
            }
        });
        progress.end();
        match waited {
            Some(waited) => waited.map(|()| Exit::Done),
            None => Err(Failure {
                exit: Exit::TimedOut,
                error: format!("{name} is not there yet"),
                causes: vec![],
                hint: format!("see `holdfast image show {name}`; what is under way goes on"),
            }),
        }
    }

    async fn until_there(&self, name: &ImageName, disks: &[DiskId], progress: &mut Progress) -> Result<()> {
        let mut failures = 0;
        loop {
            // Tells at once whether there is such an image.
            let image = self.client.image(name).await?;
            progress.show(&image);
            if is_there(&image, disks) {
                return Ok(());
            }
            if image.spec.disks.is_empty() && disks.is_empty() {
                return Err(Failure {
                    exit: Exit::Refused,
                    error: format!("no disk is to have {name}: there is nothing to wait for"),
                    causes: vec![],
                    hint: format!("holdfast image spread {name} --all, or name a --disk"),
                });
            }
            if let Some(reason) = in_vain(&image) {
                return Err(Failure {
                    exit: Exit::Refused,
                    error: format!("{name} can't be had"),
                    causes: vec![reason.to_owned()],
                    hint: format!("holdfast image rm {name}, then create it anew"),
                });
            }
            match self.follow(name, disks, progress).await {
                Ok(true) => continue,
                Ok(false) => failures = 0,
                Err(error) if error.exit() == Exit::TryAgain && failures < TRIES => failures += 1,
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Whether something was decided; otherwise the site has to be asked again.
    async fn follow(
        &self,
        name: &ImageName,
        disks: &[DiskId],
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let mut lines = self.client.watch_images().await?;
        while let Some(event) = lines.next::<ImageEvent>().await? {
            let image = match event {
                Event::Added(image) | Event::Modified(image) if image.metadata.name == name.as_str() => image,
                // Asked for once more, the site says what became of it.
                Event::Deleted(image) if image.metadata.name == name.as_str() => return Ok(false),
                Event::Error(_) => return Ok(false),
                _ => continue,
            };
            progress.show(&image);
            if is_there(&image, disks) || in_vain(&image).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A line for each change, until it is interrupted. A watch that ends is begun again, with what there is then.
    pub fn watch(&self, name: Option<&ImageName>, global: &Global) -> Result<Exit> {
        self.block_on(async {
            // A site that can't be reached at all is no site that has gone away.
            let mut lines = Some(self.client.watch_images().await?);
            let mut failures = 0;
            loop {
                let ended = match lines.take() {
                    Some(lines) => print_lines(lines, name, global.output, &mut failures).await,
                    None => self.client.watch_images().await.map(|begun| lines = Some(begun)),
                };
                match ended {
                    Ok(()) if lines.is_some() => continue,
                    Ok(()) => self.say("the site ended the watch: it is begun again"),
                    Err(error) if error.exit() == Exit::TryAgain && failures < TRIES => {
                        if failures == 0 {
                            self.say(&format!("{error}: the watch is begun again"));
                        }
                        failures += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
                tokio::time::sleep(AGAIN).await;
            }
        })
    }
}

/// Until the site ends the watch, or something fails. What comes says that the site is there.
async fn print_lines(
    mut lines: Lines,
    name: Option<&ImageName>,
    format: Format,
    failures: &mut u32,
) -> Result<(), Error> {
    while let Some(event) = lines.next::<ImageEvent>().await? {
        *failures = 0;
        if matches!(event, Event::Error(_)) {
            break;
        }
        if let Some(line) = line(&event, name, format) {
            output::print(&line);
        }
    }
    Ok(())
}

fn line(event: &ImageEvent, only: Option<&ImageName>, format: Format) -> Option<String> {
    let (image, what) = match event {
        Event::Added(image) => (image, "is there"),
        Event::Modified(image) => (image, "changed"),
        Event::Deleted(image) => (image, "is gone"),
        Event::Bookmark(_) | Event::Error(_) => return None,
    };
    let name = &image.metadata.name;
    if only.is_some_and(|only| name != only.as_str()) {
        return None;
    }
    Some(match format {
        Format::Json | Format::Yaml => serde_json::to_string(event).unwrap_or_default() + "\n",
        Format::Name => format!("{name}\n"),
        _ => format!("{name} {what}: {}\n", super::views::summary(image)),
    })
}

/// Why waiting is no use.
fn in_vain(image: &BackingImage) -> Option<&str> {
    image.status.disks.values().find(|on| on.lasting).map(|on| on.reason.as_str())
}

fn is_there(image: &BackingImage, disks: &[DiskId]) -> bool {
    let on = |disk: &DiskId| image.status.disks.get(disk).is_some_and(|on| on.state == FileState::Downloaded);
    match disks {
        [] => !image.spec.disks.is_empty() && image.spec.disks.iter().all(on),
        some => some.iter().all(on),
    }
}

fn named(word: &str, disks: &[Disk]) -> Result<DiskId> {
    let means = |disk: &&Disk| {
        let (id, spec) = (&disk.metadata.name, &disk.spec);
        id == word
            || (word.len() >= 4 && id.starts_with(word))
            || spec.node.as_str() == word
            || spec.path == word
            || format!("{}:{}", spec.node, spec.path) == word
    };
    let meant: Vec<&Disk> = disks.iter().filter(means).collect();
    let list = |disks: &[&Disk]| {
        disks
            .iter()
            .map(|disk| format!("{}:{}", disk.spec.node, disk.spec.path))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match meant[..] {
        [one] => DiskId::parse(&one.metadata.name)
            .map_err(|error| Failure::new(Exit::Unexpected, &error, "this is a defect")),
        [] => Err(Failure {
            exit: Exit::NotFound,
            error: format!("there is no disk {word}"),
            causes: vec![],
            hint: match disks {
                [] => "no disk has joined the site yet: give `image serve` one with --disk, or let a manager join".into(),
                _ => format!("there are {}", list(&disks.iter().collect::<Vec<_>>())),
            },
        }),
        _ => Err(Failure::usage(format!("{word} could be any of {}", list(&meant)), "give the disk's uuid, or NODE:PATH")),
    }
}
