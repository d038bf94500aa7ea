//! `holdfast image upload` and `export`: between the site and files of this machine.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use ::images::client::CopyError;
use clap::Args;
use logic::exit::Exit;
use logic::images::{ImageName, Source, differs};

use super::progress;
use super::site::Site;
use super::{About, Waiting};
use crate::cli::Global;
use crate::failure::{Failure, Result};

/// How often, and how many times, a new image is looked at.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
const LOOKS: u32 = 200;

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

#[derive(Debug, Args)]
pub struct Upload {
    name: ImageName,
    /// The image
    file: PathBuf,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    wait: Waiting,
}

impl Upload {
    pub fn run(&self, site: &Site, global: &Global) -> Result<Exit> {
        let size = match std::fs::metadata(&self.file) {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(_) => {
                return Err(Failure::usage(
                    format!("{} is not a file", self.file.display()),
                    "give the path of an image",
                ));
            }
            Err(error) => {
                let error = CopyError::Read(self.file.display().to_string(), error);
                return Err(error.into());
            }
        };
        if self.about.on_demand {
            return Err(Failure::usage(
                "an upload goes to a disk",
                "leave out --on-demand, or name a --disk",
            ));
        }
        let create = self.about.create(&self.name, Source::Upload {}, site)?;
        match site.block_on(site.client.create(&create, &self.about.copies())) {
            Ok(image) => self.about.say_if_fewer(&image, site),
            // An upload that was interrupted is taken up again: the site says whether it still waits for the bytes.
            Err(::images::client::Error::Refused(status)) if status.code == 409 => self.same(site)?,
            Err(error) => return Err(error.into()),
        }
        self.until_known(site)?;
        let bar = progress::transfer(global, self.name.as_str(), Some(size));
        let advancing = bar.clone();
        let sent = site.block_on(site.client.upload_file(
            &self.name,
            &self.file,
            Box::new(move |bytes| advancing.inc(bytes)),
        ));
        bar.finish_and_clear();
        sent?;
        site.say(&format!("{} is uploaded", self.name));
        site.wait_if(&self.wait, &self.name, global)
    }
}

impl Upload {
    /// An image of this name is there: what it is verified by was said when it was created, and is not changed now.
    fn same(&self, site: &Site) -> Result<()> {
        let there = site.ask(site.client.image(&self.name))?;
        let format = self.about.format().filter(|format| there.spec.format != Some(*format));
        let why = match (differs(&there, None, self.about.checksum.as_deref()), format) {
            (Some(why), _) => why,
            (None, Some(_)) => "it was created with another format, or without one".to_owned(),
            (None, None) => return Ok(()),
        };
        Err(Failure {
            exit: Exit::Refused,
            error: format!("there is an image {} already, and it is another one: {why}", self.name),
            causes: vec![],
            hint: format!("choose another name, or remove it first: holdfast image rm {}", self.name),
        })
    }

    /// A new image gets its uuid before anything else; until then there is nothing to put bytes into.
    fn until_known(&self, site: &Site) -> Result<()> {
        for _ in 0..LOOKS {
            if site.ask(site.client.image(&self.name))?.status.uuid.is_some() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        // If it still has none, the site says so.
        Ok(())
    }
}

#[derive(Debug, Args)]
pub struct Export {
    name: ImageName,
    /// Where to write it; - for standard output
    file: PathBuf,
    /// Replace the file, if there is one
    #[arg(long)]
    force: bool,
}

impl Export {
    pub fn run(&self, site: &Site, global: &Global) -> Result<Exit> {
        let image = site.ask(site.client.image(&self.name))?;
        let size = image.status.seal.as_ref().map(|seal| seal.size);
        let bar = progress::transfer(global, self.name.as_str(), size);
        let advancing = bar.clone();
        let advance = Box::new(move |bytes| advancing.inc(bytes));
        let to_stdout = self.file.as_os_str() == "-";
        if to_stdout {
            let mut stdout = std::io::stdout();
            site.block_on(site.client.export(&image, &self.name, &mut stdout, advance))?;
            return Ok(Exit::Done);
        }
        if self.file.exists() && !self.force {
            let error = format!("{} is there already", self.file.display());
            return Err(Failure {
                exit: Exit::Refused,
                error,
                causes: vec![],
                hint: "give --force to replace it".into(),
            });
        }
        // Whole and verified under its name, or not at all.
        let mut name = self.file.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = self.file.with_file_name(name);
        let unwritable = |error: std::io::Error| {
            Failure::new(
                Exit::Unexpected,
                &error,
                "see that the directory can be written, and that there is room",
            )
        };
        let mut file = File::create(&partial).map_err(unwritable)?;
        let exported = site.block_on(site.client.export(&image, &self.name, &mut file, advance));
        bar.finish_and_clear();
        if let Err(error) = exported {
            let _ = std::fs::remove_file(&partial);
            return Err(error.into());
        }
        file.flush().and_then(|()| file.sync_all()).map_err(unwritable)?;
        std::fs::rename(&partial, &self.file).map_err(unwritable)?;
        site.say(&format!("{} is in {}", self.name, self.file.display()));
        Ok(Exit::Done)
    }
}
