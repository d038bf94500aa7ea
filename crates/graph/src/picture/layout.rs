//! Where releases stand: a column for each minor version, newer ones further right; in a column newer ones further down.

use std::collections::BTreeMap;

use super::Picture;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spot {
    pub x: f64,
    pub y: f64,
}

pub(super) struct Layout {
    pub spots: Vec<Spot>,
    /// Heading and position of each column.
    pub columns: Vec<(String, f64)>,
    pub width: f64,
    pub height: f64,
}

pub(super) const BOX_WIDTH: f64 = 130.0;
pub(super) const BOX_HEIGHT: f64 = 28.0;
const COLUMN: f64 = 250.0;
const ROW: f64 = 48.0;
const TOP: f64 = 112.0;
const LEFT: f64 = 70.0;

pub(super) fn layout(picture: &Picture) -> Layout {
    let mut minors: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (at, release) in picture.releases.iter().enumerate() {
        minors.entry((release.version.major, release.version.minor)).or_default().push(at);
    }
    let mut spots = vec![Spot { x: 0.0, y: 0.0 }; picture.releases.len()];
    let mut columns = Vec::new();
    let mut rows = 0;
    for (column, ((major, minor), members)) in minors.into_iter().enumerate() {
        let x = LEFT + column as f64 * COLUMN;
        columns.push((format!("{major}.{minor}"), x));
        rows = rows.max(members.len());
        // Releases come sorted.
        for (row, at) in members.into_iter().enumerate() {
            spots[at] = Spot { x, y: TOP + row as f64 * ROW };
        }
    }
    let width = LEFT * 2.0 + BOX_WIDTH + columns.len().saturating_sub(1) as f64 * COLUMN;
    let height = TOP + rows as f64 * ROW + 24.0;
    Layout { spots, columns, width, height }
}
