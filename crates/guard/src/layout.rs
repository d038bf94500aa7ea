//! Where everything is. The one place that turns a [`Place`] into a path.

use std::path::{Path, PathBuf};

use logic::guard::{Place, Seq};

#[derive(Debug, Clone)]
pub struct Layout {
    pub data: PathBuf,
    pub backups: PathBuf,
    /// The data directory is a mount point: it can't be renamed, so its contents change places instead.
    pub data_is_mount: bool,
}

impl Layout {
    pub fn new(data: &Path, backups: &Path) -> Self {
        let data_is_mount = disk::tree::is_mount_point(data).unwrap_or(false);
        Self { data: data.to_owned(), backups: backups.to_owned(), data_is_mount }
    }

    pub fn path(&self, place: &Place) -> PathBuf {
        match place {
            Place::Data => self.data.clone(),
            Place::Incoming(number) => self.beside_data("incoming", *number),
            Place::Staging(number) => self.staging().join(number.to_string()),
            Place::Current(deployment) => self.backups.join(deployment.as_str()),
            Place::Generation(deployment, number) => {
                self.backups.join(".generations").join(deployment.as_str()).join(number.to_string())
            }
            Place::LastHealthy(deployment) => self.backups.join(format!("last_healthy__{deployment}")),
            Place::Aside(name) => self.backups.join(name),
        }
    }

    /// What an exchange of contents takes out of a data directory that can't be renamed.
    pub fn outgoing(&self, number: Seq) -> PathBuf {
        self.beside_data("outgoing", number)
    }

    /// What came in, once all of it has moved on.
    pub fn spent(&self, number: Seq) -> PathBuf {
        self.beside_data("spent", number)
    }

    /// On the file system of the data: inside a mount point, next to a plain directory.
    fn beside_data(&self, what: &str, number: Seq) -> PathBuf {
        let name = format!("{}{what}-{number}", disk::RESERVED_PREFIX);
        match self.data_is_mount {
            true => self.data.join(name),
            false => {
                let own = self.data.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let parent = self.data.parent().unwrap_or(Path::new("/"));
                parent.join(format!("{}{own}-{what}-{number}", disk::RESERVED_PREFIX))
            }
        }
    }

    /// The directory in which copies beside the data are built, and how their names begin.
    pub fn incoming_names(&self) -> (PathBuf, String) {
        let path = self.beside_data("incoming", 0);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let prefix = name.trim_end_matches('0').to_owned();
        (path.parent().unwrap_or(Path::new("/")).to_owned(), prefix)
    }

    pub fn staging(&self) -> PathBuf {
        self.backups.join(".staging")
    }

    pub fn records(&self) -> PathBuf {
        self.backups.join(".records")
    }

    pub fn journal(&self) -> PathBuf {
        self.backups.join(".journal")
    }

    pub fn lock(&self) -> PathBuf {
        self.backups.join(".lock")
    }

    /// Held by the workload for as long as it runs.
    pub fn run_lock(&self) -> PathBuf {
        self.backups.join(".run.lock")
    }

    pub fn health(&self) -> PathBuf {
        self.backups.join("health.json")
    }

    pub fn request(&self) -> PathBuf {
        self.backups.join("next-boot.json")
    }

    pub fn actions(&self) -> PathBuf {
        self.backups.join("actions.log")
    }

    pub fn version(&self) -> PathBuf {
        self.data.join("version.json")
    }
}
