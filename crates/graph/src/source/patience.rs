//! When to stop asking a registry that has stopped answering: each question alone would wait its full time, and there
//! may be thousands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oci::FetchError;

use super::reader::Shared;

/// Counts failures during one look at one source.
pub(super) struct Patience {
    failures: Mutex<Failures>,
    limit: usize,
}

/// Failures since the last success.
#[derive(Default)]
struct Failures {
    in_a_row: usize,
    first: Option<Arc<FetchError>>,
}

impl Patience {
    /// The limit leaves room for a few failures among the questions that are asked at the same time.
    pub(super) fn new(at_once: usize) -> Self {
        Self { failures: Mutex::default(), limit: at_once.max(1).saturating_mul(2) }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the next question if too many have failed. The refusal carries the first failure: whoever reports it must
    /// be able to say why.
    pub(super) fn check(&self) -> Shared<()> {
        let failures = self.failures();
        match &failures.first {
            Some(first) if failures.in_a_row >= self.limit => {
                let (failures, source) = (failures.in_a_row, Arc::clone(first));
                Err(Arc::new(FetchError::GaveUp { failures, source }))
            }
            _ => Ok(()),
        }
    }

    /// Counts an answer. A failure that only says something about one image does not count.
    pub(super) fn learn<T>(&self, answer: Result<T, FetchError>) -> Shared<T> {
        let answer = answer.map_err(Arc::new);
        match &answer {
            Ok(_) => *self.failures() = Failures::default(),
            Err(error) if error.is_passing() || matches!(**error, FetchError::Denied { .. }) => {
                let mut failures = self.failures();
                failures.in_a_row += 1;
                failures.first.get_or_insert_with(|| Arc::clone(error));
            }
            Err(_) => {}
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed_out(what: &str) -> Result<(), FetchError> {
        Err(FetchError::TimedOut { what: what.to_owned(), limit: std::time::Duration::from_secs(1) })
    }

    #[test]
    fn a_question_that_is_not_asked_says_what_failed_before() {
        let patience = Patience::new(1);
        patience.learn(timed_out("the first")).unwrap_err();
        patience.check().unwrap();
        patience.learn(timed_out("the second")).unwrap_err();
        let refused = oci::chain(&patience.check().unwrap_err());
        assert!(
            refused.contains("the 2 questions before it failed") && refused.contains("the first"),
            "{refused}"
        );
    }

    #[test]
    fn a_success_restores_patience() {
        let patience = Patience::new(1);
        for _ in 0..5 {
            patience.learn(timed_out("one")).unwrap_err();
            patience.learn(Ok(())).unwrap();
        }
        patience.check().unwrap();
    }
}
