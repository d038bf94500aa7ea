//! One page of a list, cut into objects without understanding them: what is not parsed can't be changed on the way back.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default)]
pub(super) struct Page {
    /// The bytes of each object, as they came.
    pub objects: Vec<Bytes>,
    /// Leads to the next page; none after the last.
    pub next: Option<String>,
    /// Objects after this page, where the API server tells.
    pub remaining: Option<u64>,
    pub bytes: usize,
}

/// Objects larger than this are copied out of their page, so that one that takes its time does not keep the others in
/// memory; smaller ones are slices of it.
const LARGE: usize = 8 * 1024;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
    remaining_item_count: Option<i64>,
}

impl Page {
    pub fn parse(bytes: &Bytes) -> serde_json::Result<Self> {
        let list: List<'_> = serde_json::from_slice(bytes)?;
        let items = list.items.unwrap_or_default();
        let large = bytes.len() / items.len().max(1) > LARGE;
        let cut = |item: &&RawValue| match large {
            true => Bytes::copy_from_slice(item.get().as_bytes()),
            false => bytes.slice_ref(item.get().as_bytes()),
        };
        Ok(Self {
            objects: items.iter().map(cut).collect(),
            next: Some(list.metadata.next).filter(|token| !token.is_empty()),
            remaining: list.metadata.remaining_item_count.and_then(|count| count.try_into().ok()),
            bytes: bytes.len(),
        })
    }
}

/// All that is read of an object.
#[derive(Deserialize)]
pub(super) struct Identity<'a> {
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub resource_version: Cow<'a, str>,
}

impl<'a> Metadata<'a> {
    pub fn of(object: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice::<Identity<'a>>(object).map(|it| it.metadata)
    }
}

/// How many objects to ask for, so that a page has about [`AIM`] bytes: memory must not depend on how large objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageSize {
    limit: usize,
}

/// A few hundred small objects; several migrations hold two pages each.
const AIM: usize = 256 * 1024;
/// A page that turns out larger is not read to its end, unless it is a single object.
const TOO_LARGE: usize = 2 * 1024 * 1024;
/// Nothing that can be stored is larger.
const LARGEST_OBJECT: usize = 32 * 1024 * 1024;
const FIRST: usize = 16;
const MOST: usize = 500;

impl Default for PageSize {
    fn default() -> Self {
        Self { limit: FIRST }
    }
}

impl PageSize {
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// After how many bytes to stop reading.
    pub fn most_bytes(&self) -> usize {
        if self.limit > 1 { TOO_LARGE } else { LARGEST_OBJECT }
    }

    /// The page before this one tells how large objects are; they may be larger further on, so it grows in steps.
    pub fn read(&mut self, page: &Page) {
        if let Some(each) = page.bytes.checked_div(page.objects.len()) {
            let each = each.max(1);
            self.limit = (AIM / each).clamp(1, MOST).min(self.limit * 8);
        }
    }

    /// It was too much: for the memory here, or for the server.
    pub fn shrink(&mut self) {
        self.limit = (self.limit / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_into_the_bytes_of_its_objects() {
        let text = r#"{"kind":"L","metadata":{"resourceVersion":"7","continue":"abc","remainingItemCount":12},
            "items":[{"metadata":{"name":"a","namespace":"n","resourceVersion":"3"},"x":[1, 2]},{"metadata":{"name":"b\u0020c"}}]}"#;
        let page = Page::parse(&Bytes::from(text)).unwrap();
        assert_eq!(page.objects.len(), 2);
        assert_eq!(
            page.objects[0],
            r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"3"},"x":[1, 2]}"#
        );
        assert_eq!((page.next.as_deref(), page.remaining), (Some("abc"), Some(12)));
        let first = Metadata::of(&page.objects[0]).unwrap();
        assert_eq!((&*first.name, &*first.namespace, &*first.resource_version), ("a", "n", "3"));
        assert_eq!(Metadata::of(&page.objects[1]).unwrap().name, "b c");
    }

    #[test]
    fn a_list_without_objects_is_a_page() {
        for text in [r#"{"metadata":{},"items":null}"#, r#"{"metadata":{"continue":""},"items":[]}"#] {
            let page = Page::parse(&Bytes::from(text)).unwrap();
            assert!(page.objects.is_empty() && page.next.is_none());
        }
        assert!(Page::parse(&Bytes::from("Too many requests")).is_err());
    }

    #[test]
    fn pages_are_sized_by_bytes() {
        let page = |objects: usize, each: usize| Page {
            objects: vec![Bytes::new(); objects],
            bytes: objects * each,
            ..Page::default()
        };
        let mut size = PageSize::default();
        size.read(&page(16, 600));
        assert_eq!(size.limit(), 128);
        size.read(&page(128, 600));
        assert_eq!(size.limit(), 436);
        size.read(&page(100, 100_000));
        assert_eq!(size.limit(), 2);
        (0..5).for_each(|_| size.shrink());
        assert_eq!(size.limit(), 1);
        assert_eq!(size.most_bytes(), LARGEST_OBJECT);
    }
}
