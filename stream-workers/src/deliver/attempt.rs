//! Makes one attempt: decrypts the secret, signs, sends the POST and stores the outcome.
//!
//! The signed time is the lease's time by the database's clock, so each attempt has its own signature.

use super::attempt_limits::AttemptPermit;
use super::metrics;
use super::queue::{AttemptResult, ClaimedDelivery, MAX_ATTEMPT_TIME, Queue, STATEMENT_DEADLINE};
use crate::resolve::back_off::BackOff;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use schemas::webhook::delivery_log::{AttemptOutcome, DeliveryStatus};
use schemas::webhook::retry_schedule::{ATTEMPT_DEADLINE, retry_delay};
use schemas::webhook::signature::{header, sign};
use service_kit::egress::{Egress, EgressError, EgressResponse, TlsError};
use service_kit::secret_encryption::Sealer;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

/// Only a response's head counts: after a 2xx, the receiver has the delivery, whatever the body.
const BODY_BYTES: usize = 0;
/// An attempt that takes longer counts as hung, whatever its outcome, because a response after 9.9 seconds occupies a lane as long as a
/// timeout.
const SLOW: Duration = ATTEMPT_DEADLINE.checked_div(2).expect("two is not zero");
/// Like `SLOW`, for unreachable receivers. A refused connection fails immediately; only dropped packets take seconds.
const SLOW_TO_REACH: Duration = Duration::from_secs(1);
/// Pause before a delivery that can't be signed is attempted again. The operator must fix the key first.
const UNSIGNED_PAUSE: Duration = Duration::from_secs(60);
/// Timeout for releasing a lease while the process stops.
const GIVE_BACK_DEADLINE: Duration = Duration::from_secs(1);
/// Maximum age of a lease when its attempt starts. Later, the endpoint may have been disabled, and the signed time would be too old. Must
/// be longer than a statement's deadline; otherwise a slow database would prevent all attempts.
const FRESH: Duration = Duration::from_secs(5);
const _: () = assert!(
    MAX_ATTEMPT_TIME.as_secs() > FRESH.as_secs() + ATTEMPT_DEADLINE.as_secs() + STATEMENT_DEADLINE.as_secs(),
    "an attempt in progress would be dropped with its endpoint's deliveries"
);

#[derive(Clone)]
pub(super) struct Sender {
    pub(super) queue: Queue,
    pub(super) egress: Egress,
    pub(super) sealer: Sealer,
}

impl Sender {
    /// Attempts a delivery whose lease was claimed after `asked_at`, and stores the outcome. `hurry` cancels it.
    pub(super) async fn attempt(
        self,
        claimed: ClaimedDelivery,
        asked_at: Instant,
        lane: AttemptPermit,
        hurry: CancellationToken,
    ) {
        let Ok(secret) = self.sealer.open(&claimed.secret_sealed, claimed.endpoint_id.as_bytes()) else {
            // The receiver isn't at fault, so this doesn't count as an attempt.
            metrics::unsigned();
            tracing::error!(endpoint = %claimed.endpoint_id, "failed to decrypt a webhook secret; TELEMETRY_SECRETS_KEY must be the same as in identity-api");
            self.give_back(&claimed, UNSIGNED_PAUSE).await;
            return;
        };
        let began = Instant::now();
        if began - asked_at > FRESH {
            tracing::warn!(delivery = %claimed.delivery_id, "lease too old to start an attempt, releasing it");
            self.give_back(&claimed, Duration::ZERO).await;
            return;
        }
        let answer = tokio::select! {
            answer = self.send(&claimed, &secret) => answer,
            () = hurry.cancelled() => return self.give_back(&claimed, Duration::ZERO).await,
        };
        let ended = attempt_result(&claimed, &answer, began.elapsed());
        metrics::ended(ended.outcome, ended.took);
        lane.has_hung(has_hung(ended.outcome, ended.took));
        tokio::select! {
            () = self.finish(&claimed, &ended) => {}
            () = hurry.cancelled() => tracing::warn!(delivery = %claimed.delivery_id, "stopped before an attempt's result was stored"),
        }
    }

    async fn send(&self, claimed: &ClaimedDelivery, secret: &str) -> Result<EgressResponse, EgressError> {
        let url = Url::parse(&claimed.url).map_err(|_| EgressError::RefusedUrl)?;
        let timestamp = claimed.started_at.timestamp();
        let signature = sign(secret, timestamp, claimed.body.as_bytes());
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for (name, value) in [
            (header::SIGNATURE, signature),
            (header::TIMESTAMP, timestamp.to_string()),
            (header::EVENT_TYPE, claimed.event_type.clone()),
            (header::DELIVERY_ID, claimed.delivery_id.to_string()),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).map_err(|_| EgressError::RefusedUrl)?);
        }
        self.egress.post(&url, headers, claimed.body.clone().into(), ATTEMPT_DEADLINE, BODY_BYTES).await
    }

    /// Stores an attempt's outcome. Retries while the lease may still be valid.
    async fn finish(&self, claimed: &ClaimedDelivery, ended: &AttemptResult) {
        let (mut back_off, until) = (BackOff::default(), Instant::now() + self.queue.lease);
        loop {
            match self.queue.finish(claimed, ended).await {
                Ok(true) => break,
                Ok(false) => return metrics::lost(),
                Err(error) if Instant::now() < until => {
                    tracing::warn!("failed to store an attempt's result, retrying: {error}");
                }
                Err(error) => {
                    tracing::error!("failed to store an attempt's result; the delivery will be repeated: {error}");
                    return metrics::lost();
                }
            }
            back_off.pause().await;
        }
        match ended.status() {
            DeliveryStatus::Delivered => metrics::delivered(),
            DeliveryStatus::DeadLetter => {
                metrics::dead();
                tracing::warn!(delivery = %claimed.delivery_id, endpoint = %claimed.endpoint_id, "moved a webhook delivery to the dead letters");
            }
            _ => {}
        }
    }

    pub(super) async fn give_back(&self, claimed: &ClaimedDelivery, pause: Duration) {
        // If this fails, the lease expires.
        let _ = timeout(GIVE_BACK_DEADLINE, self.queue.give_back(claimed, pause)).await;
    }
}

/// Returns whether an attempt occupied its lane long enough to delay other deliveries.
fn has_hung(outcome: AttemptOutcome, took: Duration) -> bool {
    took > if outcome == AttemptOutcome::Unreachable { SLOW_TO_REACH } else { SLOW }
}

fn attempt_result(claimed: &ClaimedDelivery, answer: &Result<EgressResponse, EgressError>, took: Duration) -> AttemptResult {
    let status_code = answer.as_ref().ok().map(|answer| answer.status);
    let outcome = match answer {
        Ok(answer) if (200..300).contains(&answer.status) => AttemptOutcome::Delivered,
        Ok(_) => AttemptOutcome::BadStatus,
        Err(EgressError::RefusedUrl | EgressError::RefusedAddress | EgressError::NoAddress) => AttemptOutcome::NoPublicAddress,
        Err(EgressError::Unreachable) => AttemptOutcome::Unreachable,
        Err(EgressError::Tls(fault)) => of_certificate(*fault),
        Err(EgressError::Protocol) => AttemptOutcome::NotHttp,
        Err(EgressError::Timeout) => AttemptOutcome::Timeout,
    };
    let failed = usize::try_from(claimed.attempts).unwrap_or(0) + 1;
    AttemptResult { outcome, status_code, took, next_after: retry_delay(failed, took, rand::random()) }
}

fn of_certificate(fault: TlsError) -> AttemptOutcome {
    match fault {
        TlsError::Expired => AttemptOutcome::TlsExpired,
        TlsError::NotYetValid => AttemptOutcome::TlsNotYetValid,
        TlsError::UnknownAuthority => AttemptOutcome::TlsUnknownAuthority,
        TlsError::OtherName => AttemptOutcome::TlsOtherName,
        TlsError::AuthorityAsServer => AttemptOutcome::TlsAuthorityAsServer,
        TlsError::Other => AttemptOutcome::Tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_attempts_count_as_hanging() {
        for outcome in AttemptOutcome::ALL {
            assert!(has_hung(outcome, Duration::from_millis(9_900)), "{outcome:?}");
            assert!(!has_hung(outcome, Duration::from_millis(900)), "{outcome:?}");
        }
        assert!(!has_hung(AttemptOutcome::Delivered, Duration::from_secs(4)), "slow, but it responds");
        assert!(has_hung(AttemptOutcome::Unreachable, Duration::from_secs(3)), "the connect timeout of one address");
    }
}
