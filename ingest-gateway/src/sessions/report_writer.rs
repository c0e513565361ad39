//! Sessions that nobody started: events that name one create it for their reporter (docs/api/sessions.md#sessions-nobody-started), because
//! real emitters never call start.
//!
//! Must not stand in the way of an event: what PostgreSQL does not take in time travels in the events' record, and the worker
//! writes it (docs/adr/0006-sessions-and-the-log.md).

use super::SessionMemory;
use crate::metrics;
use lru::LruCache;
use schemas::ids::{OrgId, SessionId};
use schemas::session::{PrivacyLevel, SessionReport};
use service_kit::clock::Clock;
use service_kit::sessions;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Sessions remembered as written, so that only the first event of each costs a write.
const REMEMBERED: usize = 100_000;
/// Requests that may wait for a statement.
const MAX_WAITING: usize = 100_000;
/// Most reports of one statement, but for those of its last request.
const MAX_AT_ONCE: usize = 1_000;
/// What a statement may take: requests wait for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long PostgreSQL counts as away after it did not take a statement: nobody waits for it meanwhile.
const AWAY: Duration = Duration::from_secs(2);

/// A session, and what is said of it, however long that is.
type Fingerprint = (OrgId, SessionId, Option<PrivacyLevel>, Option<[u8; 16]>);

/// What a request reports, and where it hears whether that is written.
type Waiting = (Vec<(OrgId, SessionReport)>, oneshot::Sender<bool>);

/// Handle on the writer of reports; many requests share one statement.
#[derive(Clone)]
pub(crate) struct ReportWriter {
    written: Arc<Mutex<LruCache<Fingerprint, ()>>>,
    queue: mpsc::Sender<Waiting>,
}

impl ReportWriter {
    /// Starts the writer, which tells `memory` what it learns; it ends when the last handle is gone.
    pub(crate) fn start(pool: PgPool, memory: Arc<SessionMemory>, clock: Clock) -> Self {
        let (queue, incoming) = mpsc::channel(MAX_WAITING);
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        let written = Arc::new(Mutex::new(LruCache::new(capacity)));
        tokio::spawn(Writer { pool, clock, memory, written: Arc::clone(&written), away_until: None }.run(incoming));
        Self { written, queue }
    }

    /// Has the organisation's sessions written, and waits for it, so that the next call of the reporter finds them. Answers those
    /// that PostgreSQL did not take in time.
    pub(crate) async fn write(&self, org: OrgId, mut reports: Vec<SessionReport>) -> Vec<SessionReport> {
        {
            let mut written = self.written.lock().expect("no holder of the lock panics");
            reports.retain(|report| written.get(&fingerprint(org, report)).is_none());
        }
        if reports.is_empty() {
            return reports;
        }
        let (done, is_done) = oneshot::channel();
        let waiting = reports.iter().map(|report| (org, report.clone())).collect();
        if self.queue.try_send((waiting, done)).is_ok() && is_done.await.unwrap_or(false) {
            return Vec::new();
        }
        metrics::sessions_unwritten(reports.len());
        reports
    }
}

struct Writer {
    pool: PgPool,
    clock: Clock,
    memory: Arc<SessionMemory>,
    written: Arc<Mutex<LruCache<Fingerprint, ()>>>,
    away_until: Option<Instant>,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
        while let Some(first) = waiting.recv().await {
            let mut group = vec![first];
            while group.iter().map(|(reports, _)| reports.len()).sum::<usize>() < MAX_AT_ONCE
                && let Ok(next) = waiting.try_recv()
            {
                group.push(next);
            }
            let (reports, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let is_away = self.away_until.is_some_and(|until| Instant::now() < until);
            let is_written = !is_away && self.write(&reports.concat()).await;
            for answer in answers {
                // who was cut off does not hear it
                let _ = answer.send(is_written);
            }
        }
    }

    /// Whether PostgreSQL has taken them.
    async fn write(&mut self, reports: &[(OrgId, SessionReport)]) -> bool {
        let asked_at = self.clock.now();
        let error = match tokio::time::timeout(PATIENCE, sessions::write(&self.pool, reports, asked_at)).await {
            Ok(Ok(known)) => {
                self.away_until = None;
                self.memory.learn(reports.iter().map(|(org, report)| (*org, report.session_id)), &known, asked_at);
                let mut written = self.written.lock().expect("no holder of the lock panics");
                for (org, report) in reports {
                    written.put(fingerprint(*org, report), ());
                }
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        self.away_until = Some(Instant::now() + AWAY);
        tracing::warn!(sessions = reports.len(), "sessions are left to the worker to write: {error}");
        false
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
    use serde_json::{Value, json};
    use std::collections::HashSet;
    use uuid::Uuid;

    const ORG: OrgId = OrgId(Uuid::nil());

    fn report(members: &Value) -> SessionReport {
        let mut report = json!({"session_id": Uuid::nil()});
        report.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(report).unwrap()
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
