//! Reads click tokens and the owners' consent from PostgreSQL.
//!
//! Nothing is cached, so a withdrawn consent applies to the next lookup.

use super::session_scope::SessionScope;
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::secrets::SecretHash;
use schemas::session::PrivacyLevel;
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

/// Timeout of one query, even if PostgreSQL stops responding during it.
const DEADLINE: Duration = Duration::from_millis(2_500);

/// A click token's session and link.
pub(crate) struct ClickedSession {
    pub(crate) scope: SessionScope,
    /// Link that the token was created for.
    pub(crate) content_url: String,
    /// Start of the session, or its first report if it has no start.
    pub(crate) started_at: DateTime<Utc>,
    pub(crate) level: Option<PrivacyLevel>,
}

/// Organization, session, URL, start, privacy level.
type ClickedRow = (Uuid, Uuid, String, DateTime<Utc>, Option<i16>);

/// Returns the token's session if the token is valid and its organization shares sessions. Everything is checked in one
/// statement, so all failures follow the same path.
pub(crate) async fn find_clicked(
    pool: &PgPool,
    token: &SecretHash,
    now: DateTime<Utc>,
) -> Result<Option<ClickedSession>, sqlx::Error> {
    let row: Option<ClickedRow> = with_deadline(
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
    Ok(row.map(|(org, session, content_url, started_at, level)| ClickedSession {
        scope: SessionScope::granted(OrgId(org), SessionId(session)),
        content_url,
        started_at,
        level: level.map(PrivacyLevel::from_code),
    }))
}

/// Hosts whose owners agree to be shown in manifests, each with the time from which events belong to the owner.
#[derive(Debug, Default)]
pub(crate) struct Consents(BTreeMap<String, Option<DateTime<Utc>>>);

impl Consents {
    /// Returns whether an event on this host at this time may be shown.
    pub(crate) fn cover(&self, site: &str, at_ms: i64) -> bool {
        self.0.get(site).is_some_and(|from| from.is_none_or(|from| from.timestamp_micros() <= at_ms.saturating_mul(1_000)))
    }

    /// Creates consents for all events on these hosts.
    pub(crate) fn to(sites: &[&str]) -> Self {
        Self(sites.iter().map(|site| ((*site).to_owned(), None)).collect())
    }

    /// Like [`Self::to`], from a time in milliseconds.
    #[cfg(test)]
    pub(crate) fn from_times(sites: &[(&str, Option<i64>)]) -> Self {
        let from = |ms: &Option<i64>| ms.and_then(DateTime::from_timestamp_millis);
        Self(sites.iter().map(|(site, ms)| ((*site).to_owned(), from(ms))).collect())
    }
}

/// Looks up the consents for these hosts. The owner of the longest verified parent gives it. Events from the time when another organization
/// had the host, or a host between it and the owner's, are not covered.
pub(crate) async fn consents(pool: &PgPool, sites: BTreeSet<&str>) -> Result<Consents, sqlx::Error> {
    let mut tenures: BTreeMap<String, Vec<Ownership>> = BTreeMap::new();
    for asked in host_batches(&sites) {
        let rows: Vec<(String, Ownership)> = with_deadline(find_tenures(pool, &asked)).await?;
        for (site, tenure) in rows {
            tenures.entry(site).or_default().push(tenure);
        }
    }
    let decided = |site: &&str| Some(((*site).to_owned(), decide(&tenures, site)?));
    Ok(Consents(sites.iter().filter_map(decided).collect()))
}

#[derive(Clone, Debug)]
struct Ownership {
    organization: Uuid,
    agrees: bool,
    visible_from: Option<DateTime<Utc>>,
    released_at: Option<DateTime<Utc>>,
}

/// Site, organization, consent, first visible time, time of release.
type TenureRow = (String, Uuid, bool, Option<DateTime<Utc>>, Option<DateTime<Utc>>);

/// Returns current and former owners of exactly these hosts.
async fn find_tenures(pool: &PgPool, sites: &[&str]) -> Result<Vec<(String, Ownership)>, sqlx::Error> {
    let rows: Vec<TenureRow> = sqlx::query_as(
        "SELECT d.site, d.organization_id, o.visible_in_click_token_lookups, d.visible_from, d.released_at \
         FROM domains d JOIN organizations o ON o.id = d.organization_id WHERE d.site = ANY($1) AND d.verified_at IS NOT NULL",
    )
    .bind(sites)
    .fetch_all(pool)
    .await?;
    let tenure = |(site, organization, agrees, visible_from, released_at)| {
        (site, Ownership { organization, agrees, visible_from, released_at })
    };
    Ok(rows.into_iter().map(tenure).collect())
}

/// Maximum size of the hosts in one query.
const MAX_ASKED_BYTES: usize = 256 * 1024;

/// Returns the hosts and their parents, without duplicates, in batches of limited size. Hosts are sorted by label, so those with a common
/// parent are adjacent and each is compared only with the previous one.
fn host_batches<'a>(sites: &BTreeSet<&'a str>) -> impl Iterator<Item = Vec<&'a str>> {
    let mut hosts: Vec<&str> = sites.iter().copied().filter(|site| !site.is_empty()).collect();
    hosts.sort_unstable_by(|one, other| one.split('.').cmp(other.split('.')));
    let mut before = "";
    let candidates = hosts.into_iter().flat_map(move |host| {
        let shared = shared_parent(before, host);
        before = host;
        parents(host).filter(move |candidate| candidate.len() > shared)
    });
    let mut candidates = candidates.peekable();
    std::iter::from_fn(move || {
        let (mut asked, mut bytes) = (vec![candidates.next()?], 0);
        while let Some(next) = candidates.next_if(|next| bytes + next.len() <= MAX_ASKED_BYTES) {
            bytes += next.len();
            asked.push(next);
        }
        Some(asked)
    })
}

/// Returns the length of the longest common parent.
fn shared_parent(before: &str, host: &str) -> usize {
    let shared =
        parents(host).filter(|parent| before.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    shared.map(str::len).max().unwrap_or(0)
}

/// Returns the host and its verifiable parents, shortest first.
fn parents(host: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
    let ends = host.match_indices('.').map(|(at, _)| at).skip(1).chain([host.len()]).collect::<Vec<_>>();
    ends.into_iter().map(move |end| &host[..end])
}

/// Returns the time from which events belong to the owner, if the owner agrees to show them.
fn decide(tenures: &BTreeMap<String, Vec<Ownership>>, host: &str) -> Option<Option<DateTime<Utc>>> {
    let mut formerly: Vec<&Ownership> = Vec::new();
    for candidate in parents(host).rev() {
        let Some(here) = tenures.get(candidate) else { continue };
        if let Some(owner) = here.iter().find(|tenure| tenure.released_at.is_none()) {
            let others = formerly.iter().filter(|former| former.organization != owner.organization);
            let left = others.filter_map(|former| former.released_at).max();
            return owner.agrees.then_some(owner.visible_from.max(left));
        }
        formerly.extend(here);
    }
    None
}

pub(crate) async fn with_deadline<T>(question: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(DEADLINE, question).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates_of(hosts: &[String]) -> (usize, Vec<String>, usize) {
        let sites: BTreeSet<&str> = hosts.iter().map(String::as_str).collect();
        let questions: Vec<Vec<&str>> = host_batches(&sites).collect();
        let longest = questions.iter().map(|asked| asked.iter().map(|site| site.len()).sum::<usize>()).max().unwrap_or(0);
        (questions.len(), questions.concat().into_iter().map(str::to_owned).collect(), longest)
    }

    #[test]
    fn a6_consent_queries_have_no_duplicates() {
        // 400 hosts of maximum depth below 50 parents.
        let deep = (1..100).map(|_| "a").collect::<Vec<_>>().join(".");
        let hosts: Vec<String> = (0..400).map(|n| format!("test.p{}.{deep}.h{n}", n % 50)).collect();
        let (_, asked, longest) = candidates_of(&hosts);
        let distinct: BTreeSet<&String> = asked.iter().collect();
        assert_eq!(asked.len(), distinct.len(), "no duplicates");
        // Each of the 50 parents has 100 names, and there are 400 hosts.
        assert_eq!(asked.len(), 50 * 100 + 400);
        assert!(longest <= MAX_ASKED_BYTES + 253);
        assert_eq!(candidates_of(&[]).0, 0);
    }

    #[test]
    fn consent_queries_contain_every_parent() {
        let hosts =
            ["com.example-a.x", "com.example.a", "com.example", "com.example.a.b", "com.example-a", "", "com.example.a-b.c"];
        let (_, mut asked, _) = candidates_of(&hosts.map(str::to_owned));
        let mut expected: Vec<String> =
            hosts.iter().filter(|host| !host.is_empty()).flat_map(|host| parents(host)).map(str::to_owned).collect();
        expected.sort_unstable();
        expected.dedup();
        asked.sort_unstable();
        assert_eq!(asked, expected);
    }

    #[test]
    fn consent_queries_are_limited_in_size() {
        let hosts: Vec<String> = (0..50_000).map(|n| format!("test.{n:05}.{}", "x".repeat(50))).collect();
        let (questions, asked, longest) = candidates_of(&hosts);
        assert_eq!(asked.len(), 2 * hosts.len());
        assert!(questions > 10 && longest <= MAX_ASKED_BYTES + 253, "{questions} queries of up to {longest} bytes");
    }
}
