//! Fetches manifests at registration and hourly, and stores every version of their keys.
//!
//! A failed fetch or an invalid manifest keeps the last valid keys. No database connection is open during a fetch.

use super::hosts;
use crate::access::prelude::*;
use crate::domains::TokenFinder;
use chrono::{SubsecRound, TimeDelta};
use schemas::identity::ManifestState;
use schemas::site::Site;
use service_kit::clock::Clock;
use service_kit::periodic;
use signatures::{Key, ManifestError, manifest_keys};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

const REFRESH_AFTER: TimeDelta = TimeDelta::hours(1);
/// Number of concurrent checks.
const AT_ONCE: i64 = 8;
/// Maximum number of new key versions per organization in this time, because they are stored forever.
const MAX_VERSIONS: i64 = 1_000;
const VERSIONS_WITHIN: TimeDelta = TimeDelta::days(30);

const CLAIM: &str = "UPDATE manifests SET due_at = $1 + interval '1 hour' WHERE id = ANY(array( \
        SELECT id FROM manifests WHERE due_at <= $1 AND deleted_at IS NULL ORDER BY due_at LIMIT $2 \
        FOR NO KEY UPDATE SKIP LOCKED)) RETURNING id, organization_id, url";

/// Checks manifests; cheap to clone.
#[derive(Clone)]
pub(crate) struct ManifestChecks {
    pub(crate) pool: PgPool,
    pub(crate) finder: TokenFinder,
}

/// Result of a fetch.
pub(crate) enum Fetched {
    Keys(Vec<Key>),
    Invalid(String),
    Unreachable(&'static str),
}

/// Keys as columns of SQL arrays.
#[derive(Default)]
struct KeyColumns {
    ids: Vec<String>,
    thumbprints: Vec<String>,
    public_keys: Vec<Vec<u8>>,
    expires: Vec<Option<DateTime<Utc>>>,
}

impl KeyColumns {
    fn new(keys: &[Key]) -> Self {
        let mut columns = Self::default();
        for key in keys {
            columns.ids.push(key.id.clone().unwrap_or_default());
            columns.thumbprints.push(key.public.thumbprint());
            columns.public_keys.push(key.public.as_bytes().to_vec());
            columns.expires.push(key.expires.and_then(|seconds| DateTime::from_timestamp(seconds, 0)));
        }
        columns
    }
}

/// Runs rounds until the handle is dropped.
pub(crate) fn start(checks: ManifestChecks, clock: Clock, every: Duration) -> AbortOnDropHandle<()> {
    periodic::start(every, move || {
        let (checks, clock) = (checks.clone(), clock.clone());
        async move {
            if let Err(error) = checks.round(&clock).await {
                tracing::warn!("failed to refresh manifests, retrying in the next round: {error}");
            }
        }
    })
}

impl ManifestChecks {
    /// Checks every manifest that is due, and returns their number.
    pub(crate) async fn round(&self, clock: &Clock) -> Result<usize, sqlx::Error> {
        let mut count = 0;
        loop {
            let now = clock.now().trunc_subsecs(3);
            let due: Vec<(Uuid, Uuid, String)> = sqlx::query_as(CLAIM).bind(now).bind(AT_ONCE).fetch_all(&self.pool).await?;
            if due.is_empty() {
                return Ok(count);
            }
            count += due.len();
            let mut checking = JoinSet::new();
            for (id, org, url) in due {
                let (checks, org) = (self.clone(), OrgId(org));
                checking.spawn(async move {
                    let fetched = checks.fetch(org, &url).await;
                    checks.store(id, org, fetched, Author::System, now).await
                });
            }
            while let Some(done) = checking.join_next().await {
                match done {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!("failed to store manifest check result: {}", error.one_line()),
                    Err(error) => tracing::error!("manifest check panicked: {error}"),
                }
            }
        }
    }

    pub(crate) async fn fetch(&self, org: OrgId, url: &str) -> Fetched {
        let Ok(url) = Url::parse(url) else { return Fetched::Unreachable("the URL is invalid") };
        match self.finder.document(org, &url, manifest_keys).await {
            Ok(Ok(keys)) => Fetched::Keys(keys),
            // The parser's error quotes the document.
            Ok(Err(ManifestError::NotJson(error))) => {
                let (line, column) = (error.line(), error.column());
                Fetched::Invalid(format!("the manifest is not JSON, or lacks the right form: line {line}, column {column}"))
            }
            Ok(Err(error)) => Fetched::Invalid(error.to_string()),
            Err(reason) => Fetched::Unreachable(reason),
        }
    }

    /// Stores the result of a check that began at `now`, unless a later one is stored or the manifest was deleted.
    pub(crate) async fn store(
        &self,
        id: Uuid,
        org: OrgId,
        fetched: Fetched,
        author: Author,
        now: DateTime<Utc>,
    ) -> Result<(), ApiError> {
        let mut transaction = self.pool.begin().await?;
        organization_rows::lock(&mut transaction, org).await?;
        let found: Option<String> = sqlx::query_scalar(
            "SELECT site FROM manifests WHERE id = $1 AND deleted_at IS NULL AND (checked_at IS NULL OR checked_at <= $2)",
        )
        .bind(id)
        .bind(now)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(site) = found else { return Ok(()) };
        let may_publish = hosts::may_publish(&mut transaction, org, &Site::from_stored(&site)).await?;
        let (state, reason, changed) = if may_publish {
            record(&mut transaction, (id, org), fetched, now).await?
        } else {
            let ended = end_keys(&mut transaction, id, now).await?;
            (ManifestState::Unverified, Some("the host is not verified or attested any more".to_owned()), (Vec::new(), ended))
        };
        sqlx::query(
            "UPDATE manifests SET state = $2, reason = $3, checked_at = $4, due_at = $5, \
             valid_at = CASE WHEN $2 = 'valid' THEN $4 ELSE valid_at END WHERE id = $1",
        )
        .bind(id)
        .bind(state.as_str())
        .bind(reason)
        .bind(now)
        .bind(now + REFRESH_AFTER)
        .execute(&mut *transaction)
        .await?;
        let (added, ended) = changed;
        if !added.is_empty() || !ended.is_empty() {
            let detail = json!({"added": added, "ended": ended});
            let change = Change { action: "manifest.keys_changed", object_kind: "manifest", object_id: id, detail };
            audit::record_by(&mut transaction, author, Some(org), now, change).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// Thumbprints of added and ended keys.
type KeyChanges = (Vec<String>, Vec<String>);

/// Stores the keys of a fetch and returns the manifest's state with its reason.
async fn record(
    transaction: &mut PgConnection,
    (id, org): (Uuid, OrgId),
    fetched: Fetched,
    now: DateTime<Utc>,
) -> Result<(ManifestState, Option<String>, KeyChanges), sqlx::Error> {
    let keys = match fetched {
        Fetched::Keys(keys) => KeyColumns::new(&keys),
        Fetched::Invalid(reason) => return Ok((ManifestState::Invalid, Some(reason), KeyChanges::default())),
        Fetched::Unreachable(reason) => return Ok((ManifestState::Unreachable, Some(reason.to_owned()), KeyChanges::default())),
    };
    if let Some(reason) = refusal(transaction, (id, org), &keys, now).await? {
        return Ok((ManifestState::Invalid, Some(reason), KeyChanges::default()));
    }
    let ended: Vec<Option<String>> = sqlx::query_scalar(include_str!("end_missing.sql"))
        .bind(id)
        .bind(now)
        .bind(&keys.ids)
        .bind(&keys.public_keys)
        .bind(&keys.expires)
        .fetch_all(&mut *transaction)
        .await?;
    let added: Vec<String> = sqlx::query_scalar(include_str!("insert_new.sql"))
        .bind(id)
        .bind(org.0)
        .bind(now)
        .bind(&keys.ids)
        .bind(&keys.thumbprints)
        .bind(&keys.public_keys)
        .bind(&keys.expires)
        .fetch_all(transaction)
        .await?;
    Ok((ManifestState::Valid, None, (added, ended.into_iter().flatten().collect())))
}

/// Returns the reason why the keys can't be stored, or `None`.
async fn refusal(
    transaction: &mut PgConnection,
    (id, org): (Uuid, OrgId),
    keys: &KeyColumns,
    now: DateTime<Utc>,
) -> Result<Option<String>, sqlx::Error> {
    let (taken, versions): (Option<String>, i64) = sqlx::query_as(include_str!("refusal.sql"))
        .bind(org.0)
        .bind(id)
        .bind(&keys.ids)
        .bind(&keys.thumbprints)
        .bind(&keys.public_keys)
        .bind(now - VERSIONS_WITHIN)
        .bind(&keys.expires)
        .fetch_one(transaction)
        .await?;
    if let Some(key) = taken {
        return Ok(Some(format!("the key {key:?} has the id or thumbprint of a different key in another manifest")));
    }
    let is_flood = versions > MAX_VERSIONS;
    Ok(is_flood.then(|| format!("the organization's keys changed too often: at most {MAX_VERSIONS} versions in 30 days")))
}

/// Ends all keys of a manifest and returns their thumbprints.
pub(super) async fn end_keys(transaction: &mut PgConnection, id: Uuid, now: DateTime<Utc>) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("UPDATE manifest_keys SET ended_at = $2 WHERE manifest_id = $1 AND ended_at IS NULL RETURNING thumbprint")
        .bind(id)
        .bind(now)
        .fetch_all(transaction)
        .await
}
