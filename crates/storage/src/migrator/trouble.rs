//! What keeps a migration from going on, and for how long it may.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Trouble {
    pub kind: Kind,
    pub why: String,
    since: Instant,
    pause: Duration,
    /// When to try again.
    pub until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The server is not there.
    Absent,
    /// The server is, but not the one behind it that has the resource.
    Away,
    /// It answers, but not with what was asked for.
    Failing,
    /// It does not know the resource.
    Gone,
    Forbidden,
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// So long one waits in its place for a server that comes back at once.
const KEEPS_PLACE: Duration = Duration::from_secs(3);
/// A server that has just started does not know every resource, nor every right, for a moment.
const STARTING: Duration = Duration::from_secs(6);

impl Trouble {
    /// The trouble after one more failure, and whether it is news.
    pub fn met(before: Option<Self>, kind: Kind, why: String) -> (Self, bool) {
        let now = Instant::now();
        let news = before.as_ref().is_none_or(|it| it.kind != kind || it.why != why);
        let (since, pause) = match before {
            Some(it) if it.kind == kind => (it.since, (it.pause * 2).min(LONGEST_PAUSE)),
            _ => (now, FIRST_PAUSE),
        };
        (Self { kind, why, since, pause, until: now + pause }, news)
    }

    /// Whether it has lasted for too long. Nothing is given up while nobody is there to say no.
    pub fn is_final(&self, patience: Duration) -> bool {
        let allowed = match self.kind {
            Kind::Absent | Kind::Away => return false,
            Kind::Failing => patience,
            Kind::Gone | Kind::Forbidden => STARTING.min(patience),
        };
        self.since.elapsed() >= allowed
    }

    /// Whether others should have their turn meanwhile. Not where no server answers: then nobody could use it.
    pub fn gives_way(&self) -> bool {
        self.kind == Kind::Away && self.since.elapsed() >= KEEPS_PLACE
    }
}

impl Kind {
    /// Where nobody says so, it is the API server itself that is not there.
    pub fn absent(silent: bool) -> Self {
        if silent { Self::Absent } else { Self::Away }
    }

    /// In a condition, for programs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Absent | Self::Away => "ServerAbsent",
            Self::Failing => "ListFailed",
            Self::Gone => "ResourceGone",
            Self::Forbidden => "Forbidden",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Absent => "the API server is not there",
            Self::Away => "the server that has the resource is not there",
            Self::Failing => "objects can't be listed",
            Self::Gone => "the resource is not served any more",
            Self::Forbidden => "a right is missing",
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.says(), self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_news_are_told_once() {
        let (first, news) = Trouble::met(None, Kind::Failing, "webhook down".into());
        assert!(news);
        assert_eq!(first.until - Instant::now(), FIRST_PAUSE);
        let (mut trouble, news) = Trouble::met(Some(first), Kind::Failing, "webhook down".into());
        assert!(!news);
        assert_eq!(trouble.until - Instant::now(), FIRST_PAUSE * 2);
        for _ in 0..10 {
            trouble = Trouble::met(Some(trouble), Kind::Failing, "webhook down".into()).0;
        }
        assert_eq!(trouble.until - Instant::now(), LONGEST_PAUSE);
        let patience = Duration::from_secs(300);
        assert!(!trouble.is_final(patience));
        tokio::time::advance(patience).await;
        assert!(trouble.is_final(patience));
        let (absent, news) = Trouble::met(Some(trouble), Kind::Absent, "refused".into());
        tokio::time::advance(patience * 100).await;
        assert!(news && !absent.is_final(patience) && !absent.gives_way());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_one_server_of_many_gives_way_after_a_moment() {
        let (away, _) = Trouble::met(None, Kind::Away, "service unavailable".into());
        assert!(!away.gives_way());
        tokio::time::advance(KEEPS_PLACE).await;
        assert!(away.gives_way() && !away.is_final(Duration::ZERO));
    }
}
