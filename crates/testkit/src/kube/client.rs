//! The least client that a test needs: a path and JSON in, a status and JSON out.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::http;

#[derive(Clone)]
pub struct Client {
    url: String,
    token: String,
    http: reqwest::Client,
}

impl Client {
    pub fn new(url: &str, ca_pem: &[u8], token: &str) -> Self {
        let ca = reqwest::Certificate::from_pem(ca_pem).expect("a certificate");
        let http = http()
            .tls_certs_only([ca])
            .http1_only()
            .timeout(Duration::from_secs(60))
            .build()
            .expect("a client");
        Self { url: url.to_owned(), token: token.to_owned(), http }
    }

    /// The status and what came with it: JSON, or the text as a string. Panics only where nobody answers.
    /// A connection from before a restart may lead nowhere, so what fails is asked once more.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let mut answer = self.try_ask(method.clone(), path, media_type, body).await;
        if answer.is_err() {
            answer = self.try_ask(method.clone(), path, media_type, body).await;
        }
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
    }

    pub async fn try_ask(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), reqwest::Error> {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.header("content-type", media_type).body(body.to_string());
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    pub(super) async fn answers(&self, path: &str) -> bool {
        matches!(self.try_ask(Method::GET, path, "", None).await, Ok((200, _)))
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, "", None).await
    }

    /// All objects of a list, however many pages it takes.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut token) = (vec![], String::new());
        loop {
            let (status, mut page) = self.get(&format!("{path}{joint}limit=500&continue={token}")).await;
            assert_eq!(status, 200, "{path}: {page}");
            if let Value::Array(found) = page["items"].take() {
                items.extend(found);
            }
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                return items;
            }
        }
    }

    pub async fn create(&self, path: &str, object: &Value) -> (u16, Value) {
        self.ask(Method::POST, path, "application/json", Some(object)).await
    }

    pub async fn update(&self, path: &str, object: &Value) -> (u16, Value) {
        self.ask(Method::PUT, path, "application/json", Some(object)).await
    }

    /// A merge patch.
    pub async fn patch(&self, path: &str, patch: &Value) -> (u16, Value) {
        self.ask(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.ask(Method::DELETE, path, "", None).await
    }

    /// The hash that discovery shows for a resource: `("/apis/stable.example.com/v1", "widgets")`.
    pub async fn discovered_hash(&self, group_version_path: &str, resource: &str) -> Option<String> {
        let (_, document) = self.get(group_version_path).await;
        let resources = document["resources"].as_array()?;
        let found = resources.iter().find(|entry| entry["name"] == resource)?;
        found["storageVersionHash"].as_str().map(str::to_owned)
    }

    /// Asks again until the answer is right, and gives that. For what the API server does on its own time.
    pub async fn until(&self, path: &str, right: impl Fn(u16, &Value) -> bool) -> Value {
        // A minute is for a busy machine; nothing here is expected to take a second.
        for _ in 0..2400 {
            if let Ok((status, value)) = self.try_ask(Method::GET, path, "", None).await
                && right(status, &value)
            {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let (status, value) = self.get(path).await;
        panic!("{path} does not become what it should: {status}: {value}");
    }
}
