//! A fixed set of threads that decompress bodies.
//!
//! The runtime's blocking threads would spread the work over many allocator arenas (eight per core), each of which may retain a
//! 16 MiB decoder window after a decompression bomb.

use super::ApiError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Bodies decompressed concurrently. Each needs a window and a body of maximum size.
const THREADS: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Sends bodies to the threads, which end when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct InflateThreads {
    jobs: Sender<Job>,
}

impl InflateThreads {
    pub(super) fn start() -> Self {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name("inflate".to_owned());
            thread.spawn(move || work(&waiting)).expect("failed to start the decompression threads");
        }
        Self { jobs }
    }

    /// Runs `work` on one of the threads. Skips it if the caller is dropped before it starts.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let (answer, answered) = oneshot::channel();
        let job = move || {
            if !answer.is_closed() {
                // The receiver may have been dropped.
                let _ = answer.send(work());
            }
        };
        self.jobs.send(Box::new(job)).map_err(|_| ApiError::internal(anyhow::anyhow!("no decompression threads")))?;
        answered.await.map_err(|_| ApiError::internal(anyhow::anyhow!("decompressing a body panicked")))
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // After a panic, the caller sees a closed channel and the thread continues.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[tokio::test]
    async fn reuses_threads_after_a_panic() {
        let inflaters = InflateThreads::start();
        for _ in 0..2 * THREADS {
            assert!(inflaters.run(|| panic!("on purpose")).await.is_err());
        }
        let mut threads = HashSet::new();
        for _ in 0..20 * THREADS {
            threads.insert(inflaters.run(|| std::thread::current().id()).await.unwrap());
        }
        assert!((1..=THREADS).contains(&threads.len()), "{} threads", threads.len());
    }

    #[tokio::test]
    async fn skips_work_for_dropped_callers() {
        let inflaters = InflateThreads::start();
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        // Occupy every thread, so that the next job must wait.
        for _ in 0..THREADS {
            let held = Arc::clone(&held);
            inflaters.jobs.send(Box::new(move || assert!(held.lock().unwrap().recv().is_err()))).unwrap();
        }
        let (told, tells) = channel();
        {
            let mut left = std::pin::pin!(inflaters.run(move || told.send(())));
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(left.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "the job must wait for a thread");
        }
        drop(release);
        assert!(tells.recv().is_err(), "the job must be dropped without running");
    }
}
