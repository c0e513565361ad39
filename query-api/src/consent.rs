//! What PostgreSQL says at the time of a look-up: what a click token stands for, and who has agreed to be seen.
//!
//! Must not remember anything: a consent that is withdrawn counts from the next look-up on.

use crate::session_scope::SessionScope;
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::secrets::SecretHash;
use schemas::session::PrivacyLevel;
use schemas::site::Site;
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

/// What one question may take, also when PostgreSQL stops in the middle of it.
const DEADLINE: Duration = Duration::from_millis(2_500);

/// A click token that may be looked up.
pub(crate) struct Clicked {
    /// Whose session, and which.
    pub(crate) scope: SessionScope,
    /// The link it was made for.
    pub(crate) content_url: String,
    /// When the session began, else when it was first heard of.
    pub(crate) started_at: DateTime<Utc>,
    /// What the session has declared.
    pub(crate) level: Option<PrivacyLevel>,
}

/// Organisation, session, URL, start, level.
type ClickedRow = (Uuid, Uuid, String, DateTime<Utc>, Option<i16>);

/// What the token stands for, when it is valid and the organisation that issued it shares its sessions. One statement
/// decides, so that every reason for "no" takes the same way.
pub(crate) async fn find_clicked(pool: &PgPool, token: &SecretHash, now: DateTime<Utc>) -> Result<Option<Clicked>, sqlx::Error> {
    let row: Option<ClickedRow> = bounded(
        sqlx::query_as(
            "SELECT c.organization_id, c.session_id, c.content_url, coalesce(s.started_at, s.created_at), s.privacy_level \
             FROM click_tokens c \
             JOIN organizations o ON o.id = c.organization_id \
             JOIN sessions s ON s.organization_id = c.organization_id AND s.session_id = c.session_id \
             WHERE c.token_hash = $1 AND c.expires_at > $2 AND o.share_sessions_via_click_tokens",
        )
        .bind(token.as_bytes().as_slice())
        .bind(now)
        .fetch_optional(pool),
    )
    .await?;
    Ok(row.map(|(org, session, content_url, started_at, level)| Clicked {
        scope: SessionScope::granted(OrgId(org), SessionId(session)),
        content_url,
        started_at,
        level: level.map(level_of),
    }))
}

/// A level that a newer build wrote is not known to be laxer than the strictest.
pub(crate) fn level_of(stored: i16) -> PrivacyLevel {
    usize::try_from(stored).ok().and_then(|code| PrivacyLevel::ALL.get(code).copied()).unwrap_or(PrivacyLevel::Minimal)
}

/// Of hosts, those whose owners agree to be seen in manifests, with the time from which on events are theirs.
#[derive(Debug, Default)]
pub(crate) struct Consents(BTreeMap<String, Option<DateTime<Utc>>>);

impl Consents {
    /// Whether an event of that host and time may be shown.
    pub(crate) fn cover(&self, site: &str, at_ms: i64) -> bool {
        self.0.get(site).is_some_and(|from| from.is_none_or(|from| from.timestamp_micros() <= at_ms.saturating_mul(1_000)))
    }

    /// That all events of these hosts may be shown.
    #[cfg(test)]
    pub(crate) fn to(sites: &[&str]) -> Self {
        Self(sites.iter().map(|site| ((*site).to_owned(), None)).collect())
    }

    /// The same from a time on, in milliseconds.
    #[cfg(test)]
    pub(crate) fn from_times(sites: &[(&str, Option<i64>)]) -> Self {
        let from = |ms: &Option<i64>| ms.and_then(DateTime::from_timestamp_millis);
        Self(sites.iter().map(|(site, ms)| ((*site).to_owned(), from(ms))).collect())
    }
}

/// Asks the owners of these hosts: of a host and its parents, the longest verified one decides. What happened while
/// somebody else had the host, or one between it and the owner's, is not the owner's to show.
pub(crate) async fn consents(pool: &PgPool, sites: BTreeSet<&str>) -> Result<Consents, sqlx::Error> {
    let mut pairs: (Vec<String>, Vec<String>) = Default::default();
    for site in sites.into_iter().filter(|site| !site.is_empty()) {
        for candidate in Site::from_stored(site).candidates() {
            pairs.0.push(site.to_owned());
            pairs.1.push(candidate.as_str().to_owned());
        }
    }
    if pairs.0.is_empty() {
        return Ok(Consents::default());
    }
    let rows: Vec<(String, Option<DateTime<Utc>>)> = bounded(
        sqlx::query_as(
            "WITH asked AS (SELECT * FROM unnest($1::text[], $2::text[]) AS given (site, candidate)), \
             owner AS (SELECT DISTINCT ON (a.site) a.site, d.site AS owned, d.organization_id, d.visible_from \
                 FROM asked a JOIN domains d ON d.site = a.candidate AND d.verified_at IS NOT NULL AND d.released_at IS NULL \
                 ORDER BY a.site, length(d.site) DESC) \
             SELECT owner.site, greatest(owner.visible_from, ( \
                 SELECT max(former.released_at) FROM asked a JOIN domains former ON former.site = a.candidate \
                 WHERE a.site = owner.site AND length(former.site) > length(owner.owned) AND former.verified_at IS NOT NULL \
                 AND former.released_at IS NOT NULL AND former.organization_id <> owner.organization_id)) \
             FROM owner JOIN organizations o ON o.id = owner.organization_id WHERE o.visible_in_click_token_lookups",
        )
        .bind(pairs.0)
        .bind(pairs.1)
        .fetch_all(pool),
    )
    .await?;
    Ok(Consents(rows.into_iter().collect()))
}

pub(crate) async fn bounded<T>(question: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(DEADLINE, question).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
