//! For Graphviz.

use std::fmt::Write;

use super::Picture;

pub fn dot(picture: &Picture) -> String {
    let mut text = String::from(
        "digraph {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n",
    );
    let _ = writeln!(text, "  label={};", quoted(&picture.title));
    for release in &picture.releases {
        let more = if release.target { " [penwidth=2]" } else { "" };
        let _ = writeln!(text, "  {}{more};", quoted(&release.version.to_string()));
    }
    for edge in &picture.edges {
        let name = |at: usize| quoted(&picture.releases[at].version.to_string());
        let more = match edge.risks.is_empty() {
            true => String::new(),
            false => format!(" [style=dashed, color=darkorange, label={}]", quoted(&edge.risks.join(", "))),
        };
        let _ = writeln!(text, "  {} -> {}{more};", name(edge.from), name(edge.to));
    }
    text + "}\n"
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_can_not_break_out_of_their_quotes() {
        let text = super::dot(&crate::picture::sample());
        assert!(
            text.contains(
                r#""4.1.1" -> "4.2.0" [style=dashed, color=darkorange, label="Slow\"Disk, Other"];"#
            )
        );
        assert!(text.contains(r#""4.2.0" [penwidth=2];"#), "{text}");
    }
}
