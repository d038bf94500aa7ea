//! `holdfast agent install`: what the agent of a cluster needs there, and itself.

use std::path::PathBuf;

use ::agent::cluster::{ClusterError, install};
use clap::Args;
use kubernetes::connect::Cluster;
use logic::exit::Exit;
use semver::Version;

use super::begin::runtime;
use crate::cli::Global;
use crate::failure::Result;
use crate::manifests;

#[derive(Debug, Args)]
pub struct Install {
    /// Run the agent in the cluster, from this image; otherwise it is left to you
    #[arg(long, value_name = "REF", requires = "release", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    image: Option<String>,
    /// The release that the cluster runs now
    #[arg(long, value_name = "VERSION", requires = "image")]
    release: Option<Version>,
    /// Print the manifests instead
    #[arg(long)]
    dry_run: bool,
    /// How to reach the cluster; otherwise $KUBECONFIG, ~/.kube/config, or the pod's own account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Install {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let mut objects = [install::custom_resource(), install::rights()].concat();
        if let (Some(image), Some(release)) = (&self.image, &self.release) {
            objects.extend(install::deployment(image, release));
        }
        if self.dry_run {
            return manifests::print(&objects, global);
        }
        runtime()?.block_on(async {
            let cluster = Cluster::connect(self.kubeconfig.as_deref()).await.map_err(ClusterError::from)?;
            let client = cluster.client().map_err(ClusterError::from)?;
            install::apply(&client, &objects).await.map_err(ClusterError::from)
        })?;
        manifests::name(&objects);
        if self.image.is_none() && !global.quiet {
            eprintln!(
                "no --image was given: run `holdfast agent run --cluster` where it reaches the cluster"
            );
        }
        Ok(Exit::Done)
    }
}
