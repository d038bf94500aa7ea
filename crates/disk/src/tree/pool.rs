//! Work that begets work, over a few threads. Last in, first out, so that a directory is finished before
//! the next is begun and few are open at a time. It must not know what the work is.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

struct Inner<T> {
    stack: Vec<T>,
    /// Tasks that are being worked on, and may add more.
    active: usize,
    failure: Option<Error>,
    stopped: bool,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds tasks; the last one is taken first.
    pub fn push(&self, tasks: impl IntoIterator<Item = T>) {
        self.lock().stack.extend(tasks);
        self.changed.notify_all();
    }

    fn take(&self) -> Option<T> {
        let mut inner = self.lock();
        loop {
            if inner.stopped {
                return None;
            }
            if let Some(task) = inner.stack.pop() {
                inner.active += 1;
                return Some(task);
            }
            if inner.active == 0 {
                return None;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, outcome: Result<()>) {
        let mut inner = self.lock();
        inner.active -= 1;
        if let Err(error) = outcome {
            inner.stopped = true;
            inner.failure.get_or_insert(error);
        }
        if inner.stopped || (inner.active == 0 && inner.stack.is_empty()) {
            self.changed.notify_all();
        }
    }

    /// Lets the others stop when a thread dies of a panic; the panic itself comes out at the join.
    fn abandon(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

struct AbandonOnPanic<'a, T>(&'a Queue<T>);

impl<T> Drop for AbandonOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon();
        }
    }
}

/// Runs `work` on `first` and on all that it pushes, and gives the state of each thread. The first failure
/// stops all. With one thread everything happens on the calling one, in a fixed order.
pub(crate) fn run<T: Send, S: Send>(
    threads: usize,
    first: impl IntoIterator<Item = T>,
    new_state: impl Fn() -> S + Sync,
    work: impl Fn(&Queue<T>, &mut S, T) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let inner = Inner { stack: first.into_iter().collect(), active: 0, failure: None, stopped: false };
    let queue = Queue { inner: Mutex::new(inner), changed: Condvar::new() };
    let worker = || {
        let _guard = AbandonOnPanic(&queue);
        let mut state = new_state();
        while let Some(task) = queue.take() {
            let outcome = work(&queue, &mut state, task);
            queue.done(outcome);
        }
        state
    };
    let mut states = Vec::with_capacity(threads.max(1));
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        states.push(worker());
        for other in others {
            match other.join() {
                Ok(state) => states.push(state),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let failure = queue.lock().failure.take();
    match failure {
        Some(error) => Err(error),
        None => Ok(states),
    }
}

/// Cuts `items` into batches, the last one first, so that the queue hands out the first one first.
pub(crate) fn backwards<T>(mut items: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut batches = Vec::with_capacity(items.len() / size + 1);
    while items.len() > size {
        let rest = items.len() % size;
        batches.push(items.split_off(items.len() - if rest == 0 { size } else { rest }));
    }
    if !items.is_empty() {
        batches.push(items);
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::error::Error;

    #[test]
    fn work_that_begets_work_is_all_done_on_any_number_of_threads() {
        for threads in 1..5 {
            let states = run(
                threads,
                [10_u64],
                || 0,
                |queue, sum, n| {
                    *sum += 1;
                    queue.push((0..n).filter(|i| i + 2 >= n && *i > 0));
                    Ok(())
                },
            );
            let total: u64 = states.unwrap().into_iter().sum();
            assert_eq!(total, 143);
        }
    }

    #[test]
    fn the_first_failure_stops_all() {
        let outcome =
            run(3, 0..1000_u64, || (), |_, (), n| if n == 500 { Err(Error::Cancelled) } else { Ok(()) });
        assert!(outcome.unwrap_err().is_cancelled());
    }
}
