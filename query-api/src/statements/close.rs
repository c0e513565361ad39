//! Closes a month: computes its statement, then stores it with its evidence in one transaction.

use super::computation::{Computation, Counted, Rules};
use super::document::{By, Corrections, Evidence, MAX_BYTES, Owner, Signature, Statement, changes, sha256, too_large};
use super::evidence_file::{EvidenceFile, SpooledPieces};
use super::hours::CoveredHours;
use super::opaque_ids::OpaqueIds;
use super::table::{NewStatement, StatementRow, StatementTable};
use super::{Statements, month};
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::reads::{EvidenceSources, Reads};
use chrono::{DateTime, SubsecRound, Utc};
use schemas::bots::BotTable;
use schemas::ids::StatementId;
use schemas::problem::{Code, Fault};
use service_kit::auth::{Credential, Tenant};
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Slot};
use std::collections::HashSet;
use std::mem;
use std::time::Duration;
use uuid::Uuid;

/// Number of attempts if others close the owner's months at the same time.
const ATTEMPTS: usize = 5;
/// Maximum time to wait for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_mins(10);
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// A month to close, for an owner and a licensee.
pub(crate) struct Closing {
    pub(crate) seen: Visibility,
    pub(crate) owner_name: String,
    pub(crate) author: Credential,
    pub(crate) tenant: Tenant,
    /// Such as `2026-10`.
    pub(crate) period: String,
    /// `None` for all.
    pub(crate) operator: Option<String>,
    pub(crate) by: By,
}

#[derive(Clone)]
pub(crate) struct MonthClosed {
    /// Whether the statement is new.
    pub(crate) is_new: bool,
    pub(crate) row: StatementRow,
}

/// The data from which a statement is computed.
pub(crate) struct Sources<'a> {
    pub(crate) reads: &'a Reads,
    pub(crate) bots: &'a BotTable,
    pub(crate) table: &'a StatementTable,
}

/// The statements that a new one continues.
struct Earlier {
    latest: Option<StatementRow>,
    revised: Option<StatementRow>,
}

impl Earlier {
    async fn read(table: &StatementTable, closing: &Closing) -> Result<Self, sqlx::Error> {
        let (organization, operator) = (closing.seen.organization_id(), closing.operator.as_deref());
        Ok(Self {
            latest: table.latest(organization, operator).await?,
            revised: table.latest_revision(organization, operator, (&closing.period, closing.by)).await?,
        })
    }
}

/// A counted month, and the statement that it revises.
struct Month {
    counted: Counted,
    hours: i64,
    pieces: SpooledPieces,
    revises: Option<Uuid>,
}

impl Statements {
    /// Closes a month, or returns its latest statement if no report arrived since. Returns 422 for a month that hasn't ended.
    pub(crate) async fn close(
        &self,
        sources: &Sources<'_>,
        closing: &Closing,
        now: DateTime<Utc>,
    ) -> Result<MonthClosed, ApiError> {
        let (since_ms, until_ms) =
            month::limits(&closing.period).ok_or_else(|| fault("period", "period must be a month such as 2026-10"))?;
        let closed_at = now.trunc_subsecs(0);
        if closed_at.timestamp_millis() < until_ms {
            return Err(fault("period", "period must be a month that has ended, in UTC"));
        }
        if closing.operator.as_ref().is_some_and(|name| !sources.bots.bots().any(|(_, operator, _)| operator == name)) {
            return Err(fault("operator", "operator must be an operator of the bot table, such as OpenAI"));
        }
        self.signer()?;
        let _slot = self.slot(closing.tenant).await?;
        let period = Period { from_ms: Some(since_ms), before_ms: Some(until_ms), ..Period::default() };
        let (mut month, mut refusal) = (None, None);
        for _ in 0..ATTEMPTS {
            match self.attempt(sources, closing, (&period, closed_at), &mut month).await {
                Err(Attempt::Overtaken(error)) => refusal = Some(error),
                Err(Attempt::Failed(error)) => return Err(error),
                Ok(closed) => return Ok(closed),
            }
        }
        Err(refusal.unwrap_or_else(|| ApiError::unavailable(anyhow::anyhow!("no attempt"))))
    }

    async fn slot(&self, tenant: Tenant) -> Result<Slot<Tenant>, ApiError> {
        self.slots.wait(tenant, SLOT_TIMEOUT).await.map_err(|why| {
            let (code, detail) = match why {
                NoSlot::OwnShare => (Code::TooManyRequests, "Other months of yours are being closed. Try again later."),
                NoSlot::AllTaken => (Code::Unavailable, "Other months are being closed. Try again later."),
            };
            ApiError::new(code, detail).retry_after(RETRY_AFTER)
        })
    }

    /// Counts the month, unless an earlier attempt did, and stores its statement.
    async fn attempt(
        &self,
        sources: &Sources<'_>,
        closing: &Closing,
        (period, closed_at): (&Period, DateTime<Utc>),
        counted: &mut Option<Month>,
    ) -> Result<MonthClosed, Attempt> {
        let earlier = Earlier::read(sources.table, closing).await?;
        let revises = earlier.revised.as_ref().map(|revised| revised.id);
        let mut month = match counted.take().filter(|month| month.revises == revises) {
            Some(month) => month,
            None => count(sources, closing, (period, closed_at), &earlier).await?,
        };
        if let Some(revised) = earlier.revised.clone().filter(|revised| !has_new_reports(revised, &month.counted)) {
            return Ok(MonthClosed { is_new: false, row: revised });
        }
        let (keys, _) = self.signer()?;
        let mut statement = self.document(sources, closing, closed_at, &earlier, &mut month).await?;
        let text = statement.sign(keys).map_err(ApiError::internal)?;
        if text.len() > MAX_BYTES {
            return Err(too_large().into());
        }
        let sha256 = sha256(text.as_bytes());
        let id = StatementId(Uuid::now_v7());
        let new = NewStatement { id, statement: &statement, closed_at, text: &text, sha256: &sha256, author: closing.author };
        let stored = store(sources.table, &new, &month.pieces).await;
        month.counted.lines = statement.lines;
        *counted = Some(month);
        stored.map(|row| MonthClosed { is_new: true, row })
    }

    async fn document(
        &self,
        sources: &Sources<'_>,
        closing: &Closing,
        closed_at: DateTime<Utc>,
        earlier: &Earlier,
        Month { counted, hours, pieces, .. }: &mut Month,
    ) -> Result<Statement, ApiError> {
        let corrections = match &earlier.revised {
            Some(revised) => {
                let document = sources.table.document(StatementId(revised.id)).await?;
                let before: Statement = serde_json::from_slice(&document).map_err(ApiError::internal)?;
                Some(Corrections {
                    changes: changes(&before.lines, &counted.lines, MAX_BYTES.saturating_sub(counted.bytes))?,
                    late_reports: counted.late_reports,
                    other_reports: counted.reports - revised.reports - counted.late_reports,
                    revises: revised.sha256.clone(),
                })
            }
            None => None,
        };
        let (_, service) = self.signer()?;
        Ok(Statement {
            by: closing.by,
            closed: time_text(closed_at),
            corrections,
            counting_rules: 1,
            document_type: "statement".to_owned(),
            evidence: Evidence { hours: *hours, reports: counted.reports, sha256: pieces.sha256() },
            hosts: closing.seen.domains().to_vec(),
            lines: mem::take(&mut counted.lines),
            number: earlier.latest.as_ref().map_or(1, |latest| latest.number + 1),
            operator: closing.operator.clone(),
            owner: Owner { id: closing.seen.organization_id(), name: closing.owner_name.clone() },
            period: closing.period.clone(),
            previous: earlier.latest.as_ref().map(|latest| latest.sha256.clone()),
            revision: earlier.revised.as_ref().map_or(1, |revised| revised.revision + 1),
            service: service.to_owned(),
            signature: None::<Signature>,
            totals: counted.totals.clone(),
            version: 1,
        })
    }
}

/// Stores the evidence and then the statement. Fails if another closing was faster, or if the organization's budget is used up.
async fn store(table: &StatementTable, new: &NewStatement<'_>, pieces: &SpooledPieces) -> Result<StatementRow, Attempt> {
    let mut transaction = table.0.begin().await?;
    new.require_budget(pieces.bytes(), &mut transaction).await?;
    pieces.insert(new.id, &mut transaction).await?;
    let row = new.insert(&mut transaction).await?;
    transaction.commit().await?;
    Ok(row)
}

/// Reads and counts the month, and writes its evidence.
async fn count(
    sources: &Sources<'_>,
    closing: &Closing,
    (period, closed_at): (&Period, DateTime<Utc>),
    earlier: &Earlier,
) -> Result<Month, ApiError> {
    let Sources { reads, table, .. } = sources;
    let microseconds = |time: DateTime<Utc>| u64::try_from(time.timestamp_micros()).unwrap_or(0);
    let reported = reads.evidence_sources(&closing.seen, period).await?;
    let rules = Rules {
        since_ms: period.from_ms.unwrap_or_default(),
        until_ms: period.before_ms.unwrap_or_default(),
        operator: closing.operator.as_deref(),
        by: closing.by,
        bots: sources.bots,
        owners: content_owners(table, &reported).await?,
        late_from_us: earlier.revised.as_ref().map(|revised| microseconds(revised.closed_at)),
    };
    let covered = CoveredHours::read(reads, &table.0, &closing.seen, period).await?;
    let mut file = EvidenceFile::new();
    let hours = covered.write(&mut file.rows);
    let ids = OpaqueIds::new(table.id_key(closing.seen.organization_id()).await?);
    let mut computation = Computation::new(rules, ids);
    let mut rows = reads.evidence((&closing.seen, period), microseconds(closed_at), &reported);
    while let Some(row) = rows.next().await? {
        computation.add(row, &mut file.rows)?;
        file.spool_full_piece().await?;
    }
    let counted = computation.finish(&mut file.rows, &covered).await?;
    let revises = earlier.revised.as_ref().map(|revised| revised.id);
    Ok(Month { counted, hours, pieces: file.finish().await?, revises })
}

/// Returns which of the reporting organizations are content owners, because these report only for their own hosts.
async fn content_owners(table: &StatementTable, reported: &EvidenceSources) -> Result<HashSet<Uuid>, sqlx::Error> {
    let ids: Vec<Uuid> = reported.organizations.iter().filter_map(|id| id.parse().ok()).collect();
    let query = sqlx::query_scalar("SELECT id FROM organizations WHERE id = ANY($1) AND org_type = 'content_owner'");
    let owners: Vec<Uuid> = query.bind(ids).fetch_all(&table.0).await?;
    Ok(owners.into_iter().collect())
}

/// Deleted reports don't cause a revision, because retention deletes old ones.
fn has_new_reports(revised: &StatementRow, counted: &Counted) -> bool {
    counted.late_reports > 0 || counted.reports > revised.reports
}

/// Why an attempt didn't succeed.
enum Attempt {
    /// Another process or request closed one of the owner's months at the same time.
    Overtaken(ApiError),
    Failed(ApiError),
}

impl From<ApiError> for Attempt {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<sqlx::Error> for Attempt {
    fn from(error: sqlx::Error) -> Self {
        let is_overtaken = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
        if is_overtaken { Self::Overtaken(ApiError::unavailable(error)) } else { Self::Failed(error.into()) }
    }
}

pub(super) fn time_text(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn fault(field: &str, detail: &str) -> ApiError {
    let fault = Fault { index: None, field: field.to_owned(), code: "invalid".to_owned(), detail: detail.to_owned() };
    ApiError::faults(Code::InvalidRequest, vec![fault])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::StatementSettings;
    use futures::FutureExt;
    use schemas::ids::OrgId;

    #[tokio::test]
    async fn converts_two_statements_at_once() {
        let statements = Statements::new(&StatementSettings::default(), None).unwrap();
        let turn = |tenant| statements.conversion(Tenant::Organization(OrgId(Uuid::from_u128(tenant)))).now_or_never();
        let taken = [turn(1), turn(1)].map(|turn| turn.unwrap().unwrap());
        assert!(turn(2).is_none());
        drop(taken);
        assert!(turn(2).unwrap().is_ok());
    }

    #[tokio::test]
    async fn tenants_leave_a_slot_for_others() {
        let statements = Statements::new(&StatementSettings::default(), None).unwrap();
        let slot = |tenant| statements.slot(Tenant::Organization(OrgId(Uuid::from_u128(tenant)))).now_or_never();
        let taken = [slot(1), slot(1), slot(2)].map(|slot| slot.unwrap().unwrap());
        assert!(slot(1).is_none() && slot(3).is_none(), "others wait");
        let [first, ..] = taken;
        drop(first);
        assert!(slot(1).is_none(), "the last free slot is for others");
        assert!(slot(3).unwrap().is_ok());
    }
}
