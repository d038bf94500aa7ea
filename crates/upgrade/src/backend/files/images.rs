//! Images side by side, and the link to the one in force.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use disk::Operation;
use disk::durable::{rename_durably, sync_dir, sync_fs};
use disk::tree;
use logic::upgrade::ImageId;

use super::{Files, hidden, id_of, is_there, make_dir, names_in};
use crate::backend::{Error, Result};

impl Files {
    /// Those that are there whole: an image gets its name when it is.
    pub fn images(&self) -> Result<Vec<ImageId>> {
        Ok(names_in(&self.layout.releases())?.into_iter().filter_map(id_of).collect())
    }

    /// The one in force.
    pub fn current(&self) -> Result<Option<ImageId>> {
        let link = self.layout.current();
        match fs::read_link(&link) {
            Ok(target) => {
                let name = target.file_name().and_then(|name| name.to_str());
                Ok(name.and_then(|name| id_of(name.to_owned())))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(disk::Error::io(Operation::Read, &link, error).into()),
        }
    }

    /// The directory of the one in force.
    pub fn current_release(&self) -> Result<(ImageId, PathBuf)> {
        let image = self.current()?.ok_or(Error::NoCurrent)?;
        let path = self.layout.release(&image);
        match path.is_dir() {
            true => Ok((image, path)),
            false => Err(Error::NoImage { image }),
        }
    }

    /// Moves the tree at `brought`, which is on the same file system, to its place among the images. Called again
    /// after that, it finds nothing at `brought` and the image in its place, and is content.
    pub fn stage(&self, image: &ImageId, brought: &Path) -> Result<()> {
        if self.current()?.as_ref() == Some(image) {
            return Err(Error::InForce { image: image.clone() });
        }
        let place = self.layout.release(image);
        make_dir(&self.layout.releases())?;
        self.sweep()?;
        match (is_there(brought)?, is_there(&place)?) {
            (false, false) => return Err(Error::NoImage { image: image.clone() }),
            (false, true) => {
                return Ok(sync_dir(&self.layout.releases())?);
            }
            (true, false) => {}
            // Not exchanged with the older try: who comes back after a kill could not tell which is which.
            (true, true) => self.discard_image(image)?,
        }
        sync_fs(brought)?;
        rename_durably(brought, &place)?;
        Ok(())
    }

    /// Makes an image the one in force, in one step.
    pub fn set_current(&self, image: &ImageId) -> Result<()> {
        if !self.layout.release(image).is_dir() {
            return Err(Error::NoImage { image: image.clone() });
        }
        let (link, root) = (self.layout.current(), self.layout.root());
        if self.current()?.as_ref() != Some(image) {
            // Relative: the appliance may be moved, or mounted elsewhere.
            let target = Path::new("releases").join(image.as_str());
            let next = root.join(hidden("next"));
            tree::remove(&next)?;
            symlink(target, &next).map_err(|error| disk::Error::io(Operation::Link, &next, error))?;
            fs::rename(&next, &link).map_err(|error| disk::Error::io(Operation::Rename, &link, error))?;
        }
        // Also where it was so already: whoever made it so may have been killed before this.
        Ok(sync_dir(root)?)
    }

    pub fn remove_image(&self, image: &ImageId) -> Result<()> {
        if self.current()?.as_ref() == Some(image) {
            return Err(Error::InForce { image: image.clone() });
        }
        self.discard_image(image)
    }

    /// An image that is not whole any more does not keep its name.
    fn discard_image(&self, image: &ImageId) -> Result<()> {
        self.sweep()?;
        let place = self.layout.release(image);
        match fs::rename(&place, self.gone()) {
            Ok(()) => sync_dir(&self.layout.releases())?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(disk::Error::io(Operation::Rename, &place, error).into()),
        }
        self.sweep()
    }

    fn gone(&self) -> PathBuf {
        self.layout.releases().join(hidden("gone"))
    }

    /// What has lost its name already.
    fn sweep(&self) -> Result<()> {
        if is_there(&self.gone())? {
            tree::remove_with(&self.gone(), self.threads, &())?;
            sync_dir(&self.layout.releases())?;
        }
        Ok(())
    }
}
