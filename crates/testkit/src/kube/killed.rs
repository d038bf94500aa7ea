//! Whoever asks is killed, as far as the API server can tell: from one request on it hears nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::throttle::{Asked, Fault, Throttle};

/// Everybody who asks through the proxy, until [`Killed::next`].
pub struct Killed<'a> {
    proxy: &'a Throttle,
    cut: Arc<AtomicUsize>,
}

impl Throttle {
    /// From the first request on for which `at` holds, nothing is passed on; what was asked before is answered.
    pub fn kill(&self, mut at: impl FnMut(&Asked) -> bool + Send + 'static) -> Killed<'_> {
        self.forget();
        let cut = Arc::new(AtomicUsize::new(0));
        let cutting = Arc::clone(&cut);
        self.plan(move |asked| match cutting.load(Ordering::SeqCst) > 0 || at(asked) {
            true => {
                cutting.fetch_add(1, Ordering::SeqCst);
                Fault::Cut
            }
            false => Fault::None,
        });
        Killed { proxy: self, cut }
    }
}

impl Killed<'_> {
    /// Waits until it came to that, and all that was asked before is done. False if `over` holds instead.
    pub async fn until(&self, over: impl Fn() -> bool) -> bool {
        for _ in 0..60_000 {
            let (cut, asked) = (self.cut.load(Ordering::SeqCst), self.proxy.asked());
            let answered = asked.iter().filter(|it| it.status.is_some()).count();
            if cut > 0 && answered + cut == asked.len() {
                return true;
            }
            if cut == 0 && over() {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("nobody was killed, and nothing came to its end, within a minute");
    }

    /// Whoever comes now is heard. The dead one must have ended: nothing of it is on its way any more.
    pub fn next(self) {
        self.proxy.down();
        self.proxy.heal();
        self.proxy.forget();
        self.proxy.up();
    }
}
