//! ConfigMaps that a pod mounts, as kubelets lay them out: files are links into a directory that is exchanged as a whole when the
//! map has changed. There are no mounts here: a container finds the directory of the volume `name` in the variable `VOLUME_NAME`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::Value;

use crate::kube::client::Client;

pub struct Volume {
    name: String,
    /// Of the map, in the API.
    path: String,
    optional: bool,
    directory: PathBuf,
    /// What lies there, and how often that was another.
    content: Option<BTreeMap<String, String>>,
    changes: u32,
}

impl Volume {
    /// All of a pod.
    pub fn of(pod: &Value, directory: &Path) -> Vec<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, pod_name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let maps = volumes.filter_map(|volume| {
            let map = volume.get("configMap")?;
            let name = text(&volume["name"]);
            Some(Self {
                path: format!("/api/v1/namespaces/{namespace}/configmaps/{}", text(&map["name"])),
                optional: map["optional"] == true,
                directory: directory.join("volumes").join(&pod_name).join(&name),
                name,
                content: None,
                changes: 0,
            })
        });
        maps.collect()
    }

    pub fn variable(&self) -> (String, String) {
        let name = self.name.to_uppercase().replace('-', "_");
        (format!("VOLUME_{name}"), self.directory.display().to_string())
    }

    /// As the map is now. False: the pod has to wait for it.
    pub async fn refresh(&mut self, client: &Client) -> bool {
        let content = match client.try_ask(Method::GET, &self.path, "", None).await {
            Ok((200, map)) => {
                let data = map["data"].as_object().cloned().unwrap_or_default();
                let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
                data.into_iter().map(|(name, value)| (name, text(value))).collect()
            }
            Ok((404, _)) if self.optional => BTreeMap::new(),
            // What lies there stays, as on a node whose API server is away.
            _ => return self.content.is_some(),
        };
        if self.content.as_ref() != Some(&content) {
            self.changes += 1;
            self.lay_out(&content).expect("a volume");
            self.content = Some(content);
        }
        true
    }

    fn lay_out(&self, content: &BTreeMap<String, String>) -> io::Result<()> {
        let at = |name: &str| self.directory.join(name);
        let data = format!("..{}", self.changes);
        fs::create_dir_all(at(&data))?;
        for (name, text) in content {
            fs::write(at(&data).join(name), text)?;
        }
        symlink(&data, at("..data_tmp"))?;
        fs::rename(at("..data_tmp"), at("..data"))?;
        let before = self.content.iter().flatten().map(|(name, _)| name);
        for gone in before.clone().filter(|name| !content.contains_key(*name)) {
            fs::remove_file(at(gone))?;
        }
        let known: Vec<&String> = before.collect();
        for new in content.keys().filter(|name| !known.contains(name)) {
            symlink(Path::new("..data").join(new), at(new))?;
        }
        Ok(())
    }
}
