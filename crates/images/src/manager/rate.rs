//! How fast bytes came lately.

use std::time::{Duration, Instant};

/// Older than this counts for less than half.
const MEMORY: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub struct Meter {
    last: Option<(Instant, u64)>,
    rate: f64,
}

impl Meter {
    /// What the count is now. Fewer bytes than before (they were thrown away) begin anew.
    pub fn at(&mut self, now: Instant, bytes: u64) -> u64 {
        match self.last {
            Some((then, before)) if bytes >= before => {
                let seconds = now.saturating_duration_since(then).as_secs_f64();
                if seconds > 0.0 {
                    #[allow(clippy::cast_precision_loss)]
                    let lately = (bytes - before) as f64 / seconds;
                    let weight = 0.5_f64.powf(seconds / MEMORY.as_secs_f64());
                    // The first measure has nothing to be weighed against.
                    self.rate =
                        if self.rate == 0.0 { lately } else { self.rate * weight + lately * (1.0 - weight) };
                    self.last = Some((now, bytes));
                }
            }
            _ => *self = Self { last: Some((now, bytes)), rate: 0.0 },
        }
        self.now()
    }

    pub fn now(&self) -> u64 {
        // Whole bytes: what is below one a second is nothing.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rate = self.rate as u64;
        rate
    }

    pub fn stop(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_flow_is_its_rate_and_one_that_stops_is_forgotten() {
        let (start, mut meter) = (Instant::now(), Meter::default());
        for second in 0..20 {
            meter.at(start + Duration::from_secs(second), second * 1000);
        }
        assert!((990..=1010).contains(&meter.now()), "{}", meter.now());
        for second in 20..60 {
            meter.at(start + Duration::from_secs(second), 19_000);
        }
        assert_eq!(meter.now(), 0);
        meter.at(start + Duration::from_secs(60), 5);
        assert_eq!(meter.now(), 0, "began anew");
    }
}
