//! How an appliance stands with regard to upgrades, at any time.

use serde::Serialize;

use super::record::{Point, Transaction};
use super::release::{Image, ReleaseVersion};
use super::way::{Next, Step, Way, next};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum State {
    UpToDate,
    UpgradeableTo {
        release: ReleaseVersion,
    },
    /// By a process that lives. `number` of `of`, the first is 1.
    Upgrading {
        to: ReleaseVersion,
        step: Step,
        number: usize,
        of: usize,
        way: Way,
    },
    /// Its process is dead.
    Interrupted {
        to: ReleaseVersion,
        step: Option<Step>,
        way: Way,
    },
    /// The way back failed too.
    NeedsHands {
        to: ReleaseVersion,
        why: String,
    },
}

/// `alive`: whether the transaction's process is. `offered`: the newest release that is known from elsewhere.
pub fn state(
    current: &Image,
    transaction: Option<&Transaction>,
    alive: bool,
    offered: Option<&ReleaseVersion>,
) -> State {
    let Some(transaction) = transaction else {
        return match offered {
            Some(release) if release.is_newer_than(&current.version) => {
                State::UpgradeableTo { release: release.clone() }
            }
            _ => State::UpToDate,
        };
    };
    let to = transaction.begin.to.version.clone();
    let steps = transaction.steps();
    let step = match next(transaction) {
        Next::Do(step) => Some(step),
        Next::Committed | Next::Undone => None,
    };
    match (alive, step) {
        (true, _) => {
            let step = step.or(steps.last().copied()).unwrap_or(Step::Tidy);
            let number = steps.iter().position(|one| *one == step).map_or(steps.len(), |at| at + 1);
            State::Upgrading { to, step, number, of: steps.len(), way: transaction.way }
        }
        (false, _) if transaction.stuck => {
            State::NeedsHands { to, why: transaction.why.clone().unwrap_or_default() }
        }
        (false, step) => State::Interrupted { to, step, way: transaction.way },
    }
}

/// "rollback available to Y".
pub fn rollback_to<'a>(point: Option<&'a Point>, current: &Image) -> Option<&'a ReleaseVersion> {
    point.filter(|point| point.left_for.id == current.id).map(|point| &point.image.version)
}
