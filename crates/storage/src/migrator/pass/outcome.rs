//! What follows from each answer.

use std::cmp::Reverse;

use tokio::time::Instant;
use tracing::{info, warn};

use super::{End, FIRST_RETRY, LONGEST_RETRY, Later, MOST_SILENCES, Pass, Task};
use crate::migrator::objects::{NotListed, Object, Tried};
use crate::migrator::page::Page;
use crate::migrator::trouble::{Kind, Trouble};

impl Pass {
    pub(super) fn tried(&mut self, mut task: Task, tried: Tried) -> Option<End> {
        self.bytes = self.bytes.saturating_sub(task.object.bytes());
        match tried {
            Tried::Done => {
                self.no_write = None;
                self.written = Instant::now();
                self.refusals.objects -= usize::from(task.failing.is_some());
                self.course.objects.requests.metrics.migrated(&self.course.resource);
                self.tally.migrated(task.page);
            }
            // Everybody pauses; this one is the first to go on.
            Tried::Throttled => {
                self.no_write = None;
                self.queue.push_front(task);
            }
            Tried::Failed { why, unwell } => {
                self.no_write = None;
                self.failed(task, why, unwell);
            }
            Tried::Absent { why, silent } => {
                let now = Instant::now();
                let (since, count) = task.silences.unwrap_or((now, 0));
                let throttle = &self.course.objects.requests.throttle;
                if silent && count + 1 >= MOST_SILENCES && throttle.answered_since(since) {
                    // The others get answers: it is this object that the server does not survive.
                    self.failed(task, why, false);
                    return None;
                }
                if silent {
                    task.silences = Some((since, count + 1));
                }
                self.queue.push_back(task);
                return self.cannot_write(Kind::absent(silent), why);
            }
            Tried::Forbidden(why) => {
                self.queue.push_front(task);
                return self.cannot_write(Kind::Forbidden, why);
            }
            Tried::Unserved(why) => {
                self.queue.push_front(task);
                return self.cannot_write(Kind::Gone, why);
            }
        }
        None
    }

    /// The object is tried again later, by its name, while the others go on; and is finally given up. A server that is
    /// unwell, and has written nothing since, may be so for all: that is held against nobody, as long as one is patient.
    fn failed(&mut self, mut task: Task, why: String, unwell: bool) {
        self.refusals.objects += usize::from(task.failing.is_none());
        let failing = *task.failing.get_or_insert_with(Instant::now);
        let blameless = unwell && self.written < failing && self.written.elapsed() < self.course.patience;
        task.tries += u32::from(!blameless);
        task.failures += 1;
        task.silences = None;
        let name = task.object.into_name();
        if task.tries < self.course.tries {
            let pause = FIRST_RETRY.saturating_mul(2u32.saturating_pow(task.failures - 1)).min(LONGEST_RETRY);
            if self.refusals.last.as_ref().is_none_or(|(_, last)| *last != why) {
                self.refusals.last = Some((name.clone(), why));
            }
            let task = Task { object: Object::Named(name), ..task };
            self.later.push(Reverse(Later { due: Instant::now() + pause, task }));
            return;
        }
        self.refusals.objects -= 1;
        let resource = &self.course.resource;
        warn!(%resource, object = %name, tries = task.tries, %why, "an object can't be written");
        self.course.objects.requests.metrics.failed(resource);
        self.tally.failed(task.page, || format!("{name}: {why}"));
    }

    fn cannot_write(&mut self, kind: Kind, why: String) -> Option<End> {
        // Writes that were under way together fail together: that is one failure.
        if self.no_write.as_ref().is_some_and(|it| it.kind == kind && Instant::now() < it.until) {
            return None;
        }
        let (trouble, news) = Trouble::met(self.no_write.take(), kind, why);
        if news {
            warn!(resource = %self.course.resource, %trouble, "objects can't be written, waiting");
        }
        self.given_up(trouble, |pass| &mut pass.no_write)
    }

    fn given_up(
        &mut self,
        trouble: Trouble,
        place: impl FnOnce(&mut Self) -> &mut Option<Trouble>,
    ) -> Option<End> {
        if trouble.is_final(self.course.patience) {
            let (reason, why) = (trouble.kind.reason(), trouble.to_string());
            return Some(End::Failed { reason, why });
        }
        let gives_way = self.course.gives_way && trouble.gives_way();
        *place(self) = Some(trouble);
        gives_way.then_some(End::Aside)
    }

    pub(super) fn listed(&mut self, listed: Result<Page, NotListed>) -> Option<End> {
        let resource = &self.course.resource;
        let (kind, why) = match listed {
            Ok(page) => {
                if self.no_list.take().is_some() {
                    info!(%resource, "objects can be listed again");
                }
                self.take(page);
                return None;
            }
            Err(NotListed::TooLarge) if self.size.limit() > 1 => {
                self.size.shrink();
                return None;
            }
            Err(NotListed::TooLarge) => {
                let why = "an object is too large to be read".to_owned();
                return Some(End::Failed { reason: "ObjectTooLarge", why });
            }
            // The same place in a newer list: what came since was stored in the current version.
            Err(NotListed::Expired(Some(token))) => {
                info!(%resource, "the list has expired, going on with a newer one");
                self.token = Some(token);
                return None;
            }
            Err(NotListed::Expired(None)) => {
                warn!(%resource, "the list has expired, beginning anew");
                return Some(End::Anew);
            }
            Err(NotListed::Throttled) => return None,
            Err(NotListed::Absent { why, silent }) => (Kind::absent(silent), why),
            Err(NotListed::Gone(why)) => (Kind::Gone, why),
            Err(NotListed::Forbidden(why)) => (Kind::Forbidden, why),
            Err(NotListed::Failed(why)) => {
                self.size.shrink();
                (Kind::Failing, why)
            }
        };
        let (trouble, news) = Trouble::met(self.no_list.take(), kind, why);
        if news {
            warn!(resource = %self.course.resource, %trouble, "objects can't be listed, waiting");
        }
        self.given_up(trouble, |pass| &mut pass.no_list)
    }

    fn take(&mut self, page: Page) {
        self.size.read(&page);
        self.last_page = page.objects.len();
        self.remaining = page.remaining;
        self.read_all = page.next.is_none();
        let number = self.tally.open(page.objects.len(), page.next.clone());
        self.token = page.next;
        self.queue.extend(page.objects.into_iter().map(|bytes| Task::new(number, bytes)));
    }
}
