//! A picture by itself: opens in any browser, prints, and can be read out (every release and edge has a title).

use std::fmt::Write;

use super::layout::{BOX_HEIGHT, BOX_WIDTH, Layout, Spot, layout};
use super::{Edge, Picture};

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2933}.title{font-size:18px;font-weight:600}\
.minor{font-weight:600;fill:#52606d}.legend{fill:#52606d;font-size:12px}\
rect{fill:#f5f7fa;stroke:#9aa5b1;rx:6}.target rect{fill:#e3f8e9;stroke:#2f8132;stroke-width:2}\
path{fill:none;stroke:#7b8794;stroke-width:1.4}.risk path,path.risk{stroke:#d9822b;stroke-dasharray:5 4}\
g.edge:hover path{stroke:#0b69a3;stroke-width:3}marker path{fill:#7b8794;stroke:none}#risky path{fill:#d9822b}";

pub fn svg(picture: &Picture) -> String {
    let (layout, legend) = (layout(picture), legend(picture));
    // Wide enough for what is written above it, too.
    let written =
        (legend.chars().count() as f64 * 6.6).max(picture.title.chars().count() as f64 * 11.0) + 48.0;
    let (width, height) = (layout.width.max(written), layout.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" style=\"fill:#fff;stroke:none\"/>\n",
        escaped(&picture.title)
    );
    for id in ["plain", "risky"] {
        let _ = writeln!(
            text,
            "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker>"
        );
    }
    let _ = writeln!(text, "<text class=\"title\" x=\"24\" y=\"34\">{}</text>", escaped(&picture.title));
    let _ = writeln!(text, "<text class=\"legend\" x=\"24\" y=\"56\">{}</text>", escaped(&legend));
    for (name, x) in &layout.columns {
        let _ = writeln!(text, "<text class=\"minor\" x=\"{x}\" y=\"92\">{}</text>", escaped(name));
    }
    for edge in &picture.edges {
        draw_edge(&mut text, picture, &layout, edge);
    }
    for (release, spot) in picture.releases.iter().zip(&layout.spots) {
        let class = if release.target { " class=\"target\"" } else { "" };
        let version = escaped(&release.version.to_string());
        let _ = writeln!(
            text,
            "<g{class}><title>{version}</title><rect x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{version}</text></g>",
            spot.x,
            spot.y,
            spot.x + BOX_WIDTH / 2.0,
            spot.y + 19.0
        );
    }
    text + "</svg>\n"
}

fn legend(picture: &Picture) -> String {
    let mut parts = vec![format!("{} releases", picture.releases.len())];
    if picture.releases.iter().any(|release| release.target) {
        parts.push("green: what the channel leads to".to_owned());
    }
    if picture.edges.iter().any(|edge| !edge.risks.is_empty()) {
        parts.push("dashed: with a risk to weigh".to_owned());
    }
    if picture.implied > 0 {
        parts.push(format!("{} edges that others imply are not drawn", picture.implied));
    }
    parts.join(" · ")
}

fn draw_edge(text: &mut String, picture: &Picture, layout: &Layout, edge: &Edge) {
    let (from, to) = (layout.spots[edge.from], layout.spots[edge.to]);
    let name = |at: usize| picture.releases[at].version.to_string();
    let mut title = format!("{} → {}", name(edge.from), name(edge.to));
    let (class, marker) = match edge.risks.is_empty() {
        true => ("edge", "plain"),
        false => {
            let _ = write!(title, ": {}", edge.risks.join(", "));
            ("edge risk", "risky")
        }
    };
    let _ = writeln!(
        text,
        "<g class=\"{class}\"><title>{}</title><path marker-end=\"url(#{marker})\" d=\"{}\"/></g>",
        escaped(&title),
        curve(from, to)
    );
}

/// Neighbours in a column are joined straight; others bow out to the right, further the longer the way. To another
/// column: from side to side.
fn curve(from: Spot, to: Spot) -> String {
    let (middle, half) = (BOX_HEIGHT / 2.0, BOX_WIDTH / 2.0);
    if from.x == to.x {
        let distance = (to.y - from.y).abs();
        if distance < BOX_HEIGHT * 2.0 {
            let (start, end) = if to.y > from.y { (BOX_HEIGHT, 0.0) } else { (0.0, BOX_HEIGHT) };
            return format!("M{},{} L{},{}", from.x + half, from.y + start, to.x + half, to.y + end);
        }
        let (x, bow) = (from.x + BOX_WIDTH, (18.0 + distance * 0.12).min(90.0));
        let (start, end) = (from.y + middle, to.y + middle);
        return format!("M{x},{start} C{},{start} {},{end} {x},{end}", x + bow, x + bow);
    }
    let (start_x, end_x) = match to.x > from.x {
        true => (from.x + BOX_WIDTH, to.x),
        false => (from.x, to.x + BOX_WIDTH),
    };
    let (start, end) = (from.y + middle, to.y + middle);
    let turn = (end_x - start_x) * 0.5;
    format!("M{start_x},{start} C{},{start} {},{end} {end_x},{end}", start_x + turn, end_x - turn)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn titles_can_not_become_markup() {
        let text = super::svg(&crate::picture::sample());
        assert!(text.contains("<title>stable &lt;4.2&gt; &amp; amd64</title>"));
        assert!(text.contains("4.1.1 → 4.2.0: Slow&quot;Disk, Other"));
        assert_eq!(text.matches("<g class=\"edge").count(), 3);
    }
}
