//! For Mermaid, as wikis and forges show it.

use std::fmt::Write;

use super::Picture;

pub fn mermaid(picture: &Picture) -> String {
    let mut text = format!("---\ntitle: {}\n---\nflowchart LR\n", serde_json::json!(picture.title));
    for (at, release) in picture.releases.iter().enumerate() {
        let (open, close) = if release.target { ("([", "])") } else { ("[", "]") };
        let _ = writeln!(text, "  r{at}{open}{}{close}", quoted(&release.version.to_string()));
    }
    for edge in &picture.edges {
        let arrow = match edge.risks.is_empty() {
            true => "-->".to_owned(),
            false => format!("-.->|{}|", quoted(&edge.risks.join(", "))),
        };
        let _ = writeln!(text, "  r{} {arrow} r{}", edge.from, edge.to);
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "#quot;").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn risks_are_dotted_and_named() {
        let text = super::mermaid(&crate::picture::sample());
        assert!(text.contains("  r1 -.->|\"Slow#quot;Disk, Other\"| r3\n"), "{text}");
        assert!(text.contains("  r3([\"4.2.0\"])\n"), "{text}");
    }
}
