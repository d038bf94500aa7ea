//! Who keeps an image from being removed, in every backend.

use logic::upgrade::ImageId;

use super::{Error, Result};
use crate::layout::Layout;
use crate::workload;

/// A workload runs with the release that made it, whatever is in force by now.
pub fn by_no_workload(layout: &Layout, image: &ImageId) -> Result<()> {
    let workloads = workload::list(layout)
        .map_err(|error| Error::Machine { what: "its workloads".to_owned(), why: error.to_string() })?;
    match workloads.into_iter().find(|record| record.release.id == *image) {
        Some(made) => Err(Error::Needed { image: image.clone(), workload: made.name.to_string() }),
        None => Ok(()),
    }
}
