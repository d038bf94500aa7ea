//! `holdfast volume …`: disks for machines, each an overlay on an image of the site.

mod backup;
mod views;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::images::{DiskId, ImageName, Volume, VolumeState};
use logic::period::Period;
use wire::rest::{CreateVolume, NewVolume};

use self::views::{VolumeList, VolumeView};
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::image::{Server, Site};
use crate::output;

/// How often a volume that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct VolumeCommand {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a volume on an image; the image is brought to its disk first
    Create(Create),
    /// List the volumes
    Ls,
    /// Show one volume
    Show { name: ImageName },
    /// Remove volumes with what was written to them
    Rm {
        #[arg(required = true)]
        names: Vec<ImageName>,
    },
    /// Write what differs from the image to a directory, with the image's name, address and checksum, without its bytes
    Backup {
        name: ImageName,
        /// A new or an empty directory
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Make a volume from a backup
    Restore(Restore),
}

#[derive(Debug, Args)]
struct Create {
    name: ImageName,
    #[arg(long, value_name = "IMAGE")]
    backing_image: ImageName,
    /// If there is no such image yet, it is created from this address
    #[arg(long)]
    url: Option<String>,
    /// What that image must be: sha256:… or sha512:…
    #[arg(long, requires = "url")]
    checksum: Option<String>,
    /// Of the disk in it, in bytes, or with K, M, G or T; as large as its image, unless given
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Restore {
    /// The directory of a backup
    from: PathBuf,
    /// What the volume is called; as in the backup, unless given
    #[arg(long)]
    name: Option<ImageName>,
    /// Another image than the one that it stood on
    #[arg(long, value_name = "IMAGE")]
    backing_image: Option<ImageName>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Place {
    /// The disk that it is on: its uuid or the beginning of it, its node, or NODE:PATH
    #[arg(long, value_name = "DISK")]
    disk: Option<String>,
    /// Give up waiting for the image after this long; what is under way goes on
    #[arg(long, value_name = "TIME")]
    timeout: Option<Period>,
    /// Do not wait until it can be used
    #[arg(long)]
    no_wait: bool,
}

impl Place {
    fn disk(&self, site: &Site) -> Result<Option<DiskId>> {
        Ok(site.disks(self.disk.as_slice())?.pop())
    }
}

impl VolumeCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let site = Site::open(&self.server, global)?;
        match &self.verb {
            Verb::Create(create) => create.run(&site, global),
            Verb::Ls => {
                let list = VolumeList::of(site.ask(site.client.volumes())?, &site.ask(site.client.disks())?);
                output::show(&list, global.output)?;
                Ok(Exit::Done)
            }
            Verb::Show { name } => show(&site, site.ask(site.client.volume(name))?, global),
            Verb::Rm { names } => {
                for name in names {
                    site.ask(site.client.remove_volume(name))?;
                    site.say(&format!("{name} is being removed"));
                }
                Ok(Exit::Done)
            }
            Verb::Backup { name, to } => backup::backup(&site, name, to, global),
            Verb::Restore(restore) => backup::restore(&site, restore, global),
        }
    }
}

impl Create {
    fn run(&self, site: &Site, global: &Global) -> Result<Exit> {
        let spec = NewVolume {
            backing_image: self.backing_image.clone(),
            disk: self.place.disk(site)?,
            size: self.size,
            upload: false,
        };
        let create = CreateVolume::of(self.name.clone(), spec);
        let asked = site.client.create_volume(&create, self.url.as_deref(), self.checksum.as_deref());
        let volume = site.ask(asked)?;
        if self.place.no_wait {
            return show(site, volume, global);
        }
        let volume = until(site, &self.name, self.place.timeout, |volume| match volume.status.state {
            VolumeState::Ready => Some(Ok(())),
            VolumeState::Failed => Some(Err(volume.status.reason.clone())),
            VolumeState::Waiting => None,
        })?;
        show(site, volume, global)
    }
}

fn show(site: &Site, volume: Volume, global: &Global) -> Result<Exit> {
    let disks = site.ask(site.client.disks())?;
    output::show(&VolumeView::of(volume, &disks), global.output)?;
    Ok(Exit::Done)
}

/// Looks at a volume until that says yes, or no with a reason. Each new reason to wait is told.
fn until(
    site: &Site,
    name: &ImageName,
    timeout: Option<Period>,
    done: impl Fn(&Volume) -> Option<std::result::Result<(), String>>,
) -> Result<Volume> {
    let end = timeout.map(|timeout| Instant::now() + timeout.get());
    let mut told = String::new();
    loop {
        let volume = site.ask(site.client.volume(name))?;
        match done(&volume) {
            Some(Ok(())) => return Ok(volume),
            Some(Err(why)) => {
                let hint = format!(
                    "`holdfast volume show {name}` tells more; it is tried again until it is removed"
                );
                return Err(Failure {
                    exit: Exit::Unexpected,
                    error: format!("the volume {name} failed: {why}"),
                    causes: vec![],
                    hint,
                });
            }
            None if volume.status.reason != told && !volume.status.reason.is_empty() => {
                told.clone_from(&volume.status.reason);
                site.say(&format!("{name} waits: {told}"));
            }
            None => {}
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            let hint = format!("it goes on: `holdfast image wait {}`", volume.spec.backing_image);
            return Err(Failure {
                exit: Exit::TimedOut,
                error: format!("the volume {name} can't be used yet: {told}"),
                causes: vec![],
                hint,
            });
        }
        std::thread::sleep(LOOK);
    }
}

/// `10G`, `512M`, `4096`.
fn size(text: &str) -> std::result::Result<u64, String> {
    let bad = || format!("{text:?} is not a size: write bytes, or a number with K, M, G or T");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).filter(|size| *size > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [("1", 1), ("4K", 4096), ("10G", 10 << 30), ("2TiB", 2 << 40), ("5mb", 5 << 20)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "G", "-1", "1.5G", "1X", "99999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
