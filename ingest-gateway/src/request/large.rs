//! Work on large bodies, beside the threads that serve everybody else.
//!
//! What goes over a whole body asks for a [`Turn`]: a route that did such work elsewhere would not compile.
//!
//! Must not be asked for anything that waits. What it is asked for is linear in the body, whose size is limited: that is its
//! deadline.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// A body up to this size is worked off where it is: a few milliseconds at worst.
const SMALL: usize = 64 * 1024;

/// A body as it came; only its size can be told out of turn.
pub(crate) struct ReceivedBody(Vec<u8>);

impl ReceivedBody {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn read<'a>(&'a self, _: &Turn) -> &'a [u8] {
        &self.0
    }
}

/// That whoever has it keeps nobody waiting.
pub(crate) struct Turn(());

impl Turn {
    /// For a dry run, which has no threads that serve anybody.
    pub(crate) fn of_a_dry_run() -> Self {
        Self(())
    }
}

/// Turns to work on a large body, as many as there are cores.
pub(crate) struct LargeBodies(Semaphore);

impl LargeBodies {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)))
    }

    /// Does the work on a body; on a large one when it is its turn, and after the runtime has another thread in the
    /// place of this one.
    pub(crate) async fn run<T>(&self, body: &ReceivedBody, work: impl FnOnce(&Turn) -> T) -> T {
        if body.len() <= SMALL {
            return work(&Turn(()));
        }
        // It is never closed; without a turn the work is done all the same.
        let _turn = self.0.acquire().await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| work(&Turn(()))),
            _ => work(&Turn(())),
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
            let work = move |_: &Turn| {
                let _ = begun.send(());
                is_served.recv_timeout(Duration::from_secs(60))
            };
            LargeBodies::new().run(&ReceivedBody::new(vec![b' '; SMALL + 1]), work).await
        });
        has_begun.await.unwrap();
        // The only worker is in the work on the large body now, which waits for somebody else to be served.
        let _ = tokio::spawn(async move { served.send(()) }).await;
        assert_eq!(large.await.unwrap(), Ok(()), "nobody was served meanwhile");
    }
}
