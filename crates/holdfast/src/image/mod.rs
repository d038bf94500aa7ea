//! `holdfast image …`: arguments in, the site's API or the part's functions called, results shown.

mod manager;
mod progress;
mod serve;
mod site;
mod token;
mod transfer;
mod views;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::images::identity::Token;
use clap::{Args, Subcommand, ValueEnum};
use logic::exit::Exit;
use logic::images::{BackingImage, Format as ImageFormat, ImageName, NodeName, Source};
use logic::period::Period;
use wire::rest::{Create, CreateSpec, Disks};

pub use self::manager::ImageManagerCommand;
use self::progress::Progress;
pub use self::progress::transfer;
use self::serve::Serve;
pub use self::site::Site;
use self::token::TokenCommand;
use self::transfer::{Export, Upload};
pub use self::views::place;
use self::views::{DiskList, ImageList, ImageView};
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::output;

#[derive(Debug, Args)]
pub struct ImageCommand {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

/// Which site, and by what right.
#[derive(Debug, Clone, Args)]
pub struct Server {
    /// The site, as https://HOST:PORT; http://127.0.0.1:7420, unless given
    #[arg(long, global = true, value_name = "URL", env = "HOLDFAST_SERVER")]
    server: Option<String>,
    /// A file with a token of the site; admin.token beside the site's state, unless given
    #[arg(long, global = true, value_name = "FILE", env = "HOLDFAST_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a site: its store, its API, its decisions, and a manager for each disk of this machine
    Serve(Box<Serve>),
    /// Tell the site of an image; it is fetched once, and spread from disk to disk
    Create(CreateImage),
    /// List the images
    Ls,
    /// Show one image, and how it is on each disk
    Show { name: ImageName },
    /// Remove images from every disk and from the site
    Rm {
        #[arg(required = true)]
        names: Vec<ImageName>,
    },
    /// Remove an image from some disks; never its last verified copy, and never one that is in use
    Cleanup {
        name: ImageName,
        /// A disk: its uuid or the beginning of it, its node, or NODE:PATH; may be given again
        #[arg(long, value_name = "DISK", required = true)]
        disk: Vec<String>,
    },
    /// Bring an image to more disks
    Spread {
        name: ImageName,
        /// A disk: its uuid or the beginning of it, its node, or NODE:PATH; may be given again
        #[arg(long, value_name = "DISK", required_unless_present = "all")]
        disk: Vec<String>,
        /// Every disk that the site knows
        #[arg(long, conflicts_with = "disk")]
        all: bool,
        #[command(flatten)]
        wait: Waiting,
    },
    /// Make an image of a file of this machine
    Upload(Upload),
    /// Write an image to a file, verified
    Export(Export),
    /// Wait until an image is on all disks that are to have it
    Wait {
        name: ImageName,
        /// Only for these disks; may be given again
        #[arg(long, value_name = "DISK")]
        disk: Vec<String>,
        /// Give up after this long; what is under way goes on
        #[arg(long, value_name = "TIME")]
        timeout: Option<Period>,
    },
    /// Print a line whenever something changes about an image, or about any
    Watch { name: Option<ImageName> },
    /// List the disks of the site
    Disks,
    /// Make, list and revoke tokens
    Token(TokenCommand),
}

#[derive(Debug, Args)]
struct CreateImage {
    name: ImageName,
    /// http, https, file:///PATH (a file, or a directory such as a stick's), or oci://REGISTRY/REPO@sha256:…
    #[arg(long)]
    url: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    wait: Waiting,
}

/// What an image is, and where it is to be.
#[derive(Debug, Clone, Args)]
pub struct About {
    /// What it must be: sha256:… or sha512:…
    #[arg(long, value_name = "CHECKSUM")]
    checksum: Option<String>,
    /// Looked up in the image, unless given
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// A disk that is to have it: its uuid or the beginning of it, its node, or NODE:PATH; may be given again. All that the site knows, unless given: one that is away gets it when it is back
    #[arg(long, value_name = "DISK")]
    disk: Vec<String>,
    /// To so many disks, which the site chooses: ready ones first
    #[arg(long, value_name = "N", conflicts_with = "disk")]
    copies: Option<u32>,
    /// To no disk yet: volumes bring it where they need it
    #[arg(long, conflicts_with_all = ["disk", "copies"])]
    on_demand: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FormatName {
    Raw,
    Qcow2,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Waiting {
    /// Wait until it is there
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this long; what is under way goes on
    #[arg(long, value_name = "TIME", requires = "wait")]
    timeout: Option<Period>,
}

impl ImageCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        match &self.verb {
            Verb::Serve(serve) => serve.run(global),
            verb => {
                let site = Site::open(&self.server, global)?;
                verb.run(&site, global)
            }
        }
    }
}

impl Verb {
    fn run(&self, site: &Site, global: &Global) -> Result<Exit> {
        match self {
            // Handled before, since there may be no site yet.
            Self::Serve(serve) => serve.run(global),
            Self::Create(create) => create.run(site, global),
            Self::Ls => {
                let list = ImageList::of(site.ask(site.client.images())?);
                output::show(&list, global.output)?;
                Ok(Exit::Done)
            }
            Self::Show { name } => {
                let image = site.ask(site.client.image(name))?;
                let view = ImageView::of(image, &site.ask(site.client.disks())?);
                output::show(&view, global.output)?;
                Ok(Exit::Done)
            }
            Self::Rm { names } => {
                for name in names {
                    site.ask(site.client.remove(name))?;
                    site.say(&format!("{name} is being removed"));
                }
                Ok(Exit::Done)
            }
            Self::Cleanup { name, disk } => {
                let disks = site.disks(disk)?;
                site.ask(site.client.cleanup(name, disks))?;
                site.say(&format!("{name} is being removed from {}", disk.join(", ")));
                Ok(Exit::Done)
            }
            Self::Spread { name, disk, all, wait } => {
                let to = match all {
                    true => Disks::Copies("all".to_owned()),
                    false => Disks::Disks(site.disks(disk)?),
                };
                site.ask(site.client.spread(name, &to))?;
                site.wait_if(wait, name, global)
            }
            Self::Upload(upload) => upload.run(site, global),
            Self::Export(export) => export.run(site, global),
            Self::Wait { name, disk, timeout } => {
                let disks = site.disks(disk)?;
                site.wait(name, &disks, *timeout, &mut Progress::new(global))
            }
            Self::Watch { name } => site.watch(name.as_ref(), global),
            Self::Disks => {
                let disks = site.ask(site.client.disks())?;
                let managers = site.ask(site.client.managers())?;
                output::show(&DiskList::of(disks, &managers), global.output)?;
                Ok(Exit::Done)
            }
            Self::Token(command) => command.run(site, global),
        }
    }
}

impl CreateImage {
    fn run(&self, site: &Site, global: &Global) -> Result<Exit> {
        let source = Source::Url { url: self.url.clone() };
        let image = site
            .ask(site.client.create(&self.about.create(&self.name, source, site)?, &self.about.copies()))?;
        self.about.say_if_fewer(&image, site);
        if self.wait.wait {
            return site.wait_if(&self.wait, &self.name, global);
        }
        let view = ImageView::of(image, &site.ask(site.client.disks())?);
        output::show(&view, global.output)?;
        Ok(Exit::Done)
    }
}

impl About {
    fn format(&self) -> Option<ImageFormat> {
        self.format.map(|format| match format {
            FormatName::Raw => ImageFormat::Raw,
            FormatName::Qcow2 => ImageFormat::Qcow2,
        })
    }

    fn create(&self, name: &ImageName, source: Source, site: &Site) -> Result<Create> {
        let format = self.format();
        let disks: Option<BTreeSet<_>> = match self.disk.is_empty() {
            true => None,
            false => Some(site.disks(&self.disk)?.into_iter().collect()),
        };
        let spec = CreateSpec { source, format, checksum: self.checksum.clone(), disks };
        Ok(Create::of(name.clone(), spec))
    }

    /// Copies that nobody hears of again are not silently left out.
    fn say_if_fewer(&self, image: &BackingImage, site: &Site) {
        let (name, disks) = (&image.metadata.name, image.spec.disks.len());
        if let Some(copies) = self.copies.filter(|copies| disks < *copies as usize) {
            site.say(&format!(
                "{name} goes to {disks} disks instead of {copies}: the site has no more; once others have joined: holdfast image spread {name} --disk DISK"
            ));
        }
    }

    fn copies(&self) -> String {
        match (self.on_demand, self.copies) {
            (true, _) => "0".to_owned(),
            (false, Some(copies)) => copies.to_string(),
            (false, None) => "all".to_owned(),
        }
    }
}

/// What this machine is called in a site.
pub fn node_name(configured: Option<&str>) -> Result<NodeName> {
    let name = configured
        .map_or_else(|| rustix::system::uname().nodename().to_string_lossy().to_lowercase(), str::to_owned);
    NodeName::parse(&name)
        .map_err(|error| Failure::new(Exit::Usage, &error, "give --node NAME, or set node in [images]"))
}

/// No token is longer.
const TOKEN_BYTES: u64 = 4096;

pub fn read_token(file: &Path) -> Result<Token> {
    let hint = "give --token-file FILE, or set HOLDFAST_TOKEN; the site's first token is in admin.token beside its state";
    let unreadable =
        |why: String| Failure::usage(format!("can't read a token from {}: {why}", file.display()), hint);
    let bytes = disk::durable::read_limited(file, TOKEN_BYTES)
        .map_err(|error| unreadable(::guard::error_chain(&error)))?
        .ok_or_else(|| unreadable("it does not exist".to_owned()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not text".to_owned()))?;
    text.parse().map_err(|error: ::images::identity::BadToken| unreadable(error.to_string()))
}
