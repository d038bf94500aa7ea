//! Every mistake in graph data is told with its file and its line, and none of them hides what is right.

use graph::data::files::{self, LayoutError};
use graph::data::tree::Tree;
use logic::graph::{GraphData, Notes};

fn tree(entries: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    tree.insert("version".into(), b"1.2.0\n".to_vec());
    for (path, content) in entries {
        tree.insert((*path).to_owned(), content.as_bytes().to_vec());
    }
    tree
}

fn read(entries: &[(&str, &str)]) -> (GraphData, Notes) {
    files::read(&tree(entries)).unwrap()
}

/// `severity code place`, of each note.
fn notes(entries: &[(&str, &str)]) -> Vec<String> {
    let (_, notes) = read(entries);
    let brief = |text: String| {
        let (place, rest) = text.split_once(": ").unwrap();
        let severity = rest.split(':').next().unwrap();
        let code = rest.rsplit_once(" [").unwrap().1.trim_end_matches(']');
        format!("{severity} {code} {place}")
    };
    notes.iter().map(|note| brief(note.to_string())).collect()
}

const GOOD_CHANNEL: (&str, &str) = ("channels/good.yaml", "name: good\nversions: [1.0.0]\n");

#[test]
fn the_layout_of_version_1_is_read_and_no_other() {
    for good in ["1.0.0", "1.9.3\n", " 1.0.0 "] {
        let mut tree = tree(&[]);
        tree.insert("version".into(), good.as_bytes().to_vec());
        assert!(files::read(&tree).is_ok(), "{good:?}");
    }
    for bad in ["", "1", "2.0.0", "0.9.0", "one", "1.0.0\n1.0.0", &"1".repeat(10_000)] {
        let mut tree = tree(&[]);
        tree.insert("version".into(), bad.as_bytes().to_vec());
        let error = files::read(&tree).unwrap_err();
        assert!(error.to_string().contains("1.x"), "{error}");
        assert!(error.to_string().len() < 400, "{error}");
    }
    assert_eq!(files::read(&Tree::default()).unwrap_err(), LayoutError::NoVersion);
}

#[test]
fn public_data_is_read_without_a_word() {
    let entries = [
        (
            "channels/stable-4.16.yaml",
            "feeder:\n  delay: PT48H\n  filter: 4\\.[0-9]+\\.[0-9]+\n  name: fast-4.16\nname: stable-4.16\n\
             tombstones:\n- 4.16.3\nversions:\n# a remark\n- 4.16.1\n\n- 4.16.2+amd64\n- \"4.16.4\"\ntarget: 4.16.2\n",
        ),
        ("blocked-edges/a.yaml", "to: 4.16.2\nfrom: ^4\\.15\\..*\n"),
        (
            "blocked-edges/b.yml",
            "to: 4.16.4\nfrom: .*\nfixedIn: 4.16.5\nautoExtend: true\nurl: https://example.net/1\nname: Slow\n\
             message: |-\n  It is slow.\n  Very.\nmatchingRules:\n- type: PromQL\n  promql:\n    promql: |\n      up > 0\n\
             - type: Always\n",
        ),
        (
            "raw/metadata.json",
            "{\n \"4.16.1\": {\"io.openshift.upgrades.graph.previous.add\": \"4.15.1\", \"x\": null}\n}",
        ),
        ("README.md", "words"),
    ];
    let (data, notes) = read(&entries);
    assert!(notes.is_empty(), "{notes:?}");
    let channel = &data.channels[0];
    assert_eq!(channel.name, "stable-4.16");
    let versions: Vec<_> = channel.versions.iter().map(|(name, at)| format!("{name} {at}")).collect();
    assert_eq!(
        versions,
        [
            "4.16.1 channels/stable-4.16.yaml:10",
            "4.16.2+amd64 channels/stable-4.16.yaml:12",
            "4.16.4 channels/stable-4.16.yaml:13"
        ]
    );
    let (target, at) = channel.target.as_ref().unwrap();
    assert_eq!(
        (target.to_string(), at.to_string()),
        ("4.16.2".into(), "channels/stable-4.16.yaml:14".into())
    );
    assert!(data.blocks[0].risk.is_none() && data.blocks[0].from.is_match("4.15.3+amd64"));
    let risk = data.blocks[1].risk.as_ref().unwrap();
    assert_eq!((risk.name.as_str(), risk.message.as_str()), ("Slow", "It is slow.\nVery."));
    assert_eq!(risk.matching_rules[0].promql.as_ref().unwrap().promql, "up > 0\n");
    assert_eq!((risk.matching_rules[1].kind.as_str(), &risk.matching_rules[1].promql), ("Always", &None));
    assert_eq!(data.raw[0].labels.len(), 1);
    assert_eq!(data.raw[0].place.to_string(), "raw/metadata.json:2");
}

#[test]
fn each_mistake_in_a_channel_has_its_line_and_leaves_the_others_alone() {
    let table: &[(&str, &[&str])] = &[
        ("name: c\nversions: [1.0.0\n", &["error bad-yaml"]),
        ("name: c\nversions: nothing\n", &["error bad-yaml channels/c.yaml:2"]),
        ("name: c\nname: d\nversions: []\n", &["error bad-yaml channels/c.yaml:2"]),
        ("- a\n- b\n", &["error bad-yaml channels/c.yaml:1"]),
        ("", &["error missing-key channels/c.yaml"]),
        ("versions: []\n", &["error missing-key channels/c.yaml"]),
        ("name: c\n", &["error missing-key channels/c.yaml"]),
        ("name: ''\nversions: []\n", &["error bad-channel channels/c.yaml:1"]),
        ("name: a,b\nversions: []\n", &["error bad-channel channels/c.yaml:1"]),
        ("name: other\nversions: []\n", &["warning file-name channels/c.yaml:1"]),
        ("name: c\ncolour: red\nversions: []\n", &["warning unknown-key channels/c.yaml:2"]),
        ("name: c\nversions:\n- 1.0.0\n- 1.0\n- 1.0.2\n", &["error bad-version channels/c.yaml:4"]),
        ("name: c\nversions:\n- 1.0.0\n- 1.0.0\n", &["warning same-version channels/c.yaml:4"]),
        ("name: c\nversions: [1.0.0]\ntarget: new\n", &["error bad-version channels/c.yaml:3"]),
        ("name: c\nversions: []\n---\nname: d\n", &["error bad-yaml"]),
    ];
    for (content, expected) in table {
        let entries = [GOOD_CHANNEL, ("channels/c.yaml", content)];
        let found = notes(&entries);
        assert_eq!(found.len(), expected.len(), "{content:?}: {found:?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{content:?}: {found}");
        }
        let (data, _) = read(&entries);
        assert!(data.channels.iter().any(|channel| channel.name == "good"), "{content:?}");
    }
}

#[test]
fn a_channel_without_a_dash_is_a_channel_and_a_second_one_of_the_same_name_is_not() {
    let entries = [("channels/a.yaml", "name: good\nversions: [2.0.0]\n"), GOOD_CHANNEL];
    let (data, _) = read(&entries);
    assert_eq!((data.channels.len(), data.channels[0].versions[0].0.to_string().as_str()), (1, "2.0.0"));
    assert_eq!(
        notes(&entries),
        ["error same-channel channels/good.yaml:1", "warning file-name channels/a.yaml:1"]
    );
}

#[test]
fn a_channel_whose_target_is_a_slip_of_the_pen_is_left_out_rather_than_rolled_out() {
    let (data, _) = read(&[("channels/c.yaml", "name: c\nversions: [1.0.0, 1.0.9]\ntarget: 1.0.O\n")]);
    assert!(data.channels.is_empty());
}

#[test]
fn each_mistake_in_a_block_has_its_line_and_holds_clients_back_where_it_can() {
    const RULES: &str = "matchingRules: [{type: Always}]";
    let conditional = |more: &str| format!("to: 1.0.0\nfrom: 0[.]9\nurl: u\nname: n\nmessage: m\n{more}\n");
    // content, notes, and what is blocked then: nothing, everything, or as said
    let table: &[(String, &[&str], &str)] = &[
        ("to: 1.0.0\nfrom: [\n".into(), &["error bad-yaml"], "everything"),
        ("to: '1.0.0' # why\nfrom: \"\\q\"\n".into(), &["error bad-yaml"], "everything"),
        ("from: [\n".into(), &["error bad-yaml"], "nothing"),
        ("from: .*\n".into(), &["error missing-key b"], "nothing"),
        ("to: one\nfrom: .*\n".into(), &["error bad-version b:1"], "nothing"),
        ("to: 1.0.0\n".into(), &["error missing-key b"], "everything"),
        ("to: 1.0.0\nfrom: ''\n".into(), &["error bad-pattern b:2"], "everything"),
        ("to: 1.0.0\nfrom: '(0.9'\n".into(), &["error bad-pattern b:2"], "everything"),
        ("to: 1.0.0\nfrom: 'a{1000}{1000}{1000}'\n".into(), &["error bad-pattern b:2"], "everything"),
        ("to: 1.0.0\nfrom: 0[.]9\nwhy: x\n".into(), &["warning unknown-key b:3"], "as said"),
        ("to: 1.0.0\nfrom: 0[.]9\nurl: u\n".into(), &["error half-condition b:1"], "as said"),
        (conditional(""), &["error half-condition b:1"], "as said"),
        (conditional("matchingRules: []"), &["error half-condition b:1"], "as said"),
        (conditional("matchingRules: [{}]"), &["error bad-rule b:6"], "as said"),
        (conditional("matchingRules:\n- type: Always\n- type: PromQL"), &["error bad-rule b:8"], "as said"),
        (
            conditional("matchingRules: [{type: PromQL, promql: {promql: ' '}}]"),
            &["error bad-rule b:6"],
            "as said",
        ),
        (conditional("matchingRules: [{type: Moon}]"), &["warning unknown-rule b:6"], "conditional"),
        (conditional("matchingRules: [{type: Always, on: x}]"), &["warning unknown-key b:6"], "conditional"),
        (conditional(RULES), &[], "conditional"),
    ];
    for (content, expected, held) in table {
        let entries = [GOOD_CHANNEL, ("blocked-edges/b.yaml", content.as_str())];
        let found = notes(&entries);
        assert_eq!(found.len(), expected.len(), "{content:?}: {found:?}");
        for (found, expected) in found.iter().zip(*expected) {
            let found = found.replace("blocked-edges/b.yaml", "b");
            assert!(found.starts_with(expected), "{content:?}: {found}");
        }
        let (data, _) = read(&entries);
        let really = match data.blocks.first() {
            None => "nothing",
            Some(block) if block.risk.is_some() => "conditional",
            Some(block) if block.from.is_match("0.1.0+amd64") => "everything",
            Some(block) => {
                assert!(block.from.is_match("0.9.0+amd64"));
                "as said"
            }
        };
        assert_eq!(&really, held, "{content:?}");
        assert_eq!(data.channels.len(), 1);
    }
}

#[test]
fn mistakes_in_raw_metadata_have_their_lines() {
    let prefix = "io.openshift.upgrades.graph";
    for (content, expected) in [
        ("".to_owned(), vec!["error bad-json raw/metadata.json:1"]),
        ("{\n\"1.0.0\": {\n}".to_owned(), vec!["error bad-json raw/metadata.json:3"]),
        ("{\n\n\"1.0.0\": {\"a\": 1}}".to_owned(), vec!["error bad-json raw/metadata.json:3"]),
        ("{\n\"x\": {},\n\"1.0.0\": {}}".to_owned(), vec!["error bad-version raw/metadata.json:2"]),
        ("{\"1.0.0\": {},\n\"1.0.0\": {}}".to_owned(), vec!["error same-version raw/metadata.json:2"]),
        (
            format!(
                "{{\n\"1.0.0\": {{\"{prefix}.previous.ad\": \"x\"}},\n\t\
                 \"1.0.1\": {{\"{prefix}.previous.remove_regex\": \"(\"}}}}"
            ),
            vec!["error bad-pattern raw/metadata.json:3", "warning unknown-label raw/metadata.json:2"],
        ),
    ] {
        assert_eq!(notes(&[("raw/metadata.json", &content)]), expected, "{content}");
    }
    let bad = format!("{{\"1.0.0\": {{\"{prefix}.previous.remove_regex\": \"(\"}}}}");
    let (data, _) = read(&[("raw/metadata.json", &bad)]);
    assert_eq!(data.raw[0].labels[&format!("{prefix}.previous.remove_regex")], ".*");
}

#[test]
fn text_that_is_not_utf_8_is_a_mistake_with_a_line() {
    let mut tree = tree(&[]);
    tree.insert("channels/c.yaml".into(), b"name: c\nversions: [\xff]\n".to_vec());
    let (_, notes) = files::read(&tree).unwrap();
    let found: Vec<_> = notes.iter().map(|note| note.place.to_string()).collect();
    assert_eq!(found, ["channels/c.yaml:2"]);
}

#[test]
fn what_is_read_does_not_depend_on_the_order_in_which_files_are_found() {
    let entries = [
        ("channels/a.yaml", "name: a\nversions: [1.0.0, 1.0.x]\n"),
        ("channels/b.yaml", "name: a\nversions: [1.0.1]\n"),
        ("blocked-edges/a.yaml", "to: 1.0.0\nfrom: .*\n"),
        ("blocked-edges/b.yaml", "to: 1.0.0\nfrom: (\n"),
    ];
    let said = |entries: &[(&str, &str)]| {
        let (data, notes) = read(entries);
        format!("{data:?} {notes:?}")
    };
    let mut turned = entries;
    turned.reverse();
    assert_eq!(said(&entries), said(&turned));
}
