//! Work on large bodies, beside the threads that serve everybody else.
//!
//! Must not be asked for anything that waits. What it is asked for is linear in the body, whose size is limited: that is its
//! deadline.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// A body up to this size is worked off where it is: a few milliseconds at worst.
const SMALL: usize = 64 * 1024;

/// Turns to work on a large body, as many as there are cores.
pub(crate) struct LargeBodies(Semaphore);

impl LargeBodies {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)))
    }

    /// Does the work on a body of `bytes`; on a large one when it is its turn, and after the runtime has another thread in the
    /// place of this one.
    pub(crate) async fn run<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if bytes <= SMALL {
            return work();
        }
        // It is never closed; without a turn the work is done all the same.
        let _turn = self.0.acquire().await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
            _ => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// One worker: whatever keeps it keeps everybody.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a1_a_large_body_does_not_keep_the_thread_that_serves_others() {
        let (served, is_served) = channel();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let large = tokio::spawn(async move {
            let work = move || {
                let _ = begun.send(());
                is_served.recv_timeout(Duration::from_secs(60))
            };
            LargeBodies::new().run(SMALL + 1, work).await
        });
        has_begun.await.unwrap();
        // The only worker is in the work on the large body now, which waits for somebody else to be served.
        let _ = tokio::spawn(async move { served.send(()) }).await;
        assert_eq!(large.await.unwrap(), Ok(()), "nobody was served meanwhile");
    }
}
