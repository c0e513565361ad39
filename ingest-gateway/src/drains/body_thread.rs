//! The CPU turns of a thread that processes one body.

use crate::request::cpu_permits::{CpuPermit, CpuPermits};
use service_kit::auth::Tenant;
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// Bytes to read or decompress per turn, which takes a few milliseconds.
const PERMIT_BYTES: u64 = 256 * 1024;

/// The current turn, and the channel for the thread's records. Operations fail once the request has ended.
pub(super) struct BodyThread<T> {
    permits: Arc<CpuPermits>,
    tenant: Tenant,
    records: Sender<T>,
    permit: RefCell<Option<CpuPermit>>,
    remaining_bytes: Cell<u64>,
}

impl<T> BodyThread<T> {
    /// Waits for the first turn. Blocks.
    pub(super) fn begin(turns: Arc<CpuPermits>, tenant: Tenant, records: Sender<T>) -> io::Result<Self> {
        let turns = Self { permits: turns, tenant, records, permit: RefCell::default(), remaining_bytes: Cell::default() };
        turns.next()?;
        Ok(turns)
    }

    /// Counts the bytes of the current turn. At its end, waits for the next turn.
    pub(super) fn spend(&self, bytes: u64) -> io::Result<()> {
        self.remaining_bytes.set(self.remaining_bytes.get().saturating_sub(bytes));
        match self.remaining_bytes.get() {
            0 => self.next(),
            _ if self.records.is_closed() => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }

    /// Passes on a record. While it waits for the log, other bodies get the turn.
    pub(super) fn send(&self, record: T) -> io::Result<()> {
        match self.records.try_send(record) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(record)) => {
                self.permit.take();
                self.records.blocking_send(record).map_err(|_| io::ErrorKind::BrokenPipe)?;
                self.next()
            }
            Err(TrySendError::Closed(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn next(&self) -> io::Result<()> {
        self.permit.take();
        let turn = Handle::current().block_on(async {
            tokio::select! {
                biased;
                () = self.records.closed() => None,
                turn = self.permits.wait(self.tenant) => Some(turn),
            }
        });
        self.remaining_bytes.set(PERMIT_BYTES);
        self.permit.replace(Some(turn.ok_or(io::ErrorKind::BrokenPipe)?));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::OrgId;
    use service_kit::testing::eventually;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio::task::spawn_blocking;

    fn sender(number: u128) -> Tenant {
        Tenant::Organization(OrgId(uuid::Uuid::from_u128(number)))
    }

    /// Returns turns, one of which is free.
    async fn one_turn() -> (Arc<CpuPermits>, CpuPermit) {
        let turns = CpuPermits::with_cores(2);
        let taken = turns.wait(sender(0)).await;
        (turns, taken)
    }

    #[tokio::test]
    async fn f79_twenty_logs_delay_others_by_at_most_one_turn() {
        let (turns, _taken) = one_turn().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let body = |number: u128, parts: usize| {
            let (turns, order, (records, open)) = (Arc::clone(&turns), Arc::clone(&order), mpsc::channel::<()>(1));
            spawn_blocking(move || {
                let (turns, _open) = (BodyThread::begin(turns, sender(number), records).unwrap(), open);
                for _ in 0..parts {
                    order.lock().unwrap().push(number);
                    std::thread::sleep(Duration::from_millis(1));
                    turns.spend(PERMIT_BYTES).unwrap();
                }
            })
        };
        let all = turns.wait(sender(1)).await;
        let bodies: Vec<_> = (0..20).map(|_| body(1, 10)).collect();
        let other = body(2, 5);
        eventually("every body waits", || async { (turns.waiting(&[sender(1), sender(2)]) == 22).then_some(()) }).await;
        drop(all);
        other.await.unwrap();
        let order = order.lock().unwrap().clone();
        let last = order.iter().rposition(|number| *number == 2).unwrap();
        assert!(last < 40, "without shares, one turn in 21: {order:?}");
        futures::future::join_all(bodies).await;
    }

    #[tokio::test]
    async fn waiting_for_kafka_releases_the_turn() {
        let (turns, _taken) = one_turn().await;
        let ((records, mut log), of_body) = (mpsc::channel(1), Arc::clone(&turns));
        let room = records.clone();
        let body = spawn_blocking(move || {
            let turns = BodyThread::begin(of_body, sender(1), records).unwrap();
            (0..2).try_for_each(|record| turns.send(record))
        });
        eventually("the first record is sent", || async { (room.capacity() == 0).then_some(()) }).await;
        let other = tokio::time::timeout(Duration::from_secs(10), turns.wait(sender(2))).await;
        assert!(other.is_ok(), "the turn is taken while the second record waits");
        drop(other);
        assert_eq!((log.recv().await, log.recv().await), (Some(0), Some(1)));
        body.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn thread_ends_with_its_request() {
        let (turns, _taken) = one_turn().await;
        let (all, (records, request)) = (turns.wait(sender(1)).await, mpsc::channel::<()>(1));
        let of_body = Arc::clone(&turns);
        let body = spawn_blocking(move || BodyThread::begin(of_body, sender(1), records).map(drop));
        drop(request);
        assert_eq!(body.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        drop(all);
    }
}
