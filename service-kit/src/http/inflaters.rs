//! The few threads that inflate bodies, for as long as their reader lives.
//!
//! The runtime's blocking threads come and go, and the allocator keeps what each has freed near it: a hundred bombs with windows of
//! 16 MiB would leave one behind in every arena, of which there are eight for each core.

use super::ApiError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Bodies inflated at a time; each may hold a window and the largest body.
const THREADS: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Hands bodies to the threads; they end with the last of its clones.
#[derive(Clone, Debug)]
pub(super) struct Inflaters {
    jobs: Sender<Job>,
}

impl Inflaters {
    pub(super) fn start() -> Self {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name("inflate".to_owned());
            thread.spawn(move || work(&waiting)).expect("a process that cannot start four threads cannot start");
        }
        Self { jobs }
    }

    /// Does the work on one of the threads, unless the caller has left before it begins.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let (answer, answered) = oneshot::channel();
        let job = move || {
            if !answer.is_closed() {
                // Who has left meanwhile needs no answer.
                let _ = answer.send(work());
            }
        };
        self.jobs.send(Box::new(job)).map_err(|_| ApiError::internal(anyhow::anyhow!("no thread inflates bodies")))?;
        answered.await.map_err(|_| ApiError::internal(anyhow::anyhow!("inflating a body panicked")))
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // Whoever waits for it sees that no answer comes; the thread is there for the next one.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[tokio::test]
    async fn work_is_done_by_the_same_few_threads_also_after_a_panic() {
        let inflaters = Inflaters::start();
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
    async fn work_whose_caller_has_left_is_not_done() {
        let inflaters = Inflaters::start();
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        // Every thread waits, so that what comes next has to.
        for _ in 0..THREADS {
            let held = Arc::clone(&held);
            inflaters.jobs.send(Box::new(move || assert!(held.lock().unwrap().recv().is_err()))).unwrap();
        }
        let (told, tells) = channel();
        {
            let mut left = std::pin::pin!(inflaters.run(move || told.send(())));
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(left.as_mut().poll(context))).await;
            assert!(polled.is_pending(), "it waits for a thread");
        }
        drop(release);
        assert!(tells.recv().is_err(), "the work was dropped undone");
    }
}
