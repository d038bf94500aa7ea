//! The text of a story: lines, and below them what was recorded.

use std::fmt;

/// One line that does something, with what is recorded below it.
#[derive(Debug)]
pub struct Line {
    pub number: usize,
    /// As it stands in the file, with comments and blank lines before it.
    pub text: String,
    pub act: Act,
    pub recorded: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A comment or a blank line.
    Nothing,
    Boot {
        soft: bool,
        words: Vec<String>,
    },
    Set {
        key: String,
        value: Option<String>,
    },
    Shell(String),
    SmallDisk(String),
    Command {
        words: Vec<String>,
        code: Code,
        branch: Option<String>,
    },
    Cut {
        call: String,
        text: String,
    },
    Expect {
        what: String,
        rest: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Exit(i32),
    Killed,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "{code}"),
            Self::Killed => f.write_str("killed"),
        }
    }
}

const RECORDED: &str = "    | ";

pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines: Vec<Line> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(recorded) = raw.strip_prefix(RECORDED.trim_end()) {
            let line = lines.last_mut().ok_or("a record before the first line")?;
            line.recorded.push(recorded.strip_prefix(' ').unwrap_or(recorded).to_owned());
            continue;
        }
        let act = parse_act(raw).map_err(|why| format!("line {number}: {why}: {raw}"))?;
        lines.push(Line { number, text: raw.to_owned(), act, recorded: vec![] });
    }
    Ok(lines)
}

/// The file again, with other records.
pub fn render(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.text);
        text.push('\n');
        for recorded in &line.recorded {
            text.push_str(format!("{RECORDED}{recorded}").trim_end());
            text.push('\n');
        }
    }
    text
}

fn parse_act(raw: &str) -> Result<Act, String> {
    let raw = raw.trim();
    if raw.is_empty() || raw.starts_with('#') {
        return Ok(Act::Nothing);
    }
    let (verb, rest) = raw.split_once(' ').unwrap_or((raw, ""));
    let rest = rest.trim();
    Ok(match verb {
        "boot" | "soft-reboot" => Act::Boot { soft: verb == "soft-reboot", words: split(rest)? },
        "set" => {
            let (key, value) = rest.split_once(' ').ok_or("a key and a value")?;
            Act::Set { key: key.to_owned(), value: Some(value.trim().to_owned()) }
        }
        "unset" => Act::Set { key: rest.to_owned(), value: None },
        "sh" => Act::Shell(rest.to_owned()),
        "small-disk" => Act::SmallDisk(rest.to_owned()),
        "expect" => {
            let (what, rest) = rest.split_once(' ').ok_or("what is expected?")?;
            Act::Expect { what: what.to_owned(), rest: rest.trim().to_owned() }
        }
        "cut" => {
            let (at, command) = rest.rsplit_once(": ").ok_or("cut CALL TEXT: pre-run")?;
            let (call, text) = at.split_once(' ').ok_or("cut CALL TEXT: pre-run")?;
            if command != "pre-run" {
                return Err("only pre-run can be cut".to_owned());
            }
            Act::Cut { call: call.to_owned(), text: text.to_owned() }
        }
        "green" | "red" | "red-elsewhere" => {
            Act::Command { words: vec![verb.to_owned()], code: Code::Exit(0), branch: None }
        }
        "pre-run" | "run" | "healthcheck" | "system" | "guard" | "holdfast" => {
            let (words, result) = raw.rsplit_once("->").ok_or("no exit code is expected")?;
            let mut result = result.split_whitespace();
            let code = match result.next().ok_or("no exit code")? {
                "killed" => Code::Killed,
                code => Code::Exit(code.parse().map_err(|_| "not an exit code")?),
            };
            Act::Command { words: split(words)?, code, branch: result.next().map(str::to_owned) }
        }
        _ => return Err("nothing of that name can happen".to_owned()),
    })
}

/// Words, where double quotes hold together what belongs together.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for (index, part) in text.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    if text.matches('"').count() % 2 == 1 {
        return Err("a quote without its end".to_owned());
    }
    Ok(words)
}
