//! Layers made at random: against a model that knows only paths, and against a wall that nothing may get over.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use proptest::prelude::*;
use tar::{EntryType, Header};

use super::*;

const LIMIT: u64 = 1 << 20;
const BUDGET: Budget = Budget { bytes: 1 << 20, entries: 10_000 };

#[derive(Debug, Clone)]
enum Said {
    Dir(String),
    File(String, u8),
    Removed(String),
    Emptied(String),
    Symlink(String, String),
    Link(String, String),
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["a", "b", "c"], 1..4).prop_map(|parts| parts.join("/"))
}

fn plain() -> impl Strategy<Value = Said> {
    prop_oneof![
        2 => path().prop_map(Said::Dir),
        4 => (path(), any::<u8>()).prop_map(|(path, content)| Said::File(path, content)),
        2 => path().prop_map(Said::Removed),
        1 => path().prop_map(Said::Emptied),
    ]
}

fn hostile(outside: String) -> impl Strategy<Value = Said> {
    let targets =
        [".", "..", "../outside", "../../outside", "/", "a", "b/c", "/proc/self/cwd", "/proc/self/fd"];
    let mut targets: Vec<String> = targets.map(str::to_owned).to_vec();
    targets.extend([outside.clone(), format!("{outside}/keep"), format!("{outside}/inner")]);
    let inside = prop_oneof![
        path(),
        path().prop_map(|path| format!("{path}/keep")),
        path().prop_map(|path| format!("{path}/inner/keep")),
        path().prop_map(|path| format!("{path}/outside/keep")),
    ];
    let somewhere = inside.boxed();
    let (to, from) = (somewhere.clone(), somewhere.clone());
    prop_oneof![
        3 => plain(),
        3 => (path(), proptest::sample::select(targets)).prop_map(|(path, to)| Said::Symlink(path, to)),
        2 => (from, to).prop_map(|(path, to)| Said::Link(path, to)),
        2 => (somewhere.clone(), any::<u8>()).prop_map(|(path, content)| Said::File(path, content)),
        1 => somewhere.clone().prop_map(Said::Removed),
        1 => somewhere.prop_map(Said::Emptied),
    ]
}

fn layers(said: impl Strategy<Value = Said>) -> impl Strategy<Value = Vec<Vec<Said>>> {
    proptest::collection::vec(proptest::collection::vec(said, 0..8), 1..5)
}

fn above(path: &str) -> (&str, &str) {
    path.rsplit_once('/').map_or(("", path), |(above, name)| (above, name))
}

fn archive(layer: &[Said]) -> Vec<u8> {
    let mut archive = tar::Builder::new(vec![]);
    for said in layer {
        let in_parent = |path: &str, name: String| match above(path).0 {
            "" => name,
            above => format!("{above}/{name}"),
        };
        let (path, kind, target, content) = match said {
            Said::Dir(path) => (path.clone(), EntryType::Directory, "", vec![]),
            Said::File(path, content) => (path.clone(), EntryType::Regular, "", vec![*content]),
            Said::Removed(path) => {
                (in_parent(path, format!(".wh.{}", above(path).1)), EntryType::Regular, "", vec![])
            }
            Said::Emptied(path) => (format!("{path}/.wh..wh..opq"), EntryType::Regular, "", vec![]),
            Said::Symlink(path, target) => (path.clone(), EntryType::Symlink, target.as_str(), vec![]),
            Said::Link(path, target) => (path.clone(), EntryType::Link, target.as_str(), vec![]),
        };
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_path(&path).unwrap();
        if !target.is_empty() {
            header.set_link_name(target).unwrap();
        }
        header.set_cksum();
        archive.append(&header, &content[..]).unwrap();
    }
    archive.into_inner().unwrap()
}

/// What is at each path: a file's content, or none for a directory.
type Tree = BTreeMap<String, Option<u8>>;

/// All removals of a layer are about those below it, and come first.
fn expected(layers: &[Vec<Said>]) -> Tree {
    let mut tree = Tree::new();
    let in_it =
        |path: &str, directory: &str| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    for layer in layers {
        for said in layer {
            match said {
                Said::Removed(gone) => tree.retain(|path, _| path != gone && !in_it(path, gone)),
                Said::Emptied(directory) => tree.retain(|path, _| !in_it(path, directory)),
                _ => {}
            }
        }
        for said in layer {
            let (path, content) = match said {
                Said::Dir(path) => (path, None),
                Said::File(path, content) => (path, Some(*content)),
                _ => continue,
            };
            for (at, _) in path.match_indices('/') {
                // What was a file there is a directory now.
                tree.insert(path[..at].to_owned(), None);
            }
            if content.is_some() || !matches!(tree.get(path), Some(None)) {
                tree.retain(|other, _| !in_it(other, path));
            }
            tree.insert(path.clone(), content);
        }
    }
    tree
}

fn found(root: &Path) -> Tree {
    let (mut tree, mut left) = (Tree::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                tree.insert(name, None);
                left.push(path);
            } else {
                tree.insert(name, Some(fs::read(path).unwrap()[0]));
            }
        }
    }
    tree
}

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("holdfast-tree-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("root")).unwrap();
        fs::create_dir_all(path.join("outside/inner")).unwrap();
        fs::write(path.join("outside/keep"), "keep").unwrap();
        fs::write(path.join("outside/inner/keep"), "keep").unwrap();
        Self(path)
    }

    /// Everything that somebody could have done out there.
    fn outside(&self) -> Vec<String> {
        let mut seen = vec![];
        for directory in ["", "outside", "outside/inner"] {
            let mut names: Vec<_> =
                fs::read_dir(self.0.join(directory)).unwrap().map(|it| it.unwrap().path()).collect();
            names.sort();
            for path in names.iter().filter(|path| !path.ends_with("root")) {
                let meta = path.symlink_metadata().unwrap();
                seen.push(format!("{path:?} {} {:o} {}", meta.ino(), meta.mode(), meta.nlink()));
            }
        }
        for file in ["outside/keep", "outside/inner/keep"] {
            seen.push(fs::read_to_string(self.0.join(file)).unwrap());
        }
        seen
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = disk::tree::remove(&self.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn layers_give_the_tree_that_their_paths_say(layers in layers(plain())) {
        let place = Place::new();
        let mut writer = TreeWriter::new(&place.0.join("root"), Extent::Whole, BUDGET).unwrap();
        for layer in &layers {
            writer.layer(&archive(layer)[..], LIMIT).unwrap();
        }
        prop_assert_eq!(found(&place.0.join("root")), expected(&layers));
    }

    #[test]
    fn no_layers_get_out_of_the_directory(
        (place, layers) in Just(()).prop_map(|()| Arc::new(Place::new())).prop_flat_map(|place| {
            let outside = place.0.join("outside").to_str().unwrap().to_owned();
            (Just(place), layers(hostile(outside)))
        })
    ) {
        for extent in [Extent::Whole, Extent::PlainFiles] {
            let _ = disk::tree::remove(&place.0.join("root"));
            fs::create_dir(place.0.join("root")).unwrap();
            let before = place.outside();
            let mut writer = TreeWriter::new(&place.0.join("root"), extent, BUDGET).unwrap();
            for layer in &layers {
                // Refused or not: what counts is what has become of the others.
                let _ = writer.layer(&archive(layer)[..], LIMIT);
                prop_assert_eq!(&place.outside(), &before);
            }
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
