//! Answers as bytes: put together from pieces that were written once per graph, tagged, and compressed ahead.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::HeaderValue;
use logic::graph::data::Risk;
use logic::graph::document::{Document, DocumentNode, PAYLOAD_KIND, Payload};
use logic::graph::{Graph, View};

use crate::settings::PayloadForm;

/// Enough to make a graph small.
const COMPRESSION: Compression = Compression::fast();

/// One answer, in both encodings.
#[derive(Debug)]
pub struct Answer {
    pub body: Bytes,
    gzip: OnceLock<Bytes>,
    pub tag: HeaderValue,
    /// Another representation must have another strong tag.
    pub gzip_tag: HeaderValue,
    /// Since the cache last looked for something to let go.
    used: AtomicBool,
}

impl Answer {
    pub fn new(body: Vec<u8>) -> Self {
        let hash = blake3::hash(&body).to_hex();
        let tag = |end: &str| {
            let text = format!("\"{}{end}\"", &hash.as_str()[..32]);
            HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"\""))
        };
        Self {
            tag: tag(""),
            gzip_tag: tag("-gzip"),
            gzip: OnceLock::new(),
            body: Bytes::from(body),
            used: AtomicBool::new(true),
        }
    }

    /// Compressed, if that is done already: it takes longer than all the rest, so the first client does not wait for it.
    pub fn gzip(&self) -> Option<&Bytes> {
        self.gzip.get()
    }

    pub fn compressed(&self) -> &Bytes {
        self.gzip.get_or_init(|| Bytes::from(compress(&self.body)))
    }

    /// What it takes in memory, about, with the compressed form whether it is there yet or not.
    pub fn bytes(&self) -> usize {
        const REST: usize = 512;
        self.body.len() + self.body.len() / 4 + REST
    }

    pub fn touch(&self) {
        // Reading first keeps the line shared between processors.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was used since the last time somebody asked.
    pub fn forget_use(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    pub fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }
}

fn compress(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 6 + 64), COMPRESSION);
    // Writing to memory can't fail; were it to, the client would get an empty stream, which is no graph either.
    let done = encoder.write_all(body).and_then(|()| encoder.finish());
    done.unwrap_or_default()
}

/// The nodes and risks of one graph as JSON. Versions are without their architecture: a client sees only one.
#[derive(Debug)]
pub struct Fragments {
    text: Vec<u8>,
    /// Where each node's piece ends.
    ends: Vec<usize>,
    versions: Vec<String>,
    /// By the address of the list that the graph's edges share.
    risks: HashMap<usize, Vec<u8>>,
}

impl Fragments {
    pub fn of(graph: &Graph, form: PayloadForm) -> Self {
        let mut fragments = Self { text: vec![], ends: vec![], versions: vec![], risks: HashMap::new() };
        for node in graph.nodes() {
            let version = node.name.version.to_string();
            let document = DocumentNode {
                version: version.clone(),
                payload: payload(node.payload.clone(), form),
                metadata: node.metadata.clone(),
            };
            json(&mut fragments.text, &document);
            fragments.ends.push(fragments.text.len());
            fragments.versions.push(version);
        }
        for from in 0..graph.nodes().len() as u32 {
            for (_, risks) in graph.conditional(from) {
                fragments.risks.entry(address(risks)).or_insert_with(|| {
                    let mut text = Vec::new();
                    json(&mut text, &**risks);
                    text
                });
            }
        }
        fragments
    }

    fn node(&self, id: u32) -> &[u8] {
        let at = id as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// `view` is of the graph that these are the pieces of.
    pub fn assemble(&self, view: &View) -> Vec<u8> {
        let nodes: usize = view.nodes.iter().map(|&id| self.node(id).len() + 1).sum();
        let conditional: usize = view.conditional.iter().map(|group| group.edges.len()).sum();
        let mut out = Vec::with_capacity(128 + nodes + view.edges.len() * 10 + conditional * 48);
        out.extend_from_slice(br#"{"version":1,"nodes":["#);
        list(&mut out, &view.nodes, |out, &id| out.extend_from_slice(self.node(id)));
        out.extend_from_slice(br#"],"edges":["#);
        list(&mut out, &view.edges, |out, &(from, to)| {
            out.push(b'[');
            number(out, from);
            out.push(b',');
            number(out, to);
            out.push(b']');
        });
        out.extend_from_slice(br#"],"conditionalEdges":["#);
        let version = |position: u32| self.versions[view.nodes[position as usize] as usize].as_bytes();
        list(&mut out, &view.conditional, |out, group| {
            out.extend_from_slice(br#"{"edges":["#);
            list(out, &group.edges, |out, &(from, to)| {
                out.extend_from_slice(br#"{"from":""#);
                out.extend_from_slice(version(from));
                out.extend_from_slice(br#"","to":""#);
                out.extend_from_slice(version(to));
                out.extend_from_slice(br#""}"#);
            });
            out.extend_from_slice(br#"],"risks":"#);
            match self.risks.get(&address(&group.risks)) {
                Some(text) => out.extend_from_slice(text),
                None => json(out, &*group.risks),
            }
            out.push(b'}');
        });
        out.extend_from_slice(b"]}");
        out
    }
}

/// The whole graph, architectures and all, for other services to chain onto.
pub fn whole(graph: &Graph, form: PayloadForm) -> Answer {
    let mut document = Document::of(graph);
    for node in &mut document.nodes {
        if let Payload::Image(image) = std::mem::take(&mut node.payload) {
            node.payload = payload(image, form);
        }
    }
    let mut body = Vec::new();
    json(&mut body, &document);
    Answer::new(body)
}

fn payload(image: String, form: PayloadForm) -> Payload {
    match form {
        PayloadForm::Image => Payload::Image(image),
        PayloadForm::Document => Payload::Document { kind: PAYLOAD_KIND.to_owned(), image },
    }
}

fn address(risks: &Arc<[Risk]>) -> usize {
    Arc::as_ptr(risks).cast::<Risk>().addr()
}

/// Text keys and text values only, written to memory: there is nothing that could fail.
fn json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).unwrap_or_default();
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut one: impl FnMut(&mut Vec<u8>, &T)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        one(out, item);
    }
}

fn number(out: &mut Vec<u8>, number: u32) {
    let mut digits = [0; 10];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for value in [0, 9, 10, 4096, u32::MAX] {
            let mut out = Vec::new();
            number(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
