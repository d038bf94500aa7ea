//! One pod: its containers as processes, and what is to be said of them.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kube::process::Process;

/// A process that lives this long is ready.
const READY_AFTER: Duration = Duration::from_millis(300);
const RESTART_AFTER: Duration = Duration::from_millis(300);
/// Between being asked to end and being killed, whatever the pod says: nobody waits for half a minute here.
const GRACE: Duration = Duration::from_secs(5);

enum State {
    /// Its image can't be had.
    Missing,
    /// It has no command: it does nothing, for ever.
    Idle,
    Running {
        process: Process,
        since: Instant,
    },
    Ended {
        code: i32,
        at: Instant,
        /// It stays so.
        for_good: bool,
    },
}

struct Container {
    name: String,
    image: String,
    command: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    state: State,
    restarts: u32,
}

pub struct Pod {
    namespace: String,
    name: String,
    restart_policy: String,
    containers: Vec<Container>,
    told: Option<Value>,
    asked_to_end: Option<Instant>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn variables(object: &Value, container: &Value) -> Vec<(String, String)> {
    let all = container["env"].as_array().into_iter().flatten();
    all.map(|variable| {
        let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
            Some(path) => {
                text(object.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null))
            }
            None => text(&variable["value"]),
        };
        (text(&variable["name"]), value)
    })
    .collect()
}

impl Pod {
    pub fn new(object: &Value, directory: &Path, environment: &[(String, String)]) -> Self {
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let words = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        let containers = object["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
            let image = text(&container["image"]);
            let command = [words(&container["command"]), words(&container["args"])].concat();
            let state = match (image.starts_with("missing"), container["command"].is_null()) {
                (true, _) => State::Missing,
                (_, true) => State::Idle,
                _ => State::Ended { code: 0, at: Instant::now() - RESTART_AFTER, for_good: false },
            };
            let container_name = text(&container["name"]);
            Container {
                log: directory.join(format!("{name}.{container_name}.log")),
                environment: [environment.to_vec(), variables(object, container)].concat(),
                name: container_name,
                image,
                command,
                state,
                restarts: 0,
            }
        });
        Self {
            containers: containers.collect(),
            restart_policy: text(&object["spec"]["restartPolicy"]),
            namespace,
            name,
            told: None,
            asked_to_end: None,
        }
    }

    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name)
    }

    pub fn running(&self) -> impl Iterator<Item = ((String, String, String), u32)> + '_ {
        self.containers.iter().filter_map(|container| match &container.state {
            State::Running { process, .. } => {
                Some(((self.namespace.clone(), self.name.clone(), container.name.clone()), process.id()))
            }
            _ => None,
        })
    }

    /// Starts what is to run, and sees what has ended.
    pub fn go_on(&mut self) {
        for container in &mut self.containers {
            container.go_on(&self.restart_policy);
        }
    }

    /// Whether all has ended that was asked to.
    pub fn has_ended(&mut self) -> bool {
        let asked = *self.asked_to_end.get_or_insert_with(|| {
            for container in &mut self.containers {
                if let State::Running { process, .. } = &mut container.state {
                    process.ask_to_end();
                }
            }
            Instant::now()
        });
        self.containers.iter_mut().all(|container| match &mut container.state {
            State::Running { process, .. } => {
                if asked.elapsed() > GRACE {
                    process.kill();
                }
                process.ended().is_some()
            }
            _ => true,
        })
    }

    /// The status, where it is another than was told last.
    pub fn news(&mut self) -> Option<Value> {
        let statuses: Vec<Value> = self.containers.iter().map(Container::status).collect();
        let all = |is: fn(&State) -> bool| self.containers.iter().all(|it| is(&it.state));
        let for_good = all(|state| matches!(state, State::Ended { for_good: true, .. }));
        let well = all(|state| matches!(state, State::Ended { code: 0, .. }));
        let ready = !for_good && statuses.iter().all(|status| status["ready"] == true);
        let phase = match (for_good, well) {
            (true, true) => "Succeeded",
            (true, false) => "Failed",
            _ if all(|state| matches!(state, State::Missing)) => "Pending",
            _ => "Running",
        };
        let holds =
            |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
        let status = json!({"status": {
            "phase": phase, "podIP": "127.0.0.1", "hostIP": "127.0.0.1",
            "conditions": [
                holds("Initialized", true), holds("PodScheduled", true), holds("ContainersReady", ready),
                holds("Ready", ready),
            ],
            "containerStatuses": statuses,
        }});
        let news = self.told.as_ref() != Some(&status);
        self.told = Some(status.clone());
        news.then_some(status)
    }

    /// It did not arrive.
    pub fn untold(&mut self) {
        self.told = None;
    }
}

impl Container {
    fn go_on(&mut self, restart_policy: &str) {
        match &mut self.state {
            State::Missing | State::Idle | State::Ended { for_good: true, .. } => {}
            State::Running { process, .. } => {
                if let Some(status) = process.ended() {
                    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                    let for_good = match restart_policy {
                        "Never" => true,
                        "OnFailure" => code == 0,
                        _ => false,
                    };
                    self.restarts += u32::from(!for_good);
                    self.state = State::Ended { code, at: Instant::now(), for_good };
                }
            }
            State::Ended { at, .. } if at.elapsed() < RESTART_AFTER => {}
            State::Ended { .. } => {
                let (program, arguments) = self.command.split_first().expect("a command");
                let process = Process::with_environment(
                    Path::new(program),
                    arguments,
                    &self.environment,
                    self.log.clone(),
                );
                self.state = State::Running { process, since: Instant::now() };
            }
        }
    }

    fn status(&self) -> Value {
        let (ready, state) = match &self.state {
            State::Missing => (
                false,
                json!({"waiting": {"reason": "ErrImagePull", "message": format!("no image {}", self.image)}}),
            ),
            State::Idle => (true, json!({"running": {}})),
            State::Running { since, .. } => (since.elapsed() > READY_AFTER, json!({"running": {}})),
            State::Ended { code, for_good: true, .. } => (false, json!({"terminated": {"exitCode": code}})),
            State::Ended { .. } => (false, json!({"waiting": {"reason": "CrashLoopBackOff"}})),
        };
        json!({
            "name": self.name, "image": self.image, "imageID": "", "ready": ready, "restartCount": self.restarts,
            "started": ready, "state": state,
        })
    }
}
