//! Where a resource's objects are.

use std::fmt::Write;

pub(super) struct Paths {
    /// `/api/v1`, `/apis/batch/v1`.
    root: String,
    resource: String,
}

impl Paths {
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        let root = match group.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{group}/{version}"),
        };
        Self { root, resource: resource.to_owned() }
    }

    /// A page of the collection, over all namespaces.
    pub fn page(&self, limit: usize, token: Option<&str>) -> String {
        let mut path = format!("{}/{}?limit={limit}", self.root, self.resource);
        if let Some(token) = token {
            path.push_str("&continue=");
            encode(&mut path, token);
        }
        path
    }

    /// One object; outside of namespaces where there is none.
    pub fn object(&self, namespace: &str, name: &str) -> String {
        let capacity = self.root.len() + self.resource.len() + namespace.len() + name.len() + 16;
        let mut path = String::with_capacity(capacity);
        path.push_str(&self.root);
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            encode(&mut path, namespace);
        }
        path.push('/');
        path.push_str(&self.resource);
        path.push('/');
        encode(&mut path, name);
        path
    }
}

/// Most names are plain, but roles may be called almost anything.
fn encode(path: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                path.push(byte.into())
            }
            // Writing to a string can't fail.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_kind_are_reached() {
        let jobs = Paths::new("batch", "v1", "jobs");
        assert_eq!(jobs.object("default", "a-1.b"), "/apis/batch/v1/namespaces/default/jobs/a-1.b");
        assert_eq!(jobs.page(5, Some("a=/+")), "/apis/batch/v1/jobs?limit=5&continue=a%3D%2F%2B");
        let roles = Paths::new("", "v1", "nodes");
        assert_eq!(roles.object("", "system:a b?#é"), "/api/v1/nodes/system:a%20b%3F%23%C3%A9");
    }
}
