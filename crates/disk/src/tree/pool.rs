//! Work that begets work, over a few threads. Last in, first out, so that a directory is finished before
//! the next is begun and few are open at a time. It must not know what the work is.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

struct Shared<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

struct Inner<T> {
    /// One stack per thread. Each works on its own newest, and takes the oldest of another when it has
    /// none: so threads stay in directories of their own, where they do not wait for each other's locks.
    stacks: Vec<VecDeque<T>>,
    /// Tasks that are being worked on, and may add more.
    active: usize,
    idle: usize,
    failure: Option<Error>,
    stopped: bool,
}

/// Where a task puts the tasks that it begets.
pub(crate) struct Queue<'a, T> {
    shared: &'a Shared<T>,
    own: usize,
}

impl<T> Queue<'_, T> {
    /// Adds tasks; the last one is taken first.
    pub fn push(&self, tasks: impl IntoIterator<Item = T>) {
        let mut inner = self.shared.lock();
        if let Some(stack) = inner.stacks.get_mut(self.own) {
            stack.extend(tasks);
        }
        if inner.idle > 0 {
            self.shared.changed.notify_all();
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, own: usize) -> Option<T> {
        let mut inner = self.lock();
        loop {
            if inner.stopped {
                return None;
            }
            let task = match inner.stacks.get_mut(own).and_then(VecDeque::pop_back) {
                Some(task) => Some(task),
                None => inner.stacks.iter_mut().find_map(VecDeque::pop_front),
            };
            if task.is_some() {
                inner.active += 1;
                return task;
            }
            if inner.active == 0 {
                return None;
            }
            inner.idle += 1;
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.idle -= 1;
        }
    }

    fn done(&self, outcome: Result<()>) {
        let mut inner = self.lock();
        inner.active -= 1;
        if let Err(error) = outcome {
            inner.stopped = true;
            inner.failure.get_or_insert(error);
        }
        if inner.stopped || inner.active == 0 {
            self.changed.notify_all();
        }
    }

    /// Lets the others stop when a thread dies of a panic; the panic itself comes out at the join.
    fn abandon(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

struct AbandonOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for AbandonOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon();
        }
    }
}

/// How many threads suit work that waits for a disk: more than cores, and never just one.
pub(crate) fn reading_threads() -> usize {
    (2 * cores()).clamp(4, 16)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs `work` on `first` and on all that it pushes, and gives the state of each thread. The first failure
/// stops all. With one thread everything happens on the calling one, in a fixed order; 0 is as many as suit
/// the machine.
pub(crate) fn run<T: Send, S: Send>(
    threads: usize,
    first: impl IntoIterator<Item = T>,
    new_state: impl Fn() -> S + Sync,
    work: impl Fn(&Queue<'_, T>, &mut S, T) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let threads = if threads == 0 { reading_threads() } else { threads };
    let mut stacks: Vec<VecDeque<T>> = (0..threads).map(|_| VecDeque::new()).collect();
    stacks[0].extend(first);
    let inner = Inner { stacks, active: 0, idle: 0, failure: None, stopped: false };
    let shared = Shared { inner: Mutex::new(inner), changed: Condvar::new() };
    let worker = |own: usize| {
        let _guard = AbandonOnPanic(&shared);
        let queue = Queue { shared: &shared, own };
        let mut state = new_state();
        while let Some(task) = shared.take(own) {
            let outcome = work(&queue, &mut state, task);
            shared.done(outcome);
        }
        state
    };
    let worker = &worker;
    let mut states = Vec::with_capacity(threads);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|own| scope.spawn(move || worker(own))).collect();
        states.push(worker(0));
        for other in others {
            match other.join() {
                Ok(state) => states.push(state),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let failure = shared.lock().failure.take();
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
