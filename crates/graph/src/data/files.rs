//! The public layout of graph data: from files to what they say, with a note for every mistake.
//!
//! One broken file never hides the others. Only a `version` that is not understood makes the whole tree unreadable:
//! then nothing in it means what it seems to.

use std::collections::BTreeMap;

use logic::graph::{GraphData, Notes, Place};

use super::tree::{Kind, Tree};
use super::{block, channel, raw};

/// The versions of the layout that are read.
pub const SUPPORTED: &str = "1.x";

/// Why a tree can't be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("there is no file `version`: this is not graph data, or its layout is not known")]
    NoVersion,
    #[error("`version` holds {0:?}, and the layout is supported in versions {SUPPORTED}")]
    Version(String),
}

pub fn read(tree: &Tree) -> Result<(GraphData, Notes), LayoutError> {
    check_version(tree)?;
    let (data, mut notes) = read_files(tree);
    notes.sort();
    Ok((data, notes))
}

pub fn check_version(tree: &Tree) -> Result<(), LayoutError> {
    let content = tree.files.get("version").ok_or(LayoutError::NoVersion)?;
    let text = String::from_utf8_lossy(content.get(..200).unwrap_or(content));
    match semver::Version::parse(text.trim()) {
        Ok(version) if version.major == 1 => Ok(()),
        _ => Err(LayoutError::Version(text.trim().to_owned())),
    }
}

/// Everything but the version.
pub fn read_files(tree: &Tree) -> (GraphData, Notes) {
    let mut data = GraphData::default();
    let mut notes = tree.notes.clone();
    let mut blocks = block::Reader::default();
    let mut channels: BTreeMap<String, Place> = BTreeMap::new();
    for (path, content) in &tree.files {
        match Kind::of(path) {
            Kind::Channel => {
                let Some(channel) = channel::read(path, content, &mut notes) else { continue };
                if let Some(first) = channels.get(&channel.name) {
                    let text =
                        format!("the channel {} is at {first} already: this one is left out", channel.name);
                    notes.error("same-channel", channel.place, text);
                } else {
                    channels.insert(channel.name.clone(), channel.place.clone());
                    data.channels.push(channel);
                }
            }
            Kind::Block => data.blocks.extend(blocks.read(path, content, &mut notes)),
            Kind::Raw => data.raw = raw::read(path, content, &mut notes),
            Kind::Version | Kind::Stray(_) | Kind::Other => {}
        }
    }
    (data, notes)
}
