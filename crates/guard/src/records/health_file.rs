//! `<backups>/health.json`: the document's list of deployments, for people, and the record of boots beside it.
//!
//! Fields that this version does not know are kept: a rollback may bring back an older program than the one that
//! wrote the file. Files of the document's own making (`deployment_id`, no boots, YAML) are understood.

use logic::guard::{Boot, BootId, Boots, Health, PreRun};
use logic::host::DeploymentId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Thousands of boots fit; what is larger was not written by guard.
pub const LIMIT: u64 = 4 * 1024 * 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Shape {
    #[serde(default)]
    deployments: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_deployment: Option<DeploymentId>,
    #[serde(default)]
    boots: Vec<Boot>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(alias = "deployment_id")]
    id: DeploymentId,
    #[serde(default)]
    microshift: Health,
    #[serde(default)]
    system: Health,
    #[serde(default)]
    last_boot: String,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// The record of boots, with whatever else was in the file.
#[derive(Debug, Default)]
pub struct HealthFile {
    pub boots: Boots,
    unknown: Map<String, Value>,
    unknown_of: Vec<(DeploymentId, Map<String, Value>)>,
}

pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Plain data with string keys: serialization into memory has nothing to fail on.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

impl HealthFile {
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string()).map(Self::from_shape)
    }

    pub fn parse_yaml(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        serde_saphyr::from_str(text).map_err(|error| error.to_string()).map(Self::from_shape)
    }

    fn from_shape(shape: Shape) -> Self {
        let mut boots = Boots::from_records(shape.boots);
        adopt(&mut boots, &shape.deployments);
        let unknown_of = shape.deployments.into_iter().filter(|entry| !entry.unknown.is_empty());
        Self { boots, unknown: shape.unknown, unknown_of: unknown_of.map(|e| (e.id, e.unknown)).collect() }
    }

    pub fn render(&self) -> Vec<u8> {
        let mut latest: Vec<&Boot> = self
            .boots
            .iter()
            .filter(|boot| self.boots.last_of(&boot.deployment).is_some_and(|last| last.seq == boot.seq))
            .collect();
        latest.sort_by_key(|boot| std::cmp::Reverse(boot.seq));
        let unknown_of = |id: &DeploymentId| {
            self.unknown_of
                .iter()
                .find(|(known, _)| known == id)
                .map(|(_, map)| map.clone())
                .unwrap_or_default()
        };
        to_json(&Shape {
            last_deployment: latest.first().map(|boot| boot.deployment.clone()),
            deployments: latest
                .iter()
                .map(|boot| Entry {
                    id: boot.deployment.clone(),
                    microshift: boot.workload,
                    system: boot.system,
                    last_boot: boot.at.clone(),
                    unknown: unknown_of(&boot.deployment),
                })
                .collect(),
            boots: self.boots.iter().cloned().collect(),
            unknown: self.unknown.clone(),
        })
    }
}

/// Entries that have no boot behind them come from a file of the document's making: ordered by their time, the only
/// order they have. Where an entry and its boot disagree, somebody has edited the file: the entry is the wish.
fn adopt(boots: &mut Boots, entries: &[Entry]) {
    let mut by_time: Vec<&Entry> = entries.iter().collect();
    by_time.sort_by(|a, b| a.last_boot.cmp(&b.last_boot));
    // Imported boots go before all that guard recorded itself, or count from one.
    let imported: Vec<Boot> = by_time
        .iter()
        .filter(|entry| boots.last_of(&entry.id).is_none())
        .zip(1..)
        .map(|(entry, seq)| Boot {
            seq,
            boot: BootId::new("imported"),
            deployment: entry.id.clone(),
            pre_run: PreRun::None,
            ran: true,
            workload: entry.microshift,
            system: entry.system,
            vouched: entry.system == Health::Healthy,
            at: entry.last_boot.clone(),
        })
        .collect();
    if !imported.is_empty() {
        let shift = imported.len() as u64;
        let own = boots.iter().cloned();
        // With boots of guard's own there, entries without one are leftovers of an older file: keep them oldest.
        let first = boots.iter().next().map_or(u64::MAX, |boot| boot.seq);
        let fits = first > shift;
        let kept = imported.into_iter().filter(|_| fits);
        *boots = Boots::from_records(kept.chain(own).collect());
    }
    for entry in entries {
        let Some(seq) = boots.last_of(&entry.id).map(|boot| boot.seq) else { continue };
        boots.judge_workload(seq, entry.microshift);
        if boots.get(seq).is_some_and(|boot| boot.system != entry.system) {
            boots.judge_system(seq, entry.system);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{ "deployments": [
        {"deployment_id": "rhel-d1", "microshift": "healthy", "system": "unhealthy", "last_boot": "2023-07-01 02:00:00", "x": 1},
        {"id": "rhel-d2", "microshift": "unknown", "system": "healthy", "last_boot": "2023-07-01 01:00:00"}
    ], "y": [2] }"#;

    #[test]
    fn a_file_of_the_documents_making_is_taken_over_in_the_order_of_its_times() {
        let file = HealthFile::parse(DOCUMENT.as_bytes()).unwrap();
        let order: Vec<_> = file.boots.iter().map(|boot| (boot.deployment.as_str(), boot.vouched)).collect();
        assert_eq!(order, [("rhel-d2", true), ("rhel-d1", false)]);
    }

    #[test]
    fn yaml_is_read_as_well() {
        let yaml = "deployments:\n- id: rhel-d1\n  microshift: healthy\n  system: healthy\n  last_boot: 2023-07-01 00:00:00\n";
        let file = HealthFile::parse_yaml(yaml.as_bytes()).unwrap();
        assert_eq!(file.boots.iter().next().unwrap().system, Health::Healthy);
    }

    #[test]
    fn unknown_fields_survive_a_rewrite() {
        let file = HealthFile::parse(DOCUMENT.as_bytes()).unwrap();
        let again: Value = serde_json::from_slice(&file.render()).unwrap();
        assert_eq!(again["y"], serde_json::json!([2]));
        assert_eq!(again["deployments"][0]["x"], 1);
        assert_eq!(again["deployments"][0]["id"], "rhel-d1");
    }

    #[test]
    fn an_edited_verdict_is_taken_for_the_wish_of_whoever_edited_it() {
        let mut file = HealthFile::default();
        let seq = file.boots.enter(1, &BootId::new("b"), &DeploymentId::new("d1").unwrap(), "now");
        file.boots.started(seq);
        file.boots.judge_system(seq, Health::Unhealthy);
        let text = String::from_utf8(file.render()).unwrap();
        let edited = text.replacen(r#""system": "unhealthy""#, r#""system": "healthy""#, 1);
        assert_ne!(text, edited);
        let again = HealthFile::parse(edited.as_bytes()).unwrap();
        assert!(again.boots.get(seq).unwrap().vouched);
    }
}
