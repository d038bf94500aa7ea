//! Manifests that a part brings along, and their way into a cluster.

use std::time::Duration;

pub use kube::api::DynamicObject;
use kube::api::{Api, ApiResource, GroupVersionKind, ListParams, Patch, PatchParams, TypeMeta};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::request::RequestError;

/// Whose fields they are, in server-side apply.
const MANAGER: &str = "holdfast";
/// For the API server to serve a new custom resource.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// Rules in the schema of a custom resource, which older API servers don't know.
pub const RULES: &str = "x-kubernetes-validations";

/// Those that are compiled in: a test reads them all.
pub fn documents(text: &str) -> Vec<DynamicObject> {
    serde_saphyr::from_multiple(text).unwrap_or_default()
}

/// The same Deployments, of which the first container is of this image.
pub fn of_image(mut objects: Vec<DynamicObject>, image: &str) -> Vec<DynamicObject> {
    for object in &mut objects {
        if let Some(container) = object.data.pointer_mut("/spec/template/spec/containers/0") {
            container["image"] = Value::from(image);
        }
    }
    objects
}

/// Makes the cluster have these, in order, whoever made them before; and waits until it serves what they define. Rules in
/// schemas go without where the API server refuses them, as kubectl does on its own.
pub async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<(), RequestError> {
    for object in objects {
        let name = object.name_any();
        let types = object.types.clone().unwrap_or_default();
        let what = format!("apply {} {name}", types.kind);
        let api = api_of(client, object, &types);
        let parameters = PatchParams::apply(MANAGER).force();
        let mut applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
        if matches!(&applied, Err(kube::Error::Api(status)) if status.message.contains(RULES)) {
            applied = api.patch(&name, &parameters, &Patch::Apply(&without_rules(object))).await;
        }
        applied.map_err(RequestError::of(what.clone()))?;
        if types.kind == "CustomResourceDefinition" {
            established(&api, &name).await.map_err(RequestError::of(what))?;
            listed(client, object).await;
        }
    }
    Ok(())
}

fn without_rules(object: &DynamicObject) -> DynamicObject {
    let mut plain = object.clone();
    let versions = plain.data.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(Value::Object(schema)) = version.pointer_mut("/schema/openAPIV3Schema") {
            schema.remove(RULES);
        }
    }
    plain
}

fn api_of(client: &Client, object: &DynamicObject, types: &TypeMeta) -> Api<DynamicObject> {
    let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn established(api: &Api<DynamicObject>, name: &str) -> kube::Result<()> {
    let deadline = tokio::time::Instant::now() + SERVED_WITHIN;
    loop {
        let definition = api.get(name).await?;
        let conditions = definition.data.pointer("/status/conditions").and_then(Value::as_array);
        let holds = |it: &Value| it["type"] == "Established" && it["status"] == "True";
        // If it takes longer, the first request for it says so better than we could.
        if conditions.is_some_and(|all| all.iter().any(holds)) || tokio::time::Instant::now() > deadline {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the API server lists the objects of a definition. Newer ones answer 429 while they prepare the cache of a new custom
/// resource, for up to a few seconds after it is established.
async fn listed(client: &Client, definition: &DynamicObject) {
    let Some(resource) = defined(definition) else { return };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let deadline = tokio::time::Instant::now() + SERVED_WITHIN;
    while let Err(kube::Error::Api(status)) = api.list(&ListParams::default().limit(1)).await {
        // Any other answer is for the first real request to report.
        if !matches!(status.code, 404 | 429 | 503) || tokio::time::Instant::now() > deadline {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The resource of a definition, in the first version that is served.
fn defined(definition: &DynamicObject) -> Option<ApiResource> {
    let text = |value: &Value, path: &str| value.pointer(path)?.as_str().map(str::to_owned);
    let versions = definition.data.pointer("/spec/versions")?.as_array()?;
    let served = versions.iter().find(|version| version["served"] == true)?;
    let kind = GroupVersionKind::gvk(
        &text(&definition.data, "/spec/group")?,
        &text(served, "/name")?,
        &text(&definition.data, "/spec/names/kind")?,
    );
    Some(ApiResource::from_gvk_with_plural(&kind, &text(&definition.data, "/spec/names/plural")?))
}
