//! One attempt: open the secret, sign, POST, write how it ended.
//!
//! Must take the time from the lease: it is the database's, and the signature of each attempt has its own.

use super::lanes::Lane;
use super::metrics;
use super::queue::{Claimed, Ended, Queue, STATEMENT_DEADLINE, UNDER_WAY};
use crate::resolve::back_off::BackOff;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use schemas::webhook::progress::{AttemptOutcome, DeliveryStatus};
use schemas::webhook::schedule::{ATTEMPT_DEADLINE, gap_after};
use schemas::webhook::signature::{header, sign};
use service_kit::egress::{Egress, Failure, HttpAnswer, TlsFault};
use service_kit::sealing::Sealer;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

/// Of an answer only its head counts: a receiver that has said 2xx has the delivery, whatever becomes of the rest.
const BODY_BYTES: usize = 0;
/// An attempt that took longer has hung, however it ended: an answer after 9.9 seconds takes a lane as long as none at all.
const SLOW: Duration = ATTEMPT_DEADLINE.checked_div(2).expect("two is not zero");
/// The same of one that reached nobody. A refused connection fails at once; only a dropped packet takes seconds.
const SLOW_TO_REACH: Duration = Duration::from_secs(1);
/// Pause before a delivery that cannot be signed is looked at again; the operator has to act.
const UNSIGNED_PAUSE: Duration = Duration::from_secs(60);
/// What giving a lease back may take in a process that is about to end.
const GIVE_BACK_DEADLINE: Duration = Duration::from_secs(1);
/// How old a lease may be when its attempt begins. Since it was taken the endpoint may have been disabled, and the time that is
/// signed goes stale. More than a statement may take, or a slow database would let none begin.
const FRESH: Duration = Duration::from_secs(5);
const _: () = assert!(
    UNDER_WAY.as_secs() > FRESH.as_secs() + ATTEMPT_DEADLINE.as_secs() + STATEMENT_DEADLINE.as_secs(),
    "an attempt under way would be dropped with its endpoint's deliveries"
);

/// What attempts share; cheap to clone.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) queue: Queue,
    pub(super) egress: Egress,
    pub(super) sealer: Sealer,
}

impl Sender {
    /// Attempts a delivery whose lease was taken after `asked_at`, and writes how it ended; `hurry` breaks it off.
    pub(super) async fn attempt(self, claimed: Claimed, asked_at: Instant, lane: Lane, hurry: CancellationToken) {
        let Ok(secret) = self.sealer.open(&claimed.secret_sealed, claimed.endpoint_id.as_bytes()) else {
            // Our fault, not the receiver's: it costs the delivery no attempt.
            metrics::unsigned();
            tracing::error!(endpoint = %claimed.endpoint_id, "a webhook secret cannot be opened; is TELEMETRY_SECRETS_KEY identity-api's?");
            self.give_back(&claimed, UNSIGNED_PAUSE).await;
            return;
        };
        let began = Instant::now();
        if began - asked_at > FRESH {
            tracing::warn!(delivery = %claimed.delivery_id, "its lease was taken too long ago to begin an attempt, it is given back");
            self.give_back(&claimed, Duration::ZERO).await;
            return;
        }
        let answer = tokio::select! {
            answer = self.send(&claimed, &secret) => answer,
            () = hurry.cancelled() => return self.give_back(&claimed, Duration::ZERO).await,
        };
        let ended = ended(&claimed, &answer, began.elapsed());
        metrics::ended(ended.outcome, ended.took);
        lane.has_hung(has_hung(ended.outcome, ended.took));
        tokio::select! {
            () = self.finish(&claimed, &ended) => {}
            () = hurry.cancelled() => tracing::warn!(delivery = %claimed.delivery_id, "left before the end of an attempt was written"),
        }
    }

    async fn send(&self, claimed: &Claimed, secret: &str) -> Result<HttpAnswer, Failure> {
        let url = Url::parse(&claimed.url).map_err(|_| Failure::RefusedUrl)?;
        let timestamp = claimed.started_at.timestamp();
        let signature = sign(secret, timestamp, claimed.body.as_bytes());
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for (name, value) in [
            (header::SIGNATURE, signature),
            (header::TIMESTAMP, timestamp.to_string()),
            (header::EVENT_TYPE, claimed.event_type.clone()),
            (header::DELIVERY_ID, claimed.delivery_id.to_string()),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).map_err(|_| Failure::RefusedUrl)?);
        }
        self.egress.post(&url, headers, claimed.body.clone().into(), ATTEMPT_DEADLINE, BODY_BYTES).await
    }

    /// Asks the store until it has written it, for as long as the lease may still be ours.
    async fn finish(&self, claimed: &Claimed, ended: &Ended) {
        let (mut back_off, until) = (BackOff::default(), Instant::now() + self.queue.lease);
        loop {
            match self.queue.finish(claimed, ended).await {
                Ok(true) => break,
                Ok(false) => return metrics::lost(),
                Err(error) if Instant::now() < until => {
                    tracing::warn!("the end of an attempt is not written, trying again: {error}");
                }
                Err(error) => {
                    tracing::error!("the end of an attempt is not written, the delivery will be repeated: {error}");
                    return metrics::lost();
                }
            }
            back_off.pause().await;
        }
        match ended.status() {
            DeliveryStatus::Delivered => metrics::delivered(),
            DeliveryStatus::DeadLetter => {
                metrics::dead();
                tracing::warn!(delivery = %claimed.delivery_id, endpoint = %claimed.endpoint_id, "a webhook delivery is a dead letter");
            }
            _ => {}
        }
    }

    pub(super) async fn give_back(&self, claimed: &Claimed, pause: Duration) {
        // When it fails, the lease runs out by itself.
        let _ = timeout(GIVE_BACK_DEADLINE, self.queue.give_back(claimed, pause)).await;
    }
}

/// Whether an attempt that ended so, after so long, kept a lane from deliveries that would have arrived meanwhile.
fn has_hung(outcome: AttemptOutcome, took: Duration) -> bool {
    took > if outcome == AttemptOutcome::Unreachable { SLOW_TO_REACH } else { SLOW }
}

fn ended(claimed: &Claimed, answer: &Result<HttpAnswer, Failure>, took: Duration) -> Ended {
    let status_code = answer.as_ref().ok().map(|answer| answer.status);
    let outcome = match answer {
        Ok(answer) if (200..300).contains(&answer.status) => AttemptOutcome::Delivered,
        Ok(_) => AttemptOutcome::BadStatus,
        Err(Failure::RefusedUrl | Failure::RefusedAddress | Failure::NoAddress) => AttemptOutcome::NoPublicAddress,
        Err(Failure::Unreachable) => AttemptOutcome::Unreachable,
        Err(Failure::Tls(fault)) => of_certificate(*fault),
        Err(Failure::Protocol) => AttemptOutcome::NotHttp,
        Err(Failure::Timeout) => AttemptOutcome::Timeout,
    };
    let failed = usize::try_from(claimed.attempts).unwrap_or(0) + 1;
    Ended { outcome, status_code, took, next_after: gap_after(failed, took, rand::random()) }
}

fn of_certificate(fault: TlsFault) -> AttemptOutcome {
    match fault {
        TlsFault::Expired => AttemptOutcome::TlsExpired,
        TlsFault::NotYetValid => AttemptOutcome::TlsNotYetValid,
        TlsFault::UnknownAuthority => AttemptOutcome::TlsUnknownAuthority,
        TlsFault::OtherName => AttemptOutcome::TlsOtherName,
        TlsFault::AuthorityAsServer => AttemptOutcome::TlsAuthorityAsServer,
        TlsFault::Other => AttemptOutcome::Tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_has_hung_when_it_took_long_however_it_ended() {
        for outcome in AttemptOutcome::ALL {
            assert!(has_hung(outcome, Duration::from_millis(9_900)), "{outcome:?}");
            assert!(!has_hung(outcome, Duration::from_millis(900)), "{outcome:?}");
        }
        assert!(!has_hung(AttemptOutcome::Delivered, Duration::from_secs(4)), "slow, but it serves");
        assert!(has_hung(AttemptOutcome::Unreachable, Duration::from_secs(3)), "what one address may take to be connected to");
    }
}
