//! Who leads: one of any number of controllers, by a Lease. Times are those of the observer's own monotonic clock, never
//! the ones written in the lease: other machines' clocks may be wrong, and this one's may jump.

use std::time::Duration;

/// A Lease as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSeen {
    /// None when it was given up.
    pub holder: Option<String>,
    /// For how long the holder may be silent.
    pub duration: Duration,
    /// How long, by this observer's clock, it has not changed.
    pub unchanged: Duration,
}

/// What to do about the lease now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Write oneself in; succeeds only if nobody else wrote since it was read.
    Take,
    /// Write the time anew.
    Renew,
    /// Somebody leads; look again after this long.
    Wait(Duration),
}

/// The rules of one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    pub me: String,
    pub duration: Duration,
}

impl Lead {
    pub fn claim(&self, lease: Option<&LeaseSeen>) -> Claim {
        let Some(lease) = lease else { return Claim::Take };
        match &lease.holder {
            None => Claim::Take,
            Some(holder) if *holder == self.me => Claim::Renew,
            Some(_) if lease.unchanged > lease.duration => Claim::Take,
            Some(_) => Claim::Wait(self.renew_every()),
        }
    }

    /// Often enough that two renewals may fail.
    pub fn renew_every(&self) -> Duration {
        self.duration / 4
    }

    /// How long after its last renewal began a leader must have stopped writing. Earlier than others may take over, so
    /// that there are never two.
    pub fn lost_after(&self) -> Duration {
        self.duration * 2 / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead() -> Lead {
        Lead { me: "a".into(), duration: Duration::from_secs(15) }
    }

    fn held(by: Option<&str>, unchanged: u64) -> LeaseSeen {
        let unchanged = Duration::from_secs(unchanged);
        LeaseSeen { holder: by.map(str::to_owned), duration: Duration::from_secs(15), unchanged }
    }

    #[test]
    fn a_lease_is_taken_when_nobody_holds_it_and_renewed_when_it_is_ours() {
        assert_eq!(lead().claim(None), Claim::Take);
        assert_eq!(lead().claim(Some(&held(None, 0))), Claim::Take);
        assert_eq!(lead().claim(Some(&held(Some("a"), 100))), Claim::Renew);
        assert_eq!(lead().claim(Some(&held(Some("b"), 15))), Claim::Wait(lead().renew_every()));
        assert_eq!(lead().claim(Some(&held(Some("b"), 16))), Claim::Take);
    }

    #[test]
    fn a_leader_stops_before_another_may_begin() {
        assert_eq!(lead().lost_after(), Duration::from_secs(10));
        assert!(lead().lost_after() < lead().duration);
        assert!(lead().renew_every() * 2 < lead().lost_after());
    }
}
