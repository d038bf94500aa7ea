//! A vendor who signs with OpenPGP, a site that signs with a key in PEM, and a machine at release 1.0.0 that trusts both.

use std::fs;
use std::path::PathBuf;

use agent::quarantine::{Checked, Quarantine, Refusal, Sources, Trust};
use logic::agent::{By, Target};
use oci::Limits;
use semver::Version;
use testkit::gpg::Gpg;
use testkit::image::Descriptor;
use testkit::registry::Scratch;
use testkit::releases::{CosignKey, Release, Releases};

pub struct Stage {
    pub scratch: Scratch,
    pub gpg: Gpg,
    pub site: CosignKey,
    pub releases: Releases,
    pub sources: Sources,
    pub trust: Trust,
    pub quarantine: Quarantine,
}

impl Stage {
    pub fn new() -> Self {
        let scratch = Scratch::new("quarantine");
        let gpg = Gpg::new();
        gpg.key("vendor", "ed25519", "never");
        let site = CosignKey::new(&scratch.0, "p256");
        let vendor = scratch.join("vendor.asc");
        fs::write(&vendor, gpg.export("vendor")).unwrap();
        let trust = Trust { keys: vec![vendor, site.public_file().to_owned()], ..Trust::default() };
        let releases = Releases::create(&scratch.join("published"));
        let limits = Limits { retries: 1, ..Limits::default() };
        let sources = Sources { limits, ..Sources::default() };
        let quarantine = Quarantine::open(&scratch.join("state/quarantine")).unwrap();
        Self { scratch, gpg, site, releases, sources, trust, quarantine }
    }

    pub fn two() -> Release {
        Release::new("2.0.0", &["1.0.0"]).file("bin/tool", 0o755, b"#!/bin/sh\n")
    }

    /// Published and signed by both.
    pub fn publish(&mut self, release: &Release) -> Descriptor {
        let image = self.releases.add(release);
        self.sign(&image.digest);
        image
    }

    pub fn sign(&mut self, digest: &str) {
        self.releases.sign_openpgp(digest, &self.gpg, "vendor");
        self.releases.sign_cosign(digest, &self.site);
    }

    pub fn target(&self, image: &str) -> Target {
        let version = Version::new(2, 0, 0);
        Target { version, image: image.to_owned(), by: By::Automatic, forced: vec![], request: None }
    }

    pub async fn fetch(&self, image: &str) -> Result<(), Refusal> {
        self.quarantine.fetch(image, &self.sources, &self.trust, &|_, _| {}).await
    }

    pub async fn check(&self, image: &str) -> Result<Checked, Refusal> {
        self.quarantine.check(&self.target(image), &Version::new(1, 0, 0), &self.trust).await
    }

    /// As the agent does it.
    pub async fn take(&self, image: &str) -> Result<Checked, Refusal> {
        self.fetch(image).await?;
        self.check(image).await
    }

    pub fn tree(&self) -> PathBuf {
        self.scratch.join("state/quarantine/tree")
    }

    /// Refused for good, for this reason and with a way out; by the fetch already or by the check, and nothing unpacked that
    /// nobody is responsible for.
    pub async fn refused(&self, image: &str, why: &str) -> Refusal {
        let refusal = self.take(image).await.unwrap_err();
        let text = oci::chain(&refusal);
        assert!(text.contains(why), "{text}");
        assert!(!refusal.is_passing() && !refusal.way_out().is_empty(), "{text}");
        self.quarantine.clear().await.unwrap();
        let left = fs::read_dir(self.scratch.join("state/quarantine")).unwrap().count();
        assert_eq!(left, 0);
        refusal
    }
}
