//! Everything that is wrong with graph data, before it is published: what `holdfast graph check DIR` prints.

use std::path::Path;

use logic::graph::{Notes, Place, lint};
use oci::chain;

use super::{directory, files};
use crate::settings::Limits;

/// Mistakes are notes, however bad they are; that the directory can't be read is one of them.
pub fn check(root: &Path) -> Notes {
    let whole = |line| Place::File { path: "version".to_owned(), line };
    let mut notes = Notes::default();
    let tree = match directory::read(root, &Limits::default()) {
        Ok(tree) => tree,
        Err(error) => {
            let place = Place::File { path: root.display().to_string(), line: None };
            notes.error("unreadable", place, chain(&error));
            return notes;
        }
    };
    match files::check_version(&tree) {
        Ok(()) => {}
        Err(error @ files::LayoutError::NoVersion) => notes.error("layout", whole(None), error.to_string()),
        Err(error) => notes.error("layout", whole(Some(1)), error.to_string()),
    }
    let (data, found) = files::read_files(&tree);
    notes.extend(found);
    notes.extend(lint::lint(&data));
    notes.sort();
    notes
}
