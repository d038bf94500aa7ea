//! A file of graph data, whatever is in it: noted or read, and never the end of the others.
#![no_main]

use graph::data::files;
use graph::data::tree::Tree;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says what the file is; as a letter, so that seeds can be written by hand.
    let Some((kind, content)) = bytes.split_first() else { return };
    let path = match kind % 4 {
        0 => "channels/fuzzed.yaml",
        1 => "blocked-edges/fuzzed.yaml",
        2 => "raw/metadata.json",
        _ => "version",
    };
    let mut tree = Tree::default();
    tree.insert("version".into(), b"1.0.0".to_vec());
    tree.insert("channels/good.yaml".into(), b"name: good\nversions: [1.0.0]\n".to_vec());
    tree.insert(path.into(), content.to_vec());
    let Ok((data, notes)) = files::read(&tree) else {
        assert_eq!(path, "version", "only the version makes a tree unreadable");
        return;
    };
    // A channel of the same name may come first and take its place.
    assert!(data.channels.iter().any(|channel| channel.name == "good"));
    let lines =
        content.split(|byte| *byte == b'\n').count() + content.iter().filter(|byte| **byte == b'\r').count();
    for note in notes.iter() {
        if let logic::graph::Place::File { path: told, line: Some(line) } = &note.place
            && told == path
        {
            assert!((1..=lines + 1).contains(line), "line {line} of {lines}: {note}");
        }
        assert!(!note.to_string().contains('\n'), "{note}");
    }
    let _ = logic::graph::lint::lint(&data);
});
