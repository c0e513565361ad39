//! Turns for work that occupies a core: decompressing and parsing bodies (docs/api/http.md#shares).
//!
//! There is one turn per core, a tenant has at most half of them, and tenants get them in rotation. So a tenant can't occupy all cores, and
//! its queued bodies don't delay other tenants. Work on a whole body requires a [`CpuPermit`], so code that skips it doesn't compile. The
//! work must not wait for anything.

use super::body_memory::BodyReservation;
use crate::metrics;
use service_kit::auth::Tenant;
use service_kit::slots::{Pool, Slot, Slots};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of a body that is processed in place, which takes a few milliseconds.
const SMALL: usize = 64 * 1024;

/// Maximum wait for a turn. After that, the work runs without one. The HTTP layer's timeout is shorter.
const PATIENCE: Duration = Duration::from_secs(60);

/// A body and its memory. Without a turn, only its size is accessible.
pub(crate) struct ReceivedBody {
    room: BodyReservation,
    bytes: Vec<u8>,
}

impl ReceivedBody {
    pub(crate) fn new(room: BodyReservation, bytes: Vec<u8>) -> Self {
        Self { room, bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn read<'a>(&'a self, _: &CpuPermit) -> &'a [u8] {
        &self.bytes
    }
}

/// Proof that the work in progress doesn't block other requests. Ends on drop. `None` for small bodies and dry runs.
pub(crate) struct CpuPermit(#[expect(dead_code, reason = "freed on drop")] Option<(Slot<Tenant>, OwnedSemaphorePermit)>);

impl CpuPermit {
    /// A turn for a dry run, which serves no requests.
    pub(crate) fn for_dry_run() -> Self {
        Self(None)
    }
}

/// The turns of all tenants.
pub(crate) struct CpuPermits {
    slots: Arc<Slots<Tenant>>,
    /// Held by the next tenant in the rotation until a turn is free.
    next: tokio::sync::Mutex<()>,
    /// The shares of tenants that have turns or wait for them. Bodies above a tenant's share wait here, outside the rotation.
    shares: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
    share: usize,
}

impl CpuPermits {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_cores(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Creates one turn per core, but at least two.
    pub(crate) fn with_cores(cores: usize) -> Arc<Self> {
        let (turns, next) = (cores.max(2), tokio::sync::Mutex::default());
        let slots = Slots::for_short_work(Pool::LargeBodies, turns);
        Arc::new(Self { slots, next, shares: Mutex::default(), share: turns / 2 })
    }

    /// Waits for a turn.
    pub(crate) async fn wait(&self, tenant: Tenant) -> CpuPermit {
        let began = Instant::now();
        // Both locks are fair: the longest waiter is next.
        let permit = self.share_of(tenant).acquire_owned().await;
        let _next = self.next.lock().await;
        let slot = self.slots.wait(tenant, PATIENCE).await;
        metrics::waited_for_turn(began.elapsed());
        CpuPermit(slot.ok().zip(permit.ok()))
    }

    /// Runs work on a body. For a large body, waits for a turn and lets the runtime replace this thread.
    pub(crate) async fn run<T>(&self, body: &ReceivedBody, work: impl FnOnce(&CpuPermit) -> T) -> T {
        if body.len() <= SMALL {
            return work(&CpuPermit(None));
        }
        let turn = self.wait(body.room.tenant()).await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| work(&turn)),
            _ => work(&turn),
        }
    }

    /// Returns how many of these tenants' bodies have a turn or wait for one.
    #[cfg(test)]
    pub(crate) fn waiting(&self, tenants: &[Tenant]) -> usize {
        let shares = self.shares.lock().unwrap();
        tenants.iter().filter_map(|tenant| shares.get(tenant)).map(Weak::strong_count).sum()
    }

    fn share_of(&self, tenant: Tenant) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&tenant).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(tenant, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::super::body_memory::BodyMemory;
    use super::*;
    use futures::FutureExt as _;
    use schemas::ids::OrgId;
    use std::sync::mpsc::channel;

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
            let work = move |_: &CpuPermit| {
                let _ = begun.send(());
                is_served.recv_timeout(Duration::from_secs(60))
            };
            CpuPermits::new().run(&large_body(1), work).await
        });
        has_begun.await.unwrap();
        // The only worker now processes the large body, whose work waits for another task to run.
        let _ = tokio::spawn(async move { served.send(()) }).await;
        assert_eq!(large.await.unwrap(), Ok(()), "no other task ran meanwhile");
    }

    #[tokio::test]
    async fn f53_organizations_share_cpu_permits_for_large_bodies() {
        for (cores, share) in [(1, 1), (2, 1), (3, 1), (8, 4)] {
            let large = CpuPermits::with_cores(cores);
            let mut turns = Vec::new();
            while let Some(turn) = large.wait(sender(1)).now_or_never() {
                turns.push(turn);
            }
            assert_eq!(turns.len(), share, "{cores} cores");
            let other = large.run(&large_body(2), |_| ()).now_or_never();
            assert!(other.is_some(), "{cores} cores: another organization has to wait");
        }
    }

    #[tokio::test]
    async fn f79_queued_bodies_delay_others_by_at_most_one_turn() {
        let large = CpuPermits::with_cores(2);
        // One turn stays taken, so organizations 1 and 2 share the other.
        let _taken = large.wait(sender(3)).await;
        let (note, mut order) = tokio::sync::mpsc::unbounded_channel();
        let body = |number: u128, turns: usize| {
            let (large, note) = (Arc::clone(&large), note.clone());
            tokio::spawn(async move {
                for _ in 0..turns {
                    let _turn = large.wait(sender(number)).await;
                    note.send(number).unwrap();
                    tokio::task::yield_now().await;
                }
            })
        };
        let bodies: Vec<_> = (0..20).map(|_| body(1, 5)).collect();
        tokio::task::yield_now().await;
        body(2, 5).await.unwrap();
        drop((bodies, note));
        let order: Vec<u128> = std::iter::from_fn(|| order.try_recv().ok()).collect();
        let first = order.iter().position(|number| *number == 2).unwrap();
        assert!(first <= 2, "{order:?}");
        assert_eq!(order[first..first + 9], [2, 1, 2, 1, 2, 1, 2, 1, 2], "{order:?}");
    }

    #[tokio::test]
    async fn removes_tenants_without_permits() {
        let large = CpuPermits::with_cores(2);
        for number in 0..1_000 {
            drop(large.wait(sender(number)).await);
        }
        assert_eq!(large.shares.lock().unwrap().len(), 1);
    }
}
