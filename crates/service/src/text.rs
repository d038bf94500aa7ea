//! Counters, and the text form in which Prometheus reads them. Written by hand: a registry with labels would be another
//! look-up on the way of every request, and the form is three lines.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn take(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A page of metrics, with the service's name before each.
#[derive(Debug)]
pub struct Page {
    prefix: &'static str,
    text: String,
}

impl Page {
    /// `prefix` is like `holdfast_graph`.
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        let Self { prefix, text } = self;
        // Writing to a string can't fail.
        let _ = writeln!(text, "# HELP {prefix}_{name} {help}\n# TYPE {prefix}_{name} {kind}");
    }

    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let Self { prefix, text } = self;
        let _ = write!(text, "{prefix}_{name}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
            let _ = write!(text, "{}{label}=\"{value}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_form_that_prometheus_reads() {
        let mut page = Page::new("holdfast");
        page.head("seen_total", "counter", "What was seen.");
        page.line("seen_total", &[], 3);
        page.line("seen_total", &[("by", "a \"friend\""), ("where", "x\\y\nz")], 0.5);
        assert_eq!(
            page.finish(),
            "# HELP holdfast_seen_total What was seen.\n# TYPE holdfast_seen_total counter\nholdfast_seen_total 3\n\
             holdfast_seen_total{by=\"a \\\"friend\\\"\",where=\"x\\\\y z\"} 0.5\n"
        );
    }
}
