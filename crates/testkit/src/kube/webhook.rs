//! Webhooks that the API server calls: one converts widgets, one refuses objects by name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::https::{Https, Reply, Request};
use super::{Client, Keys, lock};

/// Where a conversion webhook is, as a CRD wants to know it.
#[derive(Debug, Clone)]
pub struct Conversion {
    pub url: String,
    pub ca_bundle: String,
}

#[derive(Debug, Default)]
struct State {
    asked: u64,
    broken: bool,
    delay: Duration,
    refused: Vec<String>,
}

impl State {
    fn refuses(&self, object: &Value) -> bool {
        object["metadata"]["name"]
            .as_str()
            .is_some_and(|name| self.refused.iter().any(|refused| refused == name))
    }
}

/// What both have: an HTTPS server, and switches.
struct Webhook {
    https: Https,
    state: Arc<Mutex<State>>,
    ca_bundle: String,
}

impl Webhook {
    fn start(keys: &Keys, answer: fn(&State, Value) -> Value) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let handler = move |request: Request| {
            let (delay, reply) = {
                let mut state = lock(&shared);
                state.asked += 1;
                let reply = match serde_json::from_slice(&request.body) {
                    _ if state.broken => Reply::text(500, "broken, as told"),
                    Ok(review) => Reply::json(200, &answer(&state, review)),
                    Err(error) => Reply::text(400, &error.to_string()),
                };
                (state.delay, reply)
            };
            Box::pin(async move {
                tokio::time::sleep(delay).await;
                reply
            }) as super::https::Work
        };
        Self { https: Https::start(keys, Arc::new(handler)), state, ca_bundle: keys.ca_bundle() }
    }
}

macro_rules! switches {
    ($name:ident) => {
        impl $name {
            /// From now on connections are refused.
            pub fn down(&self) {
                self.0.https.down();
            }

            pub fn up(&self) {
                self.0.https.up();
            }

            /// Answers 500 while set.
            pub fn broken(&self, broken: bool) {
                lock(&self.0.state).broken = broken;
            }

            /// Takes so long for each answer.
            pub fn slow(&self, delay: Duration) {
                lock(&self.0.state).delay = delay;
            }

            /// Fails for objects of these names, and no others.
            pub fn refuse(&self, names: &[&str]) {
                lock(&self.0.state).refused = names.iter().map(|name| (*name).to_owned()).collect();
            }

            /// How often it was asked.
            pub fn asked(&self) -> u64 {
                lock(&self.0.state).asked
            }
        }
    };
}

/// Converts widgets between any two versions: what is `spec.filling` in `v1`, is `spec.stuffing` in others.
/// One that it fails for fails the whole request of the API server, also that for a list.
pub struct ConversionWebhook(Webhook);
switches!(ConversionWebhook);

impl ConversionWebhook {
    pub fn start(keys: &Keys) -> Self {
        Self(Webhook::start(keys, convert))
    }

    pub fn conversion(&self) -> Conversion {
        Conversion { url: format!("{}/convert", self.0.https.url()), ca_bundle: self.0.ca_bundle.clone() }
    }
}

fn convert(state: &State, mut review: Value) -> Value {
    let mut request = review["request"].take();
    let wanted = request["desiredAPIVersion"].clone();
    let Value::Array(mut objects) = request["objects"].take() else { return json!({}) };
    let failed =
        objects.iter().find(|object| state.refuses(object)).map(|object| object["metadata"]["name"].clone());
    for object in &mut objects {
        object["apiVersion"] = wanted.clone();
        let to_first = wanted.as_str().is_some_and(|wanted| wanted.ends_with("/v1"));
        let (from, to) = if to_first { ("stuffing", "filling") } else { ("filling", "stuffing") };
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
    }
    let result = match failed {
        None => json!({"status": "Success"}),
        Some(name) => json!({"status": "Failure", "message": format!("{name} is not converted, as told")}),
    };
    json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {"uid": request["uid"], "result": result, "convertedObjects": objects},
    })
}

/// Says no to objects of given names.
pub struct AdmissionWebhook(Webhook);
switches!(AdmissionWebhook);

/// Is always refused, so that one can see whether the API server asks already.
const PROBE: &str = "is-it-asked";

impl AdmissionWebhook {
    pub fn start(keys: &Keys) -> Self {
        Self(Webhook::start(keys, admit))
    }

    /// For what is created and updated of `resource` in `group`; `failurePolicy: Fail`.
    pub fn configuration(&self, group: &str, resource: &str) -> Value {
        let rule = |group: &str, resource: &str| {
            json!({
                "apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
                "operations": ["CREATE", "UPDATE"], "scope": "*",
            })
        };
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "refuses"},
            "webhooks": [{
                "name": "refuses.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "rules": [rule(group, resource), rule("", "configmaps")],
                "clientConfig": {"url": format!("{}/validate", self.0.https.url()), "caBundle": self.0.ca_bundle},
            }],
        })
    }

    /// Registers it, and waits until the API server asks it.
    pub async fn install(&self, client: &Client, group: &str, resource: &str) {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let (status, said) = client.create(path, &self.configuration(group, resource)).await;
        assert_eq!(status, 201, "{said}");
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PROBE}});
        for _ in 0..2400 {
            if client.create("/api/v1/namespaces/default/configmaps?dryRun=All", &probe).await.0 != 201 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the API server does not ask the webhook");
    }
}

fn admit(state: &State, mut review: Value) -> Value {
    let request = review["request"].take();
    let refused = state.refuses(&request["object"]) || request["name"] == PROBE;
    let mut response = json!({"uid": request["uid"], "allowed": !refused});
    if refused {
        response["status"] =
            json!({"code": 422, "message": format!("{} is refused, as told", request["name"])});
    }
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}
