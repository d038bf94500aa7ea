//! How a release gets to where the graph and agents find it.

use serde_json::json;
use testkit::releases;

use super::world::World;
use crate::upgrade::site::{Kind, Release};

pub fn version(release: &Release) -> String {
    format!("{}.0.0", release.build)
}

/// How a release is published.
pub struct Published {
    /// What it says it is.
    pub claims: String,
    pub previous: Vec<String>,
    pub signed: bool,
    /// The agent that it brings along.
    pub agent: Option<Vec<u8>>,
    /// Whose signature its successor needs.
    pub keys: Option<Vec<u8>>,
}

impl Published {
    /// After the one before it, signed.
    pub fn rightly(release: &Release) -> Self {
        let previous = (1..release.build).map(|build| format!("{build}.0.0")).collect();
        Self { claims: version(release), previous, signed: true, agent: None, keys: None }
    }
}

impl<K: Kind> World<K> {
    pub fn publish(&mut self, release: &Release) -> String {
        self.publish_as(release, &Published::rightly(release))
    }

    /// Says its digest.
    pub fn publish_as(&mut self, release: &Release, published: &Published) -> String {
        let tree = self.site.release(release);
        let metadata = json!({
            "kind": "cincinnati-metadata-v0",
            "version": published.claims,
            "previous": published.previous,
            "metadata": {"io.openshift.upgrades.graph.release.channels": "stable"},
        });
        let mut image = releases::Release::new(&version(release), &[])
            .tree(tree.as_ref())
            .metadata(metadata.to_string().as_bytes());
        if let Some(agent) = &published.agent {
            image = image.file("agent/holdfast", 0o755, agent);
        }
        if let Some(keys) = &published.keys {
            image = image.file("release-keys/vendor.pub", 0o644, keys);
        }
        let digest = self.releases.add(&image).digest;
        if published.signed {
            self.releases.sign_cosign(&digest, &self.key);
        }
        self.push();
        digest
    }
}
