//! A volume that is made from an overlay's bytes, which come from outside and are believed nothing.

use std::fs::File;
use std::io::{self, Write};

use logic::images::ImageName;

use super::error::{Result, VolumeError, at};
use super::staging::Staging;
use super::{Base, Record, qemu};
use crate::qcow2;

pub struct Restore {
    staging: Staging,
    name: ImageName,
    base: Base,
    file: File,
}

impl Restore {
    pub(super) fn begin(staging: Staging, name: &ImageName, base: &Base) -> Result<Self> {
        let overlay = staging.overlay();
        let file = File::create_new(&overlay).map_err(at("create", &overlay))?;
        Ok(Self { staging, name: name.clone(), base: base.clone(), file })
    }

    /// The overlay is whole: it stands on this disk's image from now on, and is a volume.
    pub fn finish(self, size: Option<u64>) -> Result<Record> {
        let overlay = self.staging.overlay();
        // Before anything opens it: whatever the header names would be opened too.
        let held = self.read_header()?;
        qemu::stand_on(&overlay, &self.base.path(), self.base.format)?;
        qemu::check(&overlay)?;
        let wanted = size.unwrap_or(held).max(held);
        if wanted < self.base.virtual_size {
            let least = self.base.virtual_size;
            return Err(VolumeError::TooSmall { name: self.name.clone(), size: wanted, least });
        }
        if wanted > held {
            qemu::grow(&overlay, wanted)?;
        }
        let record = Record::new(&self.name, &self.base, wanted);
        self.staging.keep(&record)?;
        Ok(record)
    }

    fn read_header(&self) -> Result<u64> {
        let overlay = self.staging.overlay();
        let head = File::open(&overlay).and_then(qcow2::head).map_err(at("read", &overlay))?;
        match qcow2::Header::read(&head)
            .map_err(|source| VolumeError::Header { name: self.name.clone(), source })?
        {
            None => Err(VolumeError::NoOverlay { name: self.name.clone() }),
            Some(header) if header.external_data => {
                Err(VolumeError::ExternalData { name: self.name.clone() })
            }
            Some(header) if header.encrypted => Err(VolumeError::Encrypted { name: self.name.clone() }),
            Some(header) => Ok(header.virtual_size),
        }
    }
}

impl Write for Restore {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
