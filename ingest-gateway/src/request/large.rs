//! Processes large bodies without blocking the threads that serve other requests.
//!
//! Work on a whole body requires a [`Turn`], so a route that did it elsewhere would not compile.
//!
//! The work must not wait for anything. It is linear in the body, whose size is limited.

use super::body_memory::BodyRoom;
use service_kit::auth::Tenant;
use service_kit::slots::{Pool, Slots};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// A body up to this size is processed in place, which takes a few milliseconds at most.
const SMALL: usize = 64 * 1024;

/// Maximum wait for a turn. The HTTP layer's timeout is shorter.
const PATIENCE: Duration = Duration::from_secs(60);

/// A body and its memory. Without a turn, only its size is accessible.
pub(crate) struct ReceivedBody {
    room: BodyRoom,
    bytes: Vec<u8>,
}

impl ReceivedBody {
    pub(crate) fn new(room: BodyRoom, bytes: Vec<u8>) -> Self {
        Self { room, bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn read<'a>(&'a self, _: &Turn) -> &'a [u8] {
        &self.bytes
    }
}

/// Proof that work in progress blocks no other request.
pub(crate) struct Turn(());

impl Turn {
    /// A turn for a dry run, which serves no requests.
    pub(crate) fn of_a_dry_run() -> Self {
        Self(())
    }
}

/// Turns for work on large bodies, one per core. The waiting tenant with the fewest turns is next.
pub(crate) struct LargeBodies(Arc<Slots<Tenant>>);

impl LargeBodies {
    pub(crate) fn new() -> Self {
        Self(Slots::for_short_work(Pool::LargeBodies, std::thread::available_parallelism().map_or(1, usize::from)))
    }

    /// Runs work on a body. For a large body it waits for a turn and lets the runtime replace this thread.
    pub(crate) async fn run<T>(&self, body: &ReceivedBody, work: impl FnOnce(&Turn) -> T) -> T {
        if body.len() <= SMALL {
            return work(&Turn(()));
        }
        // After the timeout the work runs without a turn.
        let _turn = self.0.wait(body.room.tenant(), PATIENCE).await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| work(&Turn(()))),
            _ => work(&Turn(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::body_memory::BodyMemory;
    use super::*;
    use schemas::ids::OrgId;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn sender(number: u128) -> Tenant {
        Tenant::Organization(OrgId(uuid::Uuid::from_u128(number)))
    }

    fn large_body(number: u128) -> ReceivedBody {
        ReceivedBody::new(BodyMemory::new(1 << 20).reserve(sender(number)).unwrap(), vec![b' '; SMALL + 1])
    }

    /// With a single worker thread, blocking it would block everything.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a1_large_bodies_do_not_block_other_requests() {
        let (served, is_served) = channel();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let large = tokio::spawn(async move {
            let work = move |_: &Turn| {
                let _ = begun.send(());
                is_served.recv_timeout(Duration::from_secs(60))
            };
            LargeBodies::new().run(&large_body(1), work).await
        });
        has_begun.await.unwrap();
        // The only worker now runs the work on the large body, which waits for another task to run.
        let _ = tokio::spawn(async move { served.send(()) }).await;
        assert_eq!(large.await.unwrap(), Ok(()), "no other task ran meanwhile");
    }

    #[tokio::test]
    async fn f53_organizations_share_turns_for_large_bodies() {
        let large = Arc::new(LargeBodies::new());
        // Takes every turn, as if organization 1 were using them all.
        let mut taken: Vec<_> = std::iter::from_fn(|| large.0.take(sender(1), usize::MAX).ok()).collect();
        let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
        let start = |number: u128| {
            let (large, done, body) = (Arc::clone(&large), done.clone(), large_body(number));
            tokio::spawn(async move { large.run(&body, |_| done.send(number).unwrap()).await })
        };
        let busy: Vec<_> = (0..50).map(|_| start(1)).collect();
        tokio::task::yield_now().await;
        let other = start(2);
        tokio::task::yield_now().await;
        taken.pop();
        other.await.unwrap();
        assert_eq!(order.recv().await, Some(2), "before fifty requests that have waited longer");
        drop(taken);
        for body in busy {
            body.await.unwrap();
        }
    }
}
