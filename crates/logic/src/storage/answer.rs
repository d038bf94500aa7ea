//! What an API server's answer to one write of the migrator means.

use std::time::Duration;

/// An answer, or the lack of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// None when the connection failed or the time was up.
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored in the current version now, or is not stored any more.
    Done,
    /// Somebody may have written it meanwhile, and so migrated it: that is to be seen from its resourceVersion.
    Conflict,
    /// The server has enough to do. Nothing is held against the object.
    Throttled(Duration),
    /// The server is not there. Nothing is held against the object, however long it takes.
    Absent,
    /// It did not work this time.
    Failed,
    /// It was refused, and will be until somebody changes something.
    Refused,
}

/// When a server that throttles does not say for how long.
const A_WHILE: Duration = Duration::from_secs(1);
/// No server may hold the migrator off for longer than this without being asked again.
const AT_MOST: Duration = Duration::from_secs(60);

pub fn answer(answer: &Answer) -> Verdict {
    let Some(status) = answer.status else { return Verdict::Absent };
    let pause = answer.retry_after.unwrap_or(A_WHILE).min(AT_MOST);
    match status {
        200..=299 | 404 | 410 => Verdict::Done,
        409 => Verdict::Conflict,
        429 => Verdict::Throttled(pause),
        503 if answer.retry_after.is_some() => Verdict::Throttled(pause),
        502 | 503 => Verdict::Absent,
        401 | 408 | 500..=599 => Verdict::Failed,
        _ => Verdict::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_meaning() {
        let of = |status| answer(&Answer { status: Some(status), retry_after: None });
        assert_eq!(of(200), Verdict::Done);
        assert_eq!(of(404), Verdict::Done);
        assert_eq!(of(409), Verdict::Conflict);
        assert_eq!(of(429), Verdict::Throttled(Duration::from_secs(1)));
        assert_eq!(of(500), Verdict::Failed);
        assert_eq!(of(503), Verdict::Absent);
        assert_eq!(of(422), Verdict::Refused);
        assert_eq!(of(403), Verdict::Refused);
        assert_eq!(answer(&Answer::default()), Verdict::Absent);
        let patient = Answer { status: Some(429), retry_after: Some(Duration::from_secs(86_400)) };
        assert_eq!(answer(&patient), Verdict::Throttled(AT_MOST));
    }
}
