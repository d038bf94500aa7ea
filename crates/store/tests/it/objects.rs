//! What the store promises: versions, conflicts, removal in two steps, watches that miss nothing.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::{Action, Error, File, Kind, Objects, Store, Version};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thing {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    creation_timestamp: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Spec {
    size: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Status {
    seen: u32,
}

struct Things;
impl Kind for Things {
    const NAME: &'static str = "Thing";
    type Object = Thing;
}

struct Others;
impl Kind for Others {
    const NAME: &'static str = "Other";
    type Object = Thing;
}

fn thing(name: &str, size: u32) -> Thing {
    let metadata = Metadata { name: name.to_owned(), ..Metadata::default() };
    Thing { metadata, spec: Spec { size }, status: Status::default() }
}

fn version(thing: &Thing) -> Version {
    Version(thing.metadata.resource_version.clone())
}

struct Dir(PathBuf);
impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("holdfast-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(File::open(&self.0.join("state.redb")).unwrap())
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_write_that_is_based_on_an_older_version_is_refused() {
    let dir = Dir::new("conflict");
    let things = Objects::<Things>::new(dir.open());
    let first = things.create(&thing("a", 1)).await.unwrap();
    assert!(!first.metadata.creation_timestamp.is_empty());
    let mut second = first.clone();
    second.spec.size = 2;
    let second = things.update_spec(&second).await.unwrap();
    assert_ne!(version(&first), version(&second));
    assert!(matches!(things.update_spec(&first).await, Err(Error::Conflict { .. })));
    assert!(matches!(things.update_status(&first).await, Err(Error::Conflict { .. })));
    assert!(matches!(things.remove("a", &version(&first)).await, Err(Error::Conflict { .. })));
    assert!(matches!(things.create(&thing("a", 9)).await, Err(Error::Exists { .. })));
    assert_eq!(things.get("a").await.unwrap(), Some(second));
}

#[tokio::test]
async fn an_object_that_was_made_anew_under_its_name_is_another_one() {
    let dir = Dir::new("anew");
    let things = Objects::<Things>::new(dir.open());
    let before = things.create(&thing("a", 1)).await.unwrap();
    things.remove("a", &version(&before)).await.unwrap();
    things.create(&thing("a", 1)).await.unwrap();
    assert!(matches!(things.update_spec(&before).await, Err(Error::Conflict { .. })));
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let dir = Dir::new("parts");
    let things = Objects::<Things>::new(dir.open());
    let mut object = things.create(&thing("a", 1)).await.unwrap();
    object.spec.size = 7;
    object.status.seen = 7;
    let object = things.update_status(&object).await.unwrap();
    assert_eq!((object.spec.size, object.status.seen), (1, 7));
    let again = things.update_status(&object).await.unwrap();
    assert_eq!(version(&again), version(&object), "nothing changed, so there is no new version");
}

#[tokio::test]
async fn what_is_marked_stays_until_it_is_removed() {
    let dir = Dir::new("marked");
    let things = Objects::<Things>::new(dir.open());
    things.create(&thing("a", 1)).await.unwrap();
    let marked = things.mark_deleted("a").await.unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(things.mark_deleted("a").await.unwrap(), marked);
    assert_eq!(things.get("a").await.unwrap(), Some(marked.clone()));
    things.remove("a", &version(&marked)).await.unwrap();
    assert_eq!(things.get("a").await.unwrap(), None);
    assert!(matches!(things.mark_deleted("a").await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn who_watches_from_a_list_sees_every_change_of_its_kind_in_order() {
    let dir = Dir::new("watch");
    let store = dir.open();
    let (things, others) = (Objects::<Things>::new(Arc::clone(&store)), Objects::<Others>::new(store));
    things.create(&thing("before", 1)).await.unwrap();
    let list = things.list().await.unwrap();
    assert_eq!(list.items.len(), 1);
    let a = things.create(&thing("a", 1)).await.unwrap();
    others.create(&thing("other", 1)).await.unwrap();
    let a = things.update_spec(&Thing { spec: Spec { size: 2 }, ..a }).await.unwrap();
    let mut watch = things.watch(&list.version).unwrap();
    let (first, second) = (watch.next().await.unwrap(), watch.next().await.unwrap());
    assert_eq!((first.action, first.object.spec.size), (Action::Added, 1));
    assert_eq!((second.action, second.object.spec.size), (Action::Modified, 2));
    let waiting = tokio::spawn(async move { watch.next().await });
    things.remove("a", &version(&a)).await.unwrap();
    let last = waiting.await.unwrap().unwrap();
    assert_eq!((last.action, last.name.as_str(), last.object.spec.size), (Action::Removed, "a", 2));
}

/// More than is remembered for those who watch.
async fn create_many(things: &Objects<Things>) {
    let mut creating = tokio::task::JoinSet::new();
    for number in 0..4200 {
        let things = things.clone();
        creating
            .spawn(async move { things.create(&thing(&format!("many-{number}"), number)).await.unwrap() });
    }
    creating.join_all().await;
}

#[tokio::test]
async fn a_watch_that_can_not_tell_everything_says_so() {
    let dir = Dir::new("too-old");
    let things = Objects::<Things>::new(dir.open());
    let start = things.list().await.unwrap().version;
    let mut slow = things.watch(&start).unwrap();
    create_many(&things).await;
    assert!(matches!(slow.next().await, Err(Error::TooOld(_))));
    for bad in ["0", "nonsense", "999999999"] {
        assert!(matches!(things.watch(&Version(bad.to_owned())), Err(Error::TooOld(_))), "{bad}");
    }
    assert!(things.watch(&things.list().await.unwrap().version).is_ok());
}

#[tokio::test]
async fn a_quiet_kind_does_not_become_too_old() {
    let dir = Dir::new("quiet");
    let store = dir.open();
    let (things, others) = (Objects::<Things>::new(Arc::clone(&store)), Objects::<Others>::new(store));
    let mut watch = others.watch(&others.list().await.unwrap().version).unwrap();
    let watching = tokio::spawn(async move { watch.next().await });
    create_many(&things).await;
    others.create(&thing("b", 5)).await.unwrap();
    assert_eq!(watching.await.unwrap().unwrap().object.spec.size, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_writers_of_one_version_one_wins() {
    let dir = Dir::new("race");
    let things = Objects::<Things>::new(dir.open());
    let object = things.create(&thing("a", 0)).await.unwrap();
    let writers: Vec<_> = (1..=50)
        .map(|size| {
            let (things, mine) = (things.clone(), Thing { spec: Spec { size }, ..object.clone() });
            tokio::spawn(async move { things.update_spec(&mine).await })
        })
        .collect();
    let mut won = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(_) => won += 1,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn an_object_beyond_the_limit_is_refused_and_nothing_changes() {
    let dir = Dir::new("large");
    let store = dir.open();
    let text = "x".repeat(2 << 20);
    let large = serde_json::json!({"metadata": {"name": "a"}, "spec": {"text": text}});
    assert!(matches!(store.create("Thing", large).await, Err(Error::TooLarge { .. })));
    for bad in [serde_json::json!({"metadata": {"name": ""}, "spec": {}}), serde_json::json!([1])] {
        assert!(matches!(store.create("Thing", bad).await, Err(Error::Shape { .. })));
    }
    assert!(store.list("Thing").await.unwrap().items.is_empty());
}

#[tokio::test]
async fn everything_is_there_again_after_it_was_closed_and_versions_go_on() {
    let dir = Dir::new("again");
    let (kept, before) = {
        let things = Objects::<Things>::new(dir.open());
        let kept = things.create(&thing("a", 1)).await.unwrap();
        let gone = things.create(&thing("b", 1)).await.unwrap();
        things.remove("b", &version(&gone)).await.unwrap();
        (kept, things.list().await.unwrap().version)
    };
    let things = Objects::<Things>::new(dir.open());
    let list = things.list().await.unwrap();
    assert_eq!((list.items.as_slice(), &list.version), (&[kept][..], &before));
    let new = things.create(&thing("b", 2)).await.unwrap();
    assert!(version(&new).0.parse::<u64>().unwrap() > before.0.parse::<u64>().unwrap());
}
