//! Labels that shape the graph. They stand in a release's own metadata, on its image, or in graph data.

pub const PREFIX: &str = "io.openshift.upgrades.graph.";

pub const PREVIOUS_ADD: &str = "io.openshift.upgrades.graph.previous.add";
pub const PREVIOUS_REMOVE: &str = "io.openshift.upgrades.graph.previous.remove";
pub const PREVIOUS_REMOVE_REGEX: &str = "io.openshift.upgrades.graph.previous.remove_regex";
pub const NEXT_ADD: &str = "io.openshift.upgrades.graph.next.add";
pub const NEXT_REMOVE: &str = "io.openshift.upgrades.graph.next.remove";
pub const RELEASE_REMOVE: &str = "io.openshift.upgrades.graph.release.remove";
pub const RELEASE_CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";
/// The architecture of a node, where its version does not carry it.
pub const RELEASE_ARCH: &str = "io.openshift.upgrades.graph.release.arch";
/// The digest of the release's manifest.
pub const MANIFEST_REF: &str = "io.openshift.upgrades.graph.release.manifestref";

pub const KNOWN: [&str; 9] = [
    PREVIOUS_ADD,
    PREVIOUS_REMOVE,
    PREVIOUS_REMOVE_REGEX,
    NEXT_ADD,
    NEXT_REMOVE,
    RELEASE_REMOVE,
    RELEASE_CHANNELS,
    RELEASE_ARCH,
    MANIFEST_REF,
];

/// The entries of a comma list, without blanks and empty ones.
pub fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}
