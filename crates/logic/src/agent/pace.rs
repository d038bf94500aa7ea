//! When to ask the graph again.

use std::time::Duration;

/// How the last question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Not since the agent started.
    NotYet,
    Answered,
    /// This many times in a row.
    Failed {
        times: u32,
        told_to_wait: Option<Duration>,
    },
}

/// Errors double the pause this often, at most.
const DOUBLINGS: u32 = 4;
/// Part of the period that chance adds, so that a fleet does not ask at once.
const JITTER: u32 = 4;

/// How long to wait. Never less than the period, but for the first question of a machine that just started, which only
/// waits for its share of the jitter: whoever starts it wants to know.
pub fn next_ask(period: Duration, asked: Asked, chance: u32) -> Duration {
    let share = f64::from(chance) / f64::from(u32::MAX);
    let jitter = (period / JITTER).mul_f64(share);
    match asked {
        Asked::NotYet => jitter.min(Duration::from_secs(5).mul_f64(share)),
        Asked::Answered => period + jitter,
        Asked::Failed { times, told_to_wait } => {
            let pause = period * 2_u32.pow(times.saturating_sub(1).min(DOUBLINGS));
            pause.max(told_to_wait.unwrap_or_default()) + jitter
        }
    }
}

/// Refusals double the answers of the graph that are let pass before the same image is taken again without being asked:
/// a signature may come late, and a gigabyte is not fetched every few minutes for it.
pub fn try_again(refusals: u32, answers_since: u32) -> bool {
    refusals == 0 || answers_since >= 2_u32.pow((refusals - 1).min(REFUSALS))
}

const REFUSALS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn it_never_asks_more_often_than_told() {
        for chance in [0, 1, u32::MAX / 2, u32::MAX] {
            for asked in [Asked::Answered, Asked::Failed { times: 1, told_to_wait: None }] {
                let pause = next_ask(HOUR, asked, chance);
                assert!(pause >= HOUR && pause <= HOUR + HOUR / JITTER, "{pause:?}");
            }
        }
    }

    #[test]
    fn errors_make_it_wait_longer_up_to_a_limit_and_a_server_may_ask_for_more() {
        let failed = |times| next_ask(HOUR, Asked::Failed { times, told_to_wait: None }, 0);
        assert_eq!((failed(1), failed(2), failed(3)), (HOUR, 2 * HOUR, 4 * HOUR));
        assert_eq!(failed(1000), 16 * HOUR);
        let told = Asked::Failed { times: 1, told_to_wait: Some(9 * HOUR) };
        assert_eq!(next_ask(HOUR, told, 0), 9 * HOUR);
    }

    #[test]
    fn what_was_refused_is_tried_again_ever_more_rarely_and_never_given_up() {
        assert!(try_again(0, 0) && try_again(1, 1) && !try_again(2, 1) && try_again(2, 2));
        assert!(!try_again(1000, 255) && try_again(1000, 256));
    }

    #[test]
    fn a_machine_that_just_started_asks_within_seconds() {
        assert!(next_ask(HOUR, Asked::NotYet, u32::MAX) <= Duration::from_secs(5));
        assert_eq!(next_ask(HOUR, Asked::NotYet, 0), Duration::ZERO);
    }
}
