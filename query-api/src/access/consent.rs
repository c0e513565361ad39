//! What PostgreSQL says at the time of a look-up: what a click token stands for, and who has agreed to be seen.
//!
//! Must not remember anything: a consent that is withdrawn counts from the next look-up on.

use super::session_scope::SessionScope;
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::secrets::SecretHash;
use schemas::session::PrivacyLevel;
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

/// What one question may take, also when PostgreSQL stops in the middle of it.
const DEADLINE: Duration = Duration::from_millis(2_500);

/// A click token that may be looked up.
pub(crate) struct Clicked {
    pub(crate) scope: SessionScope,
    /// The link it was made for.
    pub(crate) content_url: String,
    /// When the session began, else when it was first heard of.
    pub(crate) started_at: DateTime<Utc>,
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
        level: level.map(PrivacyLevel::of_code),
    }))
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
    let mut tenures: BTreeMap<String, Vec<Tenure>> = BTreeMap::new();
    for asked in questions(&sites) {
        let rows: Vec<(String, Tenure)> = bounded(find_tenures(pool, &asked)).await?;
        for (site, tenure) in rows {
            tenures.entry(site).or_default().push(tenure);
        }
    }
    let decided = |site: &&str| Some(((*site).to_owned(), decide(&tenures, site)?));
    Ok(Consents(sites.iter().filter_map(decided).collect()))
}

#[derive(Clone, Debug)]
struct Tenure {
    organization: Uuid,
    agrees: bool,
    visible_from: Option<DateTime<Utc>>,
    released_at: Option<DateTime<Utc>>,
}

/// Site, organisation, consent, start of what it may see, end.
type TenureRow = (String, Uuid, bool, Option<DateTime<Utc>>, Option<DateTime<Utc>>);

/// Who has, and who had, these very hosts.
async fn find_tenures(pool: &PgPool, sites: &[&str]) -> Result<Vec<(String, Tenure)>, sqlx::Error> {
    let rows: Vec<TenureRow> = sqlx::query_as(
        "SELECT d.site, d.organization_id, o.visible_in_click_token_lookups, d.visible_from, d.released_at \
         FROM domains d JOIN organizations o ON o.id = d.organization_id WHERE d.site = ANY($1) AND d.verified_at IS NOT NULL",
    )
    .bind(sites)
    .fetch_all(pool)
    .await?;
    let tenure = |(site, organization, agrees, visible_from, released_at)| {
        (site, Tenure { organization, agrees, visible_from, released_at })
    };
    Ok(rows.into_iter().map(tenure).collect())
}

/// Bytes of the hosts of one question.
const MAX_ASKED_BYTES: usize = 256 * 1024;

/// The hosts and their parents, each once, in questions that are never long. Hosts are in the order of their labels, so that
/// those that share a parent stand together: what the host before has asked for is not asked again.
fn questions<'a>(sites: &BTreeSet<&'a str>) -> impl Iterator<Item = Vec<&'a str>> {
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

/// How long the longest candidate of `host` is that is one of `before` as well.
fn shared_parent(before: &str, host: &str) -> usize {
    let shared =
        parents(host).filter(|parent| before.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    shared.map(str::len).max().unwrap_or(0)
}

/// The host and every parent of it that could be verified, shortest first.
fn parents(host: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
    let ends = host.match_indices('.').map(|(at, _)| at).skip(1).chain([host.len()]).collect::<Vec<_>>();
    ends.into_iter().map(move |end| &host[..end])
}

/// Since when the host's events are its owner's, when the owner agrees to show them.
fn decide(tenures: &BTreeMap<String, Vec<Tenure>>, host: &str) -> Option<Option<DateTime<Utc>>> {
    let mut formerly: Vec<&Tenure> = Vec::new();
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

pub(crate) async fn bounded<T>(question: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(DEADLINE, question).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates_of(hosts: &[String]) -> (usize, Vec<String>, usize) {
        let sites: BTreeSet<&str> = hosts.iter().map(String::as_str).collect();
        let questions: Vec<Vec<&str>> = questions(&sites).collect();
        let longest = questions.iter().map(|asked| asked.iter().map(|site| site.len()).sum::<usize>()).max().unwrap_or(0);
        (questions.len(), questions.concat().into_iter().map(str::to_owned).collect(), longest)
    }

    #[test]
    fn a6_a_host_and_a_parent_are_asked_about_once_however_many_lie_beneath_them() {
        // 400 hosts as deep as a name can be, beneath 50 parents.
        let deep = (1..100).map(|_| "a").collect::<Vec<_>>().join(".");
        let hosts: Vec<String> = (0..400).map(|n| format!("test.p{}.{deep}.h{n}", n % 50)).collect();
        let (_, asked, longest) = candidates_of(&hosts);
        let distinct: BTreeSet<&String> = asked.iter().collect();
        assert_eq!(asked.len(), distinct.len(), "each once");
        // Of each parent its own name and the 99 beneath it, and the hosts.
        assert_eq!(asked.len(), 50 * 100 + 400);
        assert!(longest <= MAX_ASKED_BYTES + 253);
        assert_eq!(candidates_of(&[]).0, 0);
    }

    #[test]
    fn a6_what_is_asked_is_every_parent_and_nothing_else_whatever_the_order_of_the_hosts() {
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
    fn a6_many_hosts_are_asked_about_in_questions_of_a_size() {
        let hosts: Vec<String> = (0..50_000).map(|n| format!("test.{n:05}.{}", "x".repeat(50))).collect();
        let (questions, asked, longest) = candidates_of(&hosts);
        assert_eq!(asked.len(), 2 * hosts.len());
        assert!(questions > 10 && longest <= MAX_ASKED_BYTES + 253, "{questions} questions of {longest} bytes at most");
    }
}
