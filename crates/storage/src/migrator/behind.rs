//! Which server has a resource: the API server that is asked, or another one behind it, which has a pace of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Api;
use logic::storage::Resource;
use tracing::debug;

use super::Migrator;
use super::reply::Requests;
use super::throttle::Throttle;
use crate::stored_versions::Definition;
use crate::watch::ApiService;

/// By group. All migrations share them.
pub(super) type Behind = Arc<Mutex<BTreeMap<String, Throttle>>>;

impl Migrator {
    /// For the objects of a resource: at the pace of the server that has them.
    pub(super) async fn requests_for(
        &self,
        resource: &Resource,
        version: &str,
        definition: Option<&Definition>,
    ) -> Requests {
        let requests = self.requests.clone();
        // The API server has what is custom, and what is built in; groups of others are domains.
        if definition.is_some() || !resource.group.contains('.') {
            return requests;
        }
        let api: Api<ApiService> = Api::all(requests.client.clone());
        match api.get_opt(&format!("{version}.{}", resource.group)).await {
            Ok(Some(service)) if service.is_aggregated() => {
                let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
                let throttle = behind.entry(resource.group.clone());
                let throttle = throttle.or_insert_with(|| requests.throttle.behind()).clone();
                Requests { throttle, ..requests }
            }
            Ok(_) => requests,
            Err(error) => {
                debug!(%resource, cause = %error, "who has it can't be told; it goes at the pace of all");
                requests
            }
        }
    }
}
