//! A made-up product with many releases: graph data in the public layout, and the releases that it is about. The same
//! size and seed give the same bytes. Plain strings only, so that nothing here shares code with what it tests.

use std::fs;
use std::io;
use std::path::Path;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Versions; each exists on every architecture.
    pub releases: usize,
    /// At most as many as there are in [`ARCHITECTURES`].
    pub architectures: usize,
    /// Files in `blocked-edges`, most of them conditional.
    pub blocked: usize,
    /// Files in `channels`.
    pub channels: usize,
}

impl Size {
    /// About what the largest public graph has.
    pub const LARGE: Self = Self { releases: 1000, architectures: 4, blocked: 1700, channels: 76 };
}

pub const ARCHITECTURES: [&str; 6] = ["amd64", "arm64", "ppc64le", "s390x", "riscv64", "multi"];
const TRACKS: [&str; 4] = ["candidate", "fast", "stable", "eus"];

/// How many earlier releases of its own and of the last minor version a release can be reached from.
const REACH: (usize, usize) = (24, 12);

/// One release of one architecture, as a registry would hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedRelease {
    pub version: String,
    pub arch: &'static str,
    /// `sha256:…`, of nothing real.
    pub digest: String,
    pub previous: Vec<String>,
    pub metadata: Vec<(String, String)>,
}

/// All releases, by version and then by architecture.
pub fn releases(size: Size, seed: u64) -> Vec<GeneratedRelease> {
    let product = Product::new(size);
    let mut random = Random(seed ^ 0x5e1ea5e);
    let mut all = Vec::with_capacity(size.releases * size.architectures);
    for at in 0..size.releases {
        let version = product.version(at);
        let previous = product.previous(at);
        let (minor, patch) = product.place(at);
        for arch in &ARCHITECTURES[..size.architectures.min(ARCHITECTURES.len())] {
            let words: [u64; 4] = std::array::from_fn(|_| random.next());
            let advisory =
                format!("https://updates.example.com/advisories/{}:{minor:02}{patch:03}", 2020 + minor / 3);
            all.push(GeneratedRelease {
                version: version.clone(),
                arch,
                digest: format!("sha256:{}", words.map(|word| format!("{word:016x}")).concat()),
                previous: previous.clone(),
                metadata: vec![("url".to_owned(), advisory)],
            });
        }
    }
    all
}

/// `version`, `channels/*.yaml`, `blocked-edges/*.yaml` and `raw/metadata.json` under a directory.
pub fn write_graph_data(dir: &Path, size: Size, seed: u64) -> io::Result<()> {
    let product = Product::new(size);
    let mut random = Random(seed);
    fs::create_dir_all(dir.join("channels"))?;
    fs::create_dir_all(dir.join("blocked-edges"))?;
    fs::create_dir_all(dir.join("raw"))?;
    fs::write(dir.join("version"), "1.1.0\n")?;
    for (name, versions) in product.channels() {
        let mut text = format!("name: {name}\nversions:\n");
        versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
        fs::write(dir.join(format!("channels/{name}.yaml")), text)?;
    }
    for number in 0..size.blocked {
        let block = product.block(number, &mut random);
        fs::write(dir.join(format!("blocked-edges/{}", block.file)), block.yaml())?;
    }
    fs::write(dir.join("raw/metadata.json"), product.raw(&mut random))
}

/// The blocks that [`write_graph_data`] writes, as values.
pub fn blocks(size: Size, seed: u64) -> Vec<GeneratedBlock> {
    let product = Product::new(size);
    let mut random = Random(seed);
    (0..size.blocked).map(|number| product.block(number, &mut random)).collect()
}

/// One file of `blocked-edges`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedBlock {
    pub file: String,
    pub to: String,
    pub from: String,
    /// None: a plain block.
    pub risk: Option<GeneratedRisk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedRisk {
    pub url: String,
    pub name: &'static str,
    pub message: String,
    /// None: it concerns everybody.
    pub promql: Option<String>,
}

impl GeneratedBlock {
    fn yaml(&self) -> String {
        let mut text = format!("to: {}\nfrom: {}\n", self.to, self.from);
        let Some(risk) = &self.risk else { return text };
        let indent = |text: &str, by: &str| text.replace('\n', &format!("\n{by}"));
        text.push_str(&format!(
            "url: {}\nname: {}\nmessage: |-\n  {}\n",
            risk.url,
            risk.name,
            indent(&risk.message, "  ")
        ));
        match &risk.promql {
            None => text.push_str("matchingRules:\n- type: Always\n"),
            Some(query) => text.push_str(&format!(
                "matchingRules:\n- type: PromQL\n  promql:\n    promql: |-\n      {}\n",
                indent(query, "      ")
            )),
        }
        text
    }
}

/// The names of the channels, and what is approved in each.
pub fn channels(size: Size) -> Vec<(String, Vec<String>)> {
    Product::new(size).channels()
}

struct Product {
    size: Size,
    minors: usize,
}

impl Product {
    fn new(size: Size) -> Self {
        Self { size, minors: size.channels.div_ceil(TRACKS.len()).clamp(1, size.releases.max(1)) }
    }

    /// Minor version and patch of the release at a position.
    fn place(&self, at: usize) -> (usize, usize) {
        let each = self.size.releases.div_ceil(self.minors);
        (at / each, at % each)
    }

    fn version(&self, at: usize) -> String {
        let (minor, patch) = self.place(at);
        // The first two of each minor version are candidates of its first release.
        match patch {
            0 | 1 => format!("4.{minor}.0-rc.{patch}"),
            patch => format!("4.{minor}.{}", patch - 2),
        }
    }

    fn of_minor(&self, minor: usize) -> std::ops::Range<usize> {
        let each = self.size.releases.div_ceil(self.minors);
        (minor * each).min(self.size.releases)..((minor + 1) * each).min(self.size.releases)
    }

    fn previous(&self, at: usize) -> Vec<String> {
        let (minor, patch) = self.place(at);
        let own = self.of_minor(minor).start;
        let mut from: Vec<usize> = (own.max(at.saturating_sub(REACH.0))..at).collect();
        if let Some(before) = minor.checked_sub(1) {
            // A later patch is reached from later patches of the minor version before.
            let range = self.of_minor(before);
            let end = (range.start + 3 + patch).min(range.end);
            from.extend(range.start.max(end.saturating_sub(REACH.1))..end);
        }
        from.sort_unstable();
        from.into_iter().map(|at| self.version(at)).collect()
    }

    fn channels(&self) -> Vec<(String, Vec<String>)> {
        let all = (0..self.minors).flat_map(|minor| TRACKS.map(|track| (minor, track)));
        all.take(self.size.channels)
            .map(|(minor, track)| {
                let held_back = TRACKS.iter().position(|name| *name == track).unwrap_or_default();
                let from = self.of_minor(minor.saturating_sub(if track == "eus" { 2 } else { 1 })).start;
                let own = self.of_minor(minor);
                let until = own.end.saturating_sub(held_back).max(own.start);
                let approved = (from..until)
                    .map(|at| self.version(at))
                    .filter(|version| track == "candidate" || !version.contains('-'));
                (format!("{track}-4.{minor}"), approved.collect())
            })
            .collect()
    }

    fn block(&self, number: usize, random: &mut Random) -> GeneratedBlock {
        const RISKS: [&str; 8] = [
            "SlowDNSLookups",
            "LostRoutes",
            "OldFirmwarePanics",
            "LeakingConnections",
            "StuckCertificates",
            "MissingDrivers",
            "ClockDrift",
            "QuotaMiscount",
        ];
        let first = 2.min(self.size.releases - 1);
        let at = first + random.below(self.size.releases - first);
        let (version, (minor, _)) = (self.version(at), self.place(at));
        let before = minor.saturating_sub(1);
        let from = match random.below(4) {
            0 => format!("4[.]{before}[.].*"),
            1 => format!("4[.]{before}[.]([0-9]|1[0-9])[+].*"),
            2 => format!("4[.]{minor}[.][0-9][+].*"),
            _ => format!("4[.]({before}|{minor})[.]1[0-9].*"),
        };
        let risk = RISKS[random.below(RISKS.len())];
        let to = match random.below(8) {
            0 => format!("{version}+{}", ARCHITECTURES[random.below(self.size.architectures.clamp(1, 6))]),
            _ => version.clone(),
        };
        let file = format!("{version}-{risk}-{number:04}.yaml");
        if random.below(20) == 0 {
            return GeneratedBlock { file, to, from, risk: None };
        }
        let query = || {
            format!(
                "topk(1,\n  group by (type) (host_info{{condition=\"{risk}\"}})\n  or\n  \
                 0 * group by (type) (host_info)\n)"
            )
        };
        let risk = GeneratedRisk {
            url: format!("https://issues.example.com/browse/HF-{}", 1000 + number),
            name: risk,
            message: format!(
                "Hosts with the condition that {risk} is about may lose their network for some minutes after the \
                 update."
            ),
            promql: (random.below(3) > 0).then(query),
        };
        GeneratedBlock { file, to, from, risk: Some(risk) }
    }

    fn raw(&self, random: &mut Random) -> String {
        let count = (self.size.releases / 100).min(self.size.releases);
        let mut chosen: Vec<usize> = (0..count).map(|_| random.below(self.size.releases)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let entries = chosen.into_iter().map(|at| {
            let version = self.version(at);
            format!("  {version:?}: {{\"support\": \"https://support.example.com/{version}\"}}")
        });
        format!("{{\n{}\n}}\n", entries.collect::<Vec<_>>().join(",\n"))
    }
}

/// Splitmix64: no dependency, and the same numbers for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_is_as_much_of_everything_as_was_asked_for() {
        let size = Size::LARGE;
        let all = releases(size, 1);
        assert_eq!(all.len(), 4000);
        let digests: BTreeSet<&str> = all.iter().map(|release| release.digest.as_str()).collect();
        let versions: BTreeSet<&str> = all.iter().map(|release| release.version.as_str()).collect();
        assert_eq!((digests.len(), versions.len()), (4000, 1000));
        assert_eq!(all, releases(size, 1));
        let channels = channels(size);
        assert_eq!(channels.len(), 76);
        for (name, approved) in &channels {
            assert!(!approved.is_empty(), "{name}");
            assert!(approved.iter().all(|version| versions.contains(version.as_str())), "{name}");
        }
        assert!(
            all.iter().flat_map(|release| &release.previous).all(|name| versions.contains(name.as_str()))
        );
        let dir = std::env::temp_dir().join(format!("holdfast-graph-data-{}", std::process::id()));
        write_graph_data(&dir, size, 1).unwrap();
        let count = |name: &str| fs::read_dir(dir.join(name)).unwrap().count();
        assert_eq!((count("blocked-edges"), count("channels")), (1700, 76));
        fs::remove_dir_all(&dir).unwrap();
    }
}
