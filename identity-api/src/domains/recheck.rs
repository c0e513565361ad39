//! Checks published tokens again: if one is missing for too long, the domain is released.
//!
//! No database connection is open during a check. Several processes can run this: each postpones a domain before checking it, so the domain
//! is checked again later if the process crashes.

use super::owner_emails::{self, Notice};
use super::token_lookup::{ExpectedToken, TokenFinder};
use super::{Row, ownership};
use crate::access::prelude::*;
use crate::people::mail::Mailer;
use chrono::{SubsecRound, TimeDelta};
use schemas::identity::VerificationMethod;
use schemas::instant;
use service_kit::clock::Clock;
use service_kit::periodic;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub(super) const EVERY: Duration = Duration::from_secs(600);
/// Number of concurrent checks.
const AT_ONCE: i64 = 8;
/// Time until the next check after a missing token or a crash.
const RETRY: TimeDelta = TimeDelta::hours(6);
/// Minimum number of failed checks before a domain is released. One bad hour after a long pause isn't enough.
const LEAST_FAILURES: i32 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RecheckSettings {
    pub(crate) recheck_after: TimeDelta,
    pub(crate) lapse_after: TimeDelta,
    pub(crate) every: Duration,
}

/// Checks published tokens again; cheap to clone.
#[derive(Clone)]
pub(crate) struct DomainRecheck {
    pub(super) pool: PgPool,
    pub(super) finder: TokenFinder,
    pub(super) mailer: Mailer,
    pub(super) terms: RecheckSettings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecheckCounts {
    /// Domains whose token is still published.
    pub present: u32,
    pub missing: u32,
    pub lapsed: u32,
}

const CLAIM: &str = "UPDATE domains SET proof_due_at = $2 WHERE id = ANY(array( \
        SELECT id FROM domains WHERE proof_due_at <= $1 AND verified_at IS NOT NULL AND released_at IS NULL \
        ORDER BY proof_due_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED)) RETURNING *";
const STANDS: &str = "UPDATE domains SET verification_method = $2, proved_at = $3, proof_due_at = $4, unproved_since = NULL, \
        proof_failures = 0 WHERE id = $1 AND verified_at IS NOT NULL AND released_at IS NULL RETURNING *";
/// Has no effect if the domain was verified again after it was claimed.
const IS_MISSING: &str = "UPDATE domains SET unproved_since = coalesce(unproved_since, $3), proof_failures = proof_failures + 1 \
        WHERE id = $1 AND verified_at IS NOT NULL AND released_at IS NULL AND proved_at IS NOT DISTINCT FROM $2 RETURNING *";

enum Outcome {
    Present,
    Missing,
    Lapsed,
    /// Released or verified during the check.
    Overtaken,
}

/// Runs rounds until the handle is dropped.
pub(crate) fn start(upkeep: DomainRecheck, clock: Clock) -> AbortOnDropHandle<()> {
    periodic::start(upkeep.terms.every, move || {
        let (upkeep, clock) = (upkeep.clone(), clock.clone());
        async move {
            match upkeep.round(&clock).await {
                Ok(RecheckCounts { present: 0, missing: 0, lapsed: 0 }) => {}
                Ok(RecheckCounts { present, missing, lapsed }) if missing + lapsed > 0 => {
                    tracing::warn!(present, missing, lapsed, "rechecked domains; some tokens are missing");
                }
                Ok(RecheckCounts { present, .. }) => tracing::info!(present, "rechecked domains"),
                Err(error) => tracing::warn!("failed to recheck domains, retrying in the next round: {error}"),
            }
        }
    })
}

impl DomainRecheck {
    pub(crate) async fn round(&self, clock: &Clock) -> Result<RecheckCounts, sqlx::Error> {
        let mut looked = RecheckCounts::default();
        loop {
            let now = clock.now().trunc_subsecs(3);
            let due: Vec<Row> = sqlx::query_as(CLAIM).bind(now).bind(now + RETRY).bind(AT_ONCE).fetch_all(&self.pool).await?;
            if due.is_empty() {
                return Ok(looked);
            }
            let mut looking = JoinSet::new();
            for row in due {
                let upkeep = self.clone();
                looking.spawn(async move { upkeep.check(row, now).await });
            }
            while let Some(outcome) = looking.join_next().await {
                match outcome {
                    Ok(Ok(Outcome::Present)) => looked.present += 1,
                    Ok(Ok(Outcome::Missing)) => looked.missing += 1,
                    Ok(Ok(Outcome::Lapsed)) => looked.lapsed += 1,
                    Ok(Ok(Outcome::Overtaken)) => {}
                    Ok(Err(error)) => tracing::warn!("failed to store domain check result: {error}"),
                    Err(error) => tracing::error!("domain check panicked: {error}"),
                }
            }
        }
    }

    async fn check(&self, row: Row, now: DateTime<Utc>) -> Result<Outcome, sqlx::Error> {
        let organization = OrgId(row.organization_id);
        let claim = ExpectedToken { domain: &row.domain, token: &row.verification_token, organization };
        match self.finder.find(claim, &VerificationMethod::ALL).await {
            Ok(method) => self.record_present(row.id, method, now).await,
            Err(_) => self.record_missing(&row, now).await,
        }
    }

    async fn record_present(&self, id: Uuid, method: VerificationMethod, now: DateTime<Utc>) -> Result<Outcome, sqlx::Error> {
        let noted = sqlx::query(STANDS).bind(id).bind(method.as_str()).bind(now).bind(now + self.terms.recheck_after);
        let is_held = noted.execute(&self.pool).await?.rows_affected() == 1;
        Ok(if is_held { Outcome::Present } else { Outcome::Overtaken })
    }

    async fn record_missing(&self, row: &Row, now: DateTime<Utc>) -> Result<Outcome, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        ownership::lock(&mut transaction).await?;
        let noted: Option<Row> =
            sqlx::query_as(IS_MISSING).bind(row.id).bind(row.proved_at).bind(now).fetch_optional(&mut *transaction).await?;
        let Some(noted) = noted else { return Ok(Outcome::Overtaken) };
        let since = noted.unproved_since.unwrap_or(now);
        let org = OrgId(noted.organization_id);
        let is_over = now - since >= self.terms.lapse_after && noted.proof_failures >= LEAST_FAILURES;
        if is_over {
            ownership::release(&mut transaction, org, noted.id(), now).await?;
            let detail =
                json!({"domain": noted.domain, "method": noted.verification_method, "unproved_since": instant::text(since)});
            let change = Change { action: "domain.lapsed", object_kind: "domain", object_id: noted.id, detail };
            audit::record_by(&mut transaction, Author::System, Some(org), now, change).await?;
        }
        transaction.commit().await?;
        let domain = noted.domain.as_str();
        if is_over {
            owner_emails::send(&self.pool, &self.mailer, org, Notice::Lapsed { domain }).await;
            return Ok(Outcome::Lapsed);
        }
        if noted.proof_failures == 1 {
            let until = since + self.terms.lapse_after;
            let notice = Notice::Missing { domain, token: &noted.verification_token, until };
            owner_emails::send(&self.pool, &self.mailer, org, notice).await;
        }
        Ok(Outcome::Missing)
    }
}

/// Records that a verified domain was verified now, by this method.
pub(super) async fn record_verified(
    transaction: &mut PgConnection,
    id: Uuid,
    method: VerificationMethod,
    now: DateTime<Utc>,
    terms: RecheckSettings,
) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as(STANDS)
        .bind(id)
        .bind(method.as_str())
        .bind(now)
        .bind(now + terms.recheck_after)
        .fetch_optional(transaction)
        .await
}
