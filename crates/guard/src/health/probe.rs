//! The two smallest checks: a port that accepts connections, a file that is kept fresh.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::attempt::Attempt;
use logic::period::Period;

pub(crate) async fn tcp(address: &str, limit: Duration) -> Attempt {
    match tokio::time::timeout(limit, tokio::net::TcpStream::connect(address)).await {
        Ok(Ok(_)) => Attempt::Passed(format!("{address} accepts connections")),
        Ok(Err(error)) => Attempt::Bad(format!("{address}: {error}")),
        Err(_) => Attempt::Bad(format!("{address}: no answer within {}", Period::from(limit))),
    }
}

pub(crate) fn file_age(path: &Path, max_age: Period) -> Attempt {
    match std::fs::metadata(path).and_then(|meta| meta.modified()) {
        Ok(modified) => age(modified, SystemTime::now(), max_age),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Attempt::Bad(format!("{} does not exist", path.display()))
        }
        Err(error) => Attempt::Unknown(format!("{}: {error}", path.display())),
    }
}

/// Files have wall-clock times. One from the future, by more than the allowed age, says that the clock was set
/// back: then nothing is known about the file's age.
fn age(modified: SystemTime, now: SystemTime, max_age: Period) -> Attempt {
    let whole_seconds = |length: Duration| Period::seconds(length.as_secs());
    match now.duration_since(modified) {
        Ok(age) if age <= max_age.get() => Attempt::Passed(format!("modified {} ago", whole_seconds(age))),
        Ok(age) => Attempt::Bad(format!("modified {} ago, more than {max_age}", whole_seconds(age))),
        Err(ahead) if ahead.duration() <= max_age.get() => Attempt::Passed("modified just now".to_owned()),
        Err(ahead) => Attempt::Unknown(format!(
            "modified {} in the future: the clock was set back",
            whole_seconds(ahead.duration())
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_judged_by_the_clock_unless_the_clock_is_off() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let at = |seconds: i64| {
            let offset = Duration::from_secs(seconds.unsigned_abs());
            if seconds < 0 { now - offset } else { now + offset }
        };
        let limit = Period::seconds(60);
        for (offset, expected) in [(0, "P"), (-60, "P"), (-61, "B"), (30, "P"), (61, "U"), (315_360_000, "U")]
        {
            let found = match age(at(offset), now, limit) {
                Attempt::Passed(_) => "P",
                Attempt::Bad(_) => "B",
                _ => "U",
            };
            assert_eq!(found, expected, "{offset}");
        }
    }
}
