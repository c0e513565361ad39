//! Work on large bodies, beside the threads that serve everybody else.
//!
//! What goes over a whole body asks for a [`Turn`]: a route that did such work elsewhere would not compile.
//!
//! Must not be asked for anything that waits. What it is asked for is linear in the body, whose size is limited: that is its
//! deadline.

use super::body_memory::BodyRoom;
use service_kit::auth::Tenant;
use service_kit::slots::{Pool, Slots};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// A body up to this size is worked off where it is: a few milliseconds at worst.
const SMALL: usize = 64 * 1024;

/// Longest wait for a turn; the boundary ends requests earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// A body with the memory that it takes; only its size can be told out of turn.
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

/// That whoever has it keeps nobody waiting.
pub(crate) struct Turn(());

impl Turn {
    /// For a dry run, which has no threads that serve anybody.
    pub(crate) fn of_a_dry_run() -> Self {
        Self(())
    }
}

/// Turns to work on a large body, as many as there are cores. Of the tenants that wait, the one with the fewest turns is next.
pub(crate) struct LargeBodies(Arc<Slots<Tenant>>);

impl LargeBodies {
    pub(crate) fn new() -> Self {
        Self(Slots::for_short_work(Pool::LargeBodies, std::thread::available_parallelism().map_or(1, usize::from)))
    }

    /// Does the work on a body; on a large one when it is its turn, and after the runtime has another thread in the
    /// place of this one.
    pub(crate) async fn run<T>(&self, body: &ReceivedBody, work: impl FnOnce(&Turn) -> T) -> T {
        if body.len() <= SMALL {
            return work(&Turn(()));
        }
        // Without a turn the work is done all the same.
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
            LargeBodies::new().run(&large_body(1), work).await
        });
        has_begun.await.unwrap();
        // The only worker is in the work on the large body now, which waits for somebody else to be served.
        let _ = tokio::spawn(async move { served.send(()) }).await;
        assert_eq!(large.await.unwrap(), Ok(()), "nobody was served meanwhile");
    }

    #[tokio::test]
    async fn f53_large_bodies_of_one_organization_leave_turns_for_others() {
        let large = Arc::new(LargeBodies::new());
        // As if the work of the first were going on in every turn.
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
        assert_eq!(order.recv().await, Some(2), "before fifty that have waited longer");
        drop(taken);
        for body in busy {
            body.await.unwrap();
        }
    }
}
