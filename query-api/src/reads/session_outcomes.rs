//! Outcomes of an organization's sessions by type and currency (docs/api/reads.md#get-agentsummary). Outcomes are stored in
//! PostgreSQL.
//!
//! Uses few connections, because authentication needs them too. Sums are exact: a value has 63 bits, and there may be any
//! number of values.

use super::series::BucketLength;
use super::series_cells::Cell;
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use chrono::{DateTime, Utc};
use schemas::problem::Code;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of concurrent queries.
const AT_ONCE: usize = 4;
/// Maximum time to wait for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of rows, each for a bucket, a type and a currency.
const MAX_ROWS: usize = 1_000_000;

/// Counts an outcome when its session ended, otherwise when it started, otherwise at its first report. Parses it with a pattern for the
/// stored format (`schemas::session::Outcome`) and not as JSON, because PostgreSQL rejects some JSON strings in other members. An outcome
/// in another format is an error, not zero.
const OUTCOMES: &str = r#"
    SELECT floor(extract(epoch FROM ended) * 1000 / $4)::bigint AS bucket, read[1] AS outcome_type, read[3] AS currency,
           count(*) AS sessions, sum(read[2]::numeric)::text AS amount
    FROM (
        SELECT coalesce(ended_at, started_at, created_at) AS ended,
               regexp_match(outcome, '^\{"type":"([a-z]+)","value_amount":([0-9]+),"currency":"([A-Z]{3})"[,}]') AS read
        FROM sessions
        WHERE organization_id = $1 AND outcome IS NOT NULL
          AND coalesce(ended_at, started_at, created_at) >= coalesce($2, '-infinity'::timestamptz)
          AND coalesce(ended_at, started_at, created_at) < coalesce($3, 'infinity'::timestamptz)
    ) AS outcomes
    GROUP BY bucket, outcome_type, currency
    LIMIT $5"#;

pub(crate) struct OutcomeReader {
    pool: PgPool,
    slots: Arc<Slots<Tenant>>,
    deadline: Duration,
}

/// Outcomes of one type and currency in one bucket.
#[derive(sqlx::FromRow)]
struct OutcomeRow {
    bucket: i64,
    outcome_type: String,
    currency: String,
    sessions: i64,
    amount: String,
}

impl OutcomeReader {
    /// Creates the reader; `deadline` is the timeout of one query.
    pub(crate) fn new(pool: PgPool, deadline: Duration) -> Self {
        Self { pool, slots: Slots::new(Pool::ReadQuestions, AT_ONCE), deadline }
    }

    /// Returns outcomes sorted by bucket, type and currency. Without `by`, there is one bucket.
    pub(crate) async fn outcomes(
        &self,
        tenant: Tenant,
        own: &OwnReports,
        period: &Period,
        by: Option<BucketLength>,
    ) -> Result<Vec<Cell>, ApiError> {
        let rows = self.with_slot(tenant, self.rows(own, period, by)).await?;
        if rows.len() > MAX_ROWS {
            let detail = "The response would be too large. Use by=day, or a shorter period with since and until.";
            return Err(ApiError::new(Code::TooLarge, detail));
        }
        let mut cells = rows.into_iter().map(OutcomeRow::read).collect::<Result<Vec<Cell>, ApiError>>()?;
        cells.sort_unstable_by(|a, b| (a.bucket, &a.value).cmp(&(b.bucket, &b.value)));
        Ok(cells)
    }

    /// Runs a query when a slot is free. A tenant never has more slots than are left for others.
    pub(crate) async fn with_slot<T>(
        &self,
        tenant: Tenant,
        question: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, ApiError> {
        let _slot = wait_for_slot(&self.slots, tenant).await?;
        Ok(timeout(self.deadline, question).await.map_err(ApiError::unavailable)??)
    }

    async fn rows(&self, own: &OwnReports, period: &Period, by: Option<BucketLength>) -> Result<Vec<OutcomeRow>, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        // Let PostgreSQL cancel the statement when the read gives up.
        sqlx::query("SELECT set_config('statement_timeout', $1, true)")
            .bind(self.deadline.as_millis().to_string())
            .execute(&mut *transaction)
            .await?;
        let rows = sqlx::query_as(OUTCOMES)
            .bind(own.organization_id().0)
            .bind(period.from_ms.and_then(instant))
            .bind(period.before_ms.and_then(instant))
            .bind(by.map_or(i64::MAX, BucketLength::ms))
            .bind(i64::try_from(MAX_ROWS + 1).unwrap_or(i64::MAX))
            .fetch_all(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(rows)
    }
}

/// Waits for a slot for a part of a read. Errors are 429 and 503.
pub(crate) async fn wait_for_slot(slots: &Arc<Slots<Tenant>>, tenant: Tenant) -> Result<Slot<Tenant>, ApiError> {
    slots.wait(tenant, SLOT_TIMEOUT).await.map_err(slot_refused)
}

/// Returns 429 if the tenant has reached its limit, and 503 if no slot became free.
fn slot_refused(why: NoSlot) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail = "The organization, with others of its owner, has too many reads in progress. Try again after the time in Retry-After.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER)
        }
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("no PostgreSQL slot became free within {SLOT_TIMEOUT:?}")),
    }
}

impl OutcomeRow {
    fn read(self) -> Result<Cell, ApiError> {
        let Self { bucket, outcome_type, currency, sessions, amount } = self;
        let amount = amount.parse().map_err(ApiError::internal)?;
        let outcomes = u64::try_from(sessions).map_err(ApiError::internal)?;
        Ok(Cell { bucket, value: (false, outcome_type, currency), outcomes, amount, ..Cell::default() })
    }
}

fn instant(ms: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::reader::Reader;
    use schemas::identity::OrgType;
    use schemas::ids::{ApiKeyId, OrgId};
    use service_kit::auth::Credential;
    use service_kit::testing::{Seed, TestStores};
    use sqlx::postgres::PgPoolOptions;
    use std::future::{pending, ready};
    use uuid::Uuid;

    #[tokio::test]
    async fn leaves_slots_for_other_tenants() {
        let pool = PgPoolOptions::new().connect_lazy("postgres://nobody@localhost/nothing").unwrap();
        let ledger = Arc::new(OutcomeReader::new(pool, Duration::from_secs(60)));
        let [busy, other] = [1, 2].map(|number| Tenant::Organization(OrgId(Uuid::from_u128(number))));
        let questions: Vec<_> = (0..20)
            .map(|_| {
                let ledger = Arc::clone(&ledger);
                tokio::spawn(async move { ledger.with_slot(busy, pending::<Result<(), _>>()).await })
            })
            .collect();
        while ledger.slots.free() > AT_ONCE / 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..10 {
            assert_eq!(ledger.with_slot(other, ready(Ok(1))).await.unwrap(), 1);
        }
        let refused = ledger.with_slot(busy, ready(Ok(()))).await.unwrap_err();
        assert_eq!(refused.code(), Code::TooManyRequests);
        questions.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn counts_outcomes_at_the_session_end() {
        let pool = TestStores::fresh().await.pool;
        let [org_id, other] = [Seed(&pool).org("A", OrgType::Agent).await.id, Seed(&pool).org("B", OrgType::Agent).await.id];
        let day = |day: i64| instant(day * BucketLength::Day.ms());
        // Members next to the outcome can contain strings that PostgreSQL rejects.
        let outcome = |of: &str| format!(r#"{{{of},"extra":{{"metadata":{{"type":"\u0000\ud800","n":"\""}}}}}}"#);
        let converted = outcome(&format!(r#""type":"conversion","value_amount":{},"currency":"EUR""#, i64::MAX));
        let browsed = |amount| outcome(&format!(r#""type":"browse","value_amount":{amount},"currency":"USD""#));
        for (whose, outcome, ended, started, created) in [
            (org_id, Some(converted.clone()), day(1), day(5), day(6)),
            (org_id, Some(converted.clone()), day(1), None, day(6)),
            (org_id, Some(browsed(0)), None, day(2), day(6)),
            (org_id, Some(browsed(4_999)), None, None, day(3)),
            (org_id, None, day(1), None, day(1)),
            (other, Some(converted), day(1), None, day(1)),
        ] {
            let insert = "INSERT INTO sessions (organization_id, session_id, outcome, ended_at, started_at, created_at) \
                          VALUES ($1, gen_random_uuid(), $2, $3, $4, $5)";
            let insert = sqlx::query(insert).bind(whose.0).bind(outcome).bind(ended).bind(started).bind(created);
            insert.execute(&pool).await.unwrap();
        }
        let credential = Credential::Key(ApiKeyId(Uuid::nil()));
        let tenant = Tenant::Organization(org_id);
        let own = OwnReports::for_reader(&Reader { credential, tenant, org_id, org_type: OrgType::Agent }).unwrap();
        let ledger = OutcomeReader::new(pool, Duration::from_secs(20));
        let cell = |bucket, outcome_type: &str, currency: &str, outcomes, amount| Cell {
            value: (false, outcome_type.to_owned(), currency.to_owned()),
            ..Cell { bucket, outcomes, amount, ..Cell::default() }
        };
        let (most, whole) = (2 * u128::try_from(i64::MAX).unwrap(), Period::default());
        let by_day = [cell(1, "conversion", "EUR", 2, most), cell(2, "browse", "USD", 1, 0), cell(3, "browse", "USD", 1, 4_999)];
        assert_eq!(ledger.outcomes(tenant, &own, &whole, Some(BucketLength::Day)).await.unwrap(), by_day);
        let all = [cell(0, "browse", "USD", 2, 4_999), cell(0, "conversion", "EUR", 2, most)];
        assert_eq!(ledger.outcomes(tenant, &own, &whole, None).await.unwrap(), all);
        let window = Period {
            from_ms: Some(2 * BucketLength::Day.ms()),
            before_ms: Some(3 * BucketLength::Day.ms()),
            ..Period::default()
        };
        assert_eq!(ledger.outcomes(tenant, &own, &window, Some(BucketLength::Day)).await.unwrap(), by_day[1..2]);
    }
}
