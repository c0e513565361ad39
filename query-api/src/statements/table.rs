//! Stored statements.

use super::document::{By, Statement};
use super::opaque_ids::OpaqueIds;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::ids::{OrgId, StatementId};
use schemas::problem::Code;
use schemas::statement_responses::StatementItem;
use service_kit::auth::Credential;
use service_kit::http::ApiError;
use sqlx::{PgConnection, PgPool};
use std::time::Duration;
use uuid::Uuid;

const LEVEL: i32 = 3;
/// Statements that an organization can create per day, and compressed bytes of their documents and evidence. The first statement of a day
/// can be larger.
const PER_DAY: i64 = 200;
const BYTES_PER_DAY: u64 = 256 << 20;
/// Columns of [`StatementRow`].
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, operator, period, lines_by, number, revision, closed_at, sha256, reports, late_reports, \
             octet_length(document) AS document_bytes FROM statements ",
            $rest
        )
    };
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct StatementRow {
    pub(crate) id: Uuid,
    operator: Option<String>,
    period: String,
    lines_by: String,
    pub(super) number: i64,
    pub(super) revision: i64,
    pub(super) closed_at: DateTime<Utc>,
    pub(super) sha256: String,
    pub(super) reports: i64,
    late_reports: i64,
    /// Compressed.
    pub(crate) document_bytes: i32,
}

impl StatementRow {
    pub(crate) fn item(self) -> StatementItem {
        StatementItem {
            id: StatementId(self.id),
            period: self.period,
            operator: self.operator,
            by: self.lines_by.parse().unwrap_or(By::Url),
            number: self.number,
            revision: self.revision,
            closed: schemas::instant::text(self.closed_at),
            sha256: self.sha256,
            reports: self.reports,
            late_reports: self.late_reports,
        }
    }
}

/// A statement to insert.
pub(super) struct NewStatement<'a> {
    pub(super) id: StatementId,
    pub(super) statement: &'a Statement,
    pub(super) closed_at: DateTime<Utc>,
    /// Canonical JSON.
    pub(super) text: &'a str,
    pub(super) sha256: &'a str,
    pub(super) author: Credential,
}

pub(crate) struct StatementTable(pub(crate) PgPool);

impl StatementTable {
    /// Returns an organization's statements, latest first.
    pub(crate) async fn list(&self, organization: OrgId) -> Result<Vec<StatementRow>, sqlx::Error> {
        let query = sqlx::query_as(select!("WHERE organization_id = $1 ORDER BY closed_at DESC, id DESC"));
        query.bind(organization.0).fetch_all(&self.0).await
    }

    pub(crate) async fn find(&self, organization: OrgId, id: StatementId) -> Result<Option<StatementRow>, sqlx::Error> {
        let query = sqlx::query_as(select!("WHERE organization_id = $1 AND id = $2"));
        query.bind(organization.0).bind(id.0).fetch_optional(&self.0).await
    }

    /// Returns an existing statement's document, compressed.
    pub(crate) async fn compressed_document(&self, id: StatementId) -> Result<Vec<u8>, sqlx::Error> {
        sqlx::query_scalar("SELECT document FROM statements WHERE id = $1").bind(id.0).fetch_one(&self.0).await
    }

    /// Returns an existing statement's document.
    pub(crate) async fn document(&self, id: StatementId) -> Result<Vec<u8>, ApiError> {
        zstd::stream::decode_all(self.compressed_document(id).await?.as_slice()).map_err(ApiError::internal)
    }

    /// Returns the key of the owner's opaque IDs, and creates it first if necessary.
    pub(super) async fn id_key(&self, organization: OrgId) -> Result<Vec<u8>, sqlx::Error> {
        let new: [u8; 32] = rand::random();
        sqlx::query("INSERT INTO statement_owners (organization_id, id_key) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(organization.0)
            .bind(new.as_slice())
            .execute(&self.0)
            .await?;
        let query = sqlx::query_scalar("SELECT id_key FROM statement_owners WHERE organization_id = $1");
        query.bind(organization.0).fetch_one(&self.0).await
    }

    /// Returns the opaque IDs in an owner's files.
    pub(crate) async fn opaque_ids(&self, organization: OrgId) -> Result<OpaqueIds, sqlx::Error> {
        Ok(OpaqueIds::new(self.id_key(organization).await?))
    }

    /// Returns the latest statement of the chain.
    pub(super) async fn latest(&self, organization: OrgId, operator: Option<&str>) -> Result<Option<StatementRow>, sqlx::Error> {
        let query = sqlx::query_as(select!(
            "WHERE organization_id = $1 AND operator IS NOT DISTINCT FROM $2 ORDER BY number DESC LIMIT 1"
        ));
        query.bind(organization.0).bind(operator).fetch_optional(&self.0).await
    }

    pub(super) async fn latest_revision(
        &self,
        organization: OrgId,
        operator: Option<&str>,
        (period, by): (&str, By),
    ) -> Result<Option<StatementRow>, sqlx::Error> {
        let query = sqlx::query_as(select!(
            "WHERE organization_id = $1 AND operator IS NOT DISTINCT FROM $2 AND period = $3 AND lines_by = $4 \
             ORDER BY revision DESC LIMIT 1"
        ));
        query.bind(organization.0).bind(operator).bind(period).bind(by.as_str()).fetch_optional(&self.0).await
    }
}

impl NewStatement<'_> {
    /// Returns 429 if the organization's statements of the last 24 hours leave no room for this one with so many `bytes`. Until the
    /// transaction ends, the organization stores no other statement.
    pub(super) async fn require_budget(&self, bytes: u64, transaction: &mut PgConnection) -> Result<(), ApiError> {
        let organization = self.statement.owner.id.0;
        let lock = sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('statements ' || $1::text, 0))");
        lock.bind(organization).execute(&mut *transaction).await?;
        let query =
            sqlx::query_as(include_str!("table/of_a_day.sql")).bind(organization).bind(self.closed_at - TimeDelta::days(1));
        let (statements, stored): (i64, i64) = query.fetch_one(transaction).await?;
        let is_full = stored > 0 && stored.unsigned_abs() + bytes >= BYTES_PER_DAY;
        if statements < PER_DAY && !is_full {
            return Ok(());
        }
        let detail = format!(
            "Your organization can create {PER_DAY} statements and {} MiB of evidence in 24 hours. Try again later.",
            BYTES_PER_DAY >> 20
        );
        Err(ApiError::new(Code::TooManyRequests, detail).retry_after(Duration::from_hours(1)))
    }

    pub(super) async fn insert(&self, transaction: &mut PgConnection) -> Result<StatementRow, sqlx::Error> {
        let document = zstd::bulk::compress(self.text.as_bytes(), LEVEL)?;
        let (actor_kind, actor_id) = match self.author {
            Credential::Key(key) => ("key", key.0),
            Credential::User(user) => ("user", user.0),
        };
        let of = self.statement;
        let late_reports = of.corrections.as_ref().map_or(0, |corrections| corrections.late_reports);
        let row = sqlx::query_as(include_str!("table/insert.sql"))
            .bind(self.id.0)
            .bind(of.owner.id.0)
            .bind(&of.operator)
            .bind(&of.period)
            .bind(of.by.as_str())
            .bind(of.number)
            .bind(of.revision)
            .bind(self.closed_at)
            .bind(self.sha256)
            .bind(of.evidence.reports)
            .bind(late_reports)
            .bind(document)
            .bind(actor_kind)
            .bind(actor_id);
        row.fetch_one(transaction).await
    }
}
