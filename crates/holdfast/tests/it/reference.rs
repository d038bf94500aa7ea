//! The reference pages say what the binary does: one is generated from it, the other is held against it.
//! `UPDATE=1` writes the generated one.

use std::fs;
use std::process::Command;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");

fn holdfast(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    let output = command.args(words).env("COLUMNS", "100").output().expect("the binary runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The names under "Commands:" of a help text.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn describe(words: &mut Vec<String>, page: &mut String) {
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = holdfast(&arguments);
    let title =
        ["holdfast"].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    page.push_str(&format!("\n## `{title}`\n\n```text\n{}\n```\n", help.trim_end()));
    for name in subcommands(&help) {
        words.push(name);
        describe(words, page);
        words.pop();
    }
}

#[test]
fn the_page_of_commands_is_what_the_binary_says() {
    let mut page = "# Commands\n\nGenerated from the binary's own help.\n".to_owned();
    describe(&mut vec![], &mut page);
    let path = format!("{DOCS}/cli.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/cli.md is stale: run this test with UPDATE=1");
}

#[test]
fn every_key_of_the_configuration_is_described() {
    let page = fs::read_to_string(format!("{DOCS}/configuration.md")).unwrap();
    let shown = holdfast(&["--config", "/dev/null", "config", "show"]);
    let keys: Vec<&str> =
        shown.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
    assert!(keys.len() > 15, "{shown}");
    for key in keys {
        assert!(
            page.contains(&format!("`{key}`")),
            "docs/reference/configuration.md does not describe {key}"
        );
    }
}

#[test]
fn every_exit_code_is_described() {
    let page = fs::read_to_string(format!("{DOCS}/exit-codes.md")).unwrap();
    for code in (0..=13).chain([75]) {
        assert!(page.contains(&format!("\n| {code} |")), "exit code {code} is not described");
    }
}

#[test]
fn every_rule_that_blocks_is_described() {
    let page = fs::read_to_string(format!("{DOCS}/refusals.md")).unwrap();
    let source = include_str!("../../../logic/src/guard/steps.rs");
    let rules = source.split("pub enum Rule {").nth(1).unwrap().split('}').next().unwrap();
    let names: Vec<String> =
        rules.split(',').map(str::trim).filter(|name| !name.is_empty()).map(kebab).collect();
    assert!(names.len() > 5, "{names:?}");
    // Damaged metadata has an exit code, and a row, of its own.
    for name in names.iter().filter(|name| *name != "metadata-damaged") {
        assert!(page.contains(&format!("`{name}`")), "docs/reference/refusals.md does not describe {name}");
    }
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
