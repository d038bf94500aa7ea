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

#[cfg(test)]
mod tests {
    use super::super::release::ReleaseVersion;
    use super::*;

    #[test]
    fn the_image_that_made_a_workload_stays_and_others_go() {
        let image = |version: &str| {
            ImageId::new(&ReleaseVersion::parse(version).unwrap(), &format!("sha256:{version}"))
        };
        let [old, maker, current] = ["v1-1-a", "v2-2-b", "v3-3-c"].map(image);
        let all = [old.clone(), maker.clone(), current.clone()];
        let left = leftovers(&current, None, &[maker], &[], &all);
        assert_eq!(left.images, [old]);
    }
}
