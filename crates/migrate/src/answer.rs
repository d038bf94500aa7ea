//! The answer of an executable: `{"values": {…}, "unavailable": […], "notes": […]}`. Pure; anything may be in there.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::contract::Output;

/// Notes, and functions that no longer apply: lines for people.
const MAX_LINES: usize = 1000;
const MAX_LINE: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("it printed nothing on stdout")]
    Empty,
    #[error("what it printed on stdout is not the answer that was asked for")]
    NotAnAnswer(#[source] serde_json::Error),
    #[error("it has more than {MAX_LINES} {what}")]
    TooMany { what: &'static str },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    values: Map<String, Value>,
    #[serde(default)]
    unavailable: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
}

pub fn parse_answer(bytes: &[u8]) -> Result<Output, AnswerError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(AnswerError::Empty);
    }
    let answer: Map<String, Value> = serde_json::from_slice(bytes).map_err(AnswerError::NotAnAnswer)?;
    // By way of a map, since a list of its fields' values would do otherwise.
    let answer: Answer = serde_json::from_value(Value::Object(answer)).map_err(AnswerError::NotAnAnswer)?;
    Ok(Output {
        values: answer.values,
        unavailable: lines("functions that no longer apply", answer.unavailable)?,
        notes: lines("notes", answer.notes)?,
        protections: None,
    })
}

/// They go to terminals and logs: no control characters, and not without end.
fn lines(what: &'static str, lines: Vec<String>) -> Result<Vec<String>, AnswerError> {
    if lines.len() > MAX_LINES {
        return Err(AnswerError::TooMany { what });
    }
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Ok(lines.into_iter().map(|line| line.chars().take(MAX_LINE).map(plain).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_values_and_may_have_lines() {
        let answer = parse_answer(b" {\"values\":{\"a\":1},\"notes\":[\"x\\u001b[2Jy\"]}\n").unwrap();
        assert_eq!(answer.values["a"], 1);
        assert_eq!(answer.notes, ["x [2Jy"]);
        assert!(answer.unavailable.is_empty());
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            " \n",
            "nonsense",
            "{",
            "{\"values\":{\"a\":1}",
            "{\"values\":{}}{}",
            "{\"values\":[]}",
            "{\"values\":null}",
            "{}",
            "[]",
            "{\"values\":{},\"valeus\":{}}",
            "{\"values\":{},\"notes\":\"x\"}",
            "{\"values\":{},\"notes\":[1]}",
            "\u{0}",
        ] {
            assert!(parse_answer(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(parse_answer(b"{\"values\":{\"\xff\":1}}").is_err());
        assert!(parse_answer(format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)).as_bytes()).is_err());
        let many = format!("{{\"values\":{{}},\"notes\":[{}\"\"]}}", "\"\",".repeat(MAX_LINES));
        assert!(matches!(parse_answer(many.as_bytes()), Err(AnswerError::TooMany { .. })));
    }
}
