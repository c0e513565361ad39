//! Sessions that nobody started: events that name one create it for their reporter (docs/api/sessions.md#sessions-nobody-started), because
//! real emitters never call start.
//!
//! Must not stand in the way of an event: what PostgreSQL does not take in time travels in the events' record, and the worker
//! writes it (docs/adr/0006-sessions-and-the-log.md). This gateway goes on trying too, so that PostgreSQL has it before a worker
//! that is behind; what it remembers for that may be lost.

use super::SessionMemory;
use super::left::LeftReports;
use crate::metrics;
use lru::LruCache;
use schemas::ids::{OrgId, SessionId};
use schemas::session::{PrivacyLevel, SessionReport};
use service_kit::clock::Clock;
use service_kit::database::Database;
use service_kit::http::ApiError;
use service_kit::log_throttle::LogThrottle;
use service_kit::sessions;
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Sessions remembered as written, so that only the first event of each costs a write.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).expect("the constant is not zero");
/// Requests that may wait for a statement.
const MAX_WAITING: usize = 100_000;
/// Most reports of one statement, but for those of its last request.
const MAX_AT_ONCE: usize = 1_000;
/// Between two attempts to write what was left to the worker.
const AGAIN: Duration = Duration::from_secs(1);

/// A session, and what is said of it, however long that is.
type Fingerprint = (OrgId, SessionId, Option<PrivacyLevel>, Option<[u8; 16]>);

/// What a request reports, and where it hears whether that is written.
type Waiting = (Vec<(OrgId, SessionReport)>, oneshot::Sender<bool>);

/// What was reported, as far as it is remembered.
struct Reported {
    written: LruCache<Fingerprint, ()>,
    left: LeftReports,
}

/// Handle on the writer of reports; many requests share one statement.
#[derive(Clone)]
pub(crate) struct ReportWriter {
    reported: Arc<Mutex<Reported>>,
    database: Database,
    queue: mpsc::Sender<Waiting>,
}

impl ReportWriter {
    /// Starts the writer, which tells `memory` what it learns; it ends when the last handle is gone.
    pub(crate) fn start(database: Database, memory: Arc<SessionMemory>, clock: Clock) -> Self {
        let (queue, incoming) = mpsc::channel(MAX_WAITING);
        let reported = Arc::new(Mutex::new(Reported { written: LruCache::new(REMEMBERED), left: LeftReports::default() }));
        let said = LogThrottle::default();
        let writer = Writer { database: database.clone(), clock, memory, reported: Arc::clone(&reported), said };
        tokio::spawn(writer.run(incoming));
        Self { reported, database, queue }
    }

    /// Has the organisation's sessions written, and waits for it, so that the next call of the reporter finds them. Answers those
    /// that PostgreSQL did not take in time.
    pub(crate) async fn write(&self, org: OrgId, mut reports: Vec<SessionReport>) -> Vec<SessionReport> {
        {
            let mut reported = self.reported.lock().expect("no holder of the lock panics");
            reports.retain(|report| {
                reported.left.contains(&(org, report.session_id)) || reported.written.get(&fingerprint(org, report)).is_none()
            });
        }
        if reports.is_empty() {
            return reports;
        }
        // The writer tries what was left, so that no request has to.
        if !self.database.is_away() {
            let (done, is_done) = oneshot::channel();
            let waiting = reports.iter().map(|report| (org, report.clone())).collect();
            if self.queue.try_send((waiting, done)).is_ok() && is_done.await.unwrap_or(false) {
                return Vec::new();
            }
        }
        metrics::sessions_unwritten(reports.len());
        let mut reported = self.reported.lock().expect("no holder of the lock panics");
        reports.iter().for_each(|report| reported.left.add(org, report));
        reports
    }

    /// Has PostgreSQL take what was left of the session, for whoever goes by what PostgreSQL has of it; 503 where it does not yet.
    pub(crate) async fn write_left(&self, org: OrgId, session: SessionId) -> Result<(), ApiError> {
        let is_left = self.reported.lock().expect("no holder of the lock panics").left.contains(&(org, session));
        if !is_left || self.write(org, vec![SessionReport::of(session)]).await.is_empty() {
            return Ok(());
        }
        Err(ApiError::unavailable(anyhow::anyhow!("PostgreSQL lacks what a session said while it was away")))
    }
}

impl Reported {
    /// PostgreSQL has these, of which the first were left before.
    fn learn(&mut self, reports: &[(OrgId, SessionReport)], of_left: usize) {
        for (org, report) in reports {
            self.written.put(fingerprint(*org, report), ());
        }
        reports[..of_left].iter().for_each(|(org, report)| self.left.remove(*org, report));
    }
}

struct Writer {
    database: Database,
    clock: Clock,
    memory: Arc<SessionMemory>,
    reported: Arc<Mutex<Reported>>,
    said: LogThrottle,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
        let mut pause = AGAIN;
        loop {
            // Reports that wait go first, also without a pause.
            let Ok(first) = timeout(pause, waiting.recv()).await else {
                pause = if self.has_left() && self.write(Vec::new()).await { Duration::ZERO } else { AGAIN };
                continue;
            };
            let Some(first) = first else { return };
            pause = AGAIN;
            let mut group = vec![first];
            while group.iter().map(|(reports, _)| reports.len()).sum::<usize>() < MAX_AT_ONCE
                && let Ok(next) = waiting.try_recv()
            {
                group.push(next);
            }
            let (reports, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let is_written = self.write(reports.into_iter().flatten().collect()).await;
            for answer in answers {
                // who was cut off does not hear it
                let _ = answer.send(is_written);
            }
        }
    }

    fn has_left(&self) -> bool {
        !self.reported.lock().expect("no holder of the lock panics").left.is_empty()
    }

    /// Whether PostgreSQL has taken these, with what was left before them.
    async fn write(&mut self, reports: Vec<(OrgId, SessionReport)>) -> bool {
        let asked_at = self.clock.now();
        // What was said first goes first.
        let mut all = self.reported.lock().expect("no holder of the lock panics").left.with(&reports, MAX_AT_ONCE);
        let of_left = all.len();
        all.extend(reports);
        match self.database.ask(sessions::write(self.database.pool(), &all, asked_at)).await {
            Ok(Some(known)) => {
                self.memory.learn(all.iter().map(|(org, report)| (*org, report.session_id)), &known, asked_at);
                self.reported.lock().expect("no holder of the lock panics").learn(&all, of_left);
                true
            }
            Ok(None) => false,
            Err(error) => {
                if self.said.is_due() {
                    tracing::error!(?error, sessions = all.len(), "sessions are left to the worker to write");
                }
                false
            }
        }
    }
}

fn fingerprint(org: OrgId, report: &SessionReport) -> Fingerprint {
    let SessionReport { session_id, privacy_level, parent_session_id, started_at, manifest_ref, agent_id } = report;
    let start = started_at.map(|at| at.timestamp_micros().to_string());
    let texts = [parent_session_id, manifest_ref, &start, agent_id];
    let of_texts = texts.iter().any(|text| text.is_some()).then(|| {
        let mut digest = Sha256::new();
        for text in texts {
            digest.update([u8::from(text.is_some())]);
            digest.update(text.as_ref().map_or(0, String::len).to_be_bytes());
            digest.update(text.as_deref().unwrap_or_default());
        }
        let bytes: [u8; 32] = digest.finalize().into();
        *bytes.first_chunk().expect("16 are fewer than 32")
    });
    (org, *session_id, *privacy_level, of_texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use serde_json::{Value, json};
    use sqlx::PgPool;
    use std::collections::HashSet;
    use uuid::Uuid;

    const ORG: OrgId = OrgId(Uuid::nil());

    fn report(members: &Value) -> SessionReport {
        let mut report = json!({"session_id": Uuid::nil()});
        report.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(report).unwrap()
    }

    #[tokio::test]
    async fn while_postgres_is_away_no_request_waits_for_it() {
        let clock = Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        let database = Database::new(PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/none").unwrap(), clock.clone());
        let writer = ReportWriter::start(database.clone(), Arc::new(SessionMemory::new(database)), clock);
        let of_session = |number| vec![SessionReport::of(SessionId(Uuid::from_u128(number)))];
        assert_eq!(writer.write(ORG, of_session(1)).await.len(), 1, "the first finds out");
        for number in [1, 2] {
            tokio::select! {
                biased;
                unwritten = writer.write(ORG, of_session(number)) => assert_eq!(unwritten, of_session(number)),
                () = std::future::ready(()) => panic!("a request waits for a PostgreSQL that is away"),
            }
        }
    }

    #[test]
    fn reports_that_differ_have_different_fingerprints() {
        let reports = [
            json!({}),
            json!({"privacy_level": "full"}),
            json!({"parent_session_id": "a"}),
            json!({"manifest_ref": "a"}),
            json!({"agent_id": "a"}),
            json!({"parent_session_id": "a", "manifest_ref": "a"}),
            json!({"started_at": "2026-08-01T16:00:00Z"}),
            json!({"started_at": "2026-08-01T16:00:00.000001Z"}),
        ];
        let fingerprints: HashSet<_> = reports.iter().map(|members| fingerprint(ORG, &report(members))).collect();
        assert_eq!(fingerprints.len(), reports.len());
        let elsewhere = report(&json!({"started_at": "2026-08-01T18:00:00+02:00"}));
        assert!(fingerprints.contains(&fingerprint(ORG, &elsewhere)), "an instant is one however it is written");
    }
}
