//! What nothing leads to any more.

use super::record::Point;
use super::release::{ImageId, SnapshotId};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    pub snapshots: Vec<SnapshotId>,
    pub images: Vec<ImageId>,
}

/// Of all snapshots and images there are, those that neither the release in force, nor the rollback point, nor a
/// workload needs. Only for when no transaction needs more than that: at its end, or when there is none.
pub fn leftovers(
    current: &ImageId,
    point: Option<&Point>,
    makers: &[ImageId],
    snapshots: &[SnapshotId],
    images: &[ImageId],
) -> Leftovers {
    let needed = |image: &ImageId| {
        image == current || point.is_some_and(|point| point.image.id == *image) || makers.contains(image)
    };
    let kept = |snapshot: &SnapshotId| point.is_some_and(|point| point.snapshot == *snapshot);
    Leftovers {
        snapshots: snapshots.iter().filter(|snapshot| !kept(snapshot)).cloned().collect(),
        images: images.iter().filter(|image| !needed(image)).cloned().collect(),
    }
}
