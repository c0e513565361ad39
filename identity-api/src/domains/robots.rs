//! Fetches the robots.txt of verified domains daily, and stores every version (docs/api/robots.md).
//!
//! Only domains that are verified by a token are fetched. No database connection is open during a fetch.

use super::TokenFinder;
use crate::access::prelude::*;
use chrono::{SubsecRound, TimeDelta};
use schemas::robots_responses::RobotsState;
use schemas::site::Site;
use service_kit::clock::Clock;
use service_kit::periodic;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

const CHECK_AFTER: TimeDelta = TimeDelta::days(1);
/// Versions that were last seen before this are deleted, except the latest one.
const KEEP: TimeDelta = TimeDelta::days(400);
/// How long the versions of a domain that is no longer verified are kept.
const KEEP_RELEASED: TimeDelta = TimeDelta::days(30);
/// Maximum size of an organization's versions, because anyone can verify domains. A version counts for its text and 1 KiB.
const MAX_BYTES: i64 = 16 << 20;
/// Maximum duration of a request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Number of concurrent checks.
const AT_ONCE: i64 = 8;
/// The part of a file that crawlers have to read (RFC 9309, section 2.5). The rest is ignored.
const MAX_FILE_BYTES: usize = 500 * 1024;

/// Checks robots.txt files; cheap to clone.
#[derive(Clone)]
pub(crate) struct RobotsChecks {
    pub(crate) pool: PgPool,
    pub(crate) finder: TokenFinder,
}

/// A check's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FetchedRobots {
    Found(String),
    /// Status 400 to 499: everything is allowed.
    Missing,
    /// The latest version keeps applying.
    Unreachable,
}

impl FetchedRobots {
    /// Returns the file's state according to a response (RFC 9309, section 2.3.1). Redirects aren't followed.
    fn of_response(status: u16, body: &[u8]) -> Self {
        match status {
            200 => Self::Found(String::from_utf8_lossy(body).replace('\0', "")),
            400..=499 => Self::Missing,
            _ => Self::Unreachable,
        }
    }

    fn state(&self) -> RobotsState {
        match self {
            Self::Found(_) => RobotsState::Found,
            Self::Missing => RobotsState::Missing,
            Self::Unreachable => RobotsState::Unreachable,
        }
    }
}

/// Runs rounds until the handle is dropped.
pub(crate) fn start(checks: RobotsChecks, clock: Clock, every: Duration) -> AbortOnDropHandle<()> {
    periodic::start(every, move || {
        let (checks, clock) = (checks.clone(), clock.clone());
        async move {
            if let Err(error) = checks.round(&clock).await {
                tracing::warn!("failed to check robots.txt files, retrying in the next round: {error}");
            }
        }
    })
}

impl RobotsChecks {
    /// Checks the file of every domain that is due, and returns their number.
    pub(crate) async fn round(&self, clock: &Clock) -> Result<usize, sqlx::Error> {
        let before = clock.now() - KEEP_RELEASED;
        sqlx::query(include_str!("robots/delete_released.sql")).bind(before).execute(&self.pool).await?;
        let mut count = 0;
        loop {
            let now = clock.now().trunc_subsecs(3);
            let due: Vec<String> = sqlx::query_scalar(include_str!("robots/claim.sql"))
                .bind(now)
                .bind(now + CHECK_AFTER)
                .bind(AT_ONCE)
                .fetch_all(&self.pool)
                .await?;
            if due.is_empty() {
                return Ok(count);
            }
            count += due.len();
            let mut checking = JoinSet::new();
            for site in due.iter().map(|site| Site::from_stored(site)) {
                let checks = self.clone();
                checking.spawn(async move {
                    let fetched = checks.fetch(&site.domain()).await;
                    store(&checks.pool, &site, &fetched, now).await
                });
            }
            while let Some(done) = checking.join_next().await {
                match done {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!("failed to store a robots.txt file: {error}"),
                    Err(error) => tracing::error!("robots.txt check panicked: {error}"),
                }
            }
        }
    }

    /// Fetches the file of a domain, or of its `www.` host if the domain redirects.
    async fn fetch(&self, domain: &str) -> FetchedRobots {
        for host in [domain.to_owned(), format!("www.{domain}")] {
            match self.finder.get(&host, "/robots.txt", (DEADLINE, MAX_FILE_BYTES)).await {
                Some((300..=399, _)) => {}
                Some((status, body)) => return FetchedRobots::of_response(status, &body),
                None => break,
            }
        }
        FetchedRobots::Unreachable
    }
}

/// Stores the result of a check that began at `now`. An unchanged file doesn't add a version.
async fn store(pool: &PgPool, site: &Site, fetched: &FetchedRobots, now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let is_newest: Option<bool> = sqlx::query_scalar(
        "UPDATE robots_checks SET checked_at = $2, state = $3 WHERE site = $1 AND (checked_at IS NULL OR checked_at < $2) RETURNING true",
    )
    .bind(site.as_str())
    .bind(now)
    .bind(fetched.state().as_str())
    .fetch_optional(&mut *transaction)
    .await?;
    let body = match fetched {
        FetchedRobots::Found(body) => body.as_str(),
        FetchedRobots::Missing => "",
        FetchedRobots::Unreachable => return transaction.commit().await,
    };
    if is_newest.is_some() {
        sqlx::query(include_str!("robots/store.sql")).bind(site.as_str()).bind(now).bind(body).execute(&mut *transaction).await?;
        let expire = sqlx::query(include_str!("robots/delete_oldest.sql")).bind(site.as_str()).bind(now - KEEP).bind(MAX_BYTES);
        expire.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

/// Stores a robots.txt file that was fetched twice, for the demo tenant.
pub async fn seed_file(pool: &PgPool, site: &Site, body: &str, seen: [DateTime<Utc>; 2]) -> Result<(), sqlx::Error> {
    for at in seen {
        sqlx::query("INSERT INTO robots_checks (site, due_at) VALUES ($1, 'infinity') ON CONFLICT DO NOTHING")
            .bind(site.as_str())
            .execute(pool)
            .await?;
        store(pool, site, &FetchedRobots::Found(body.to_owned()), at).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_decide_whether_a_file_exists() {
        let found = |body: &str| FetchedRobots::Found(body.to_owned());
        for (status, body, expected) in [
            (200, "User-agent: *\n", found("User-agent: *\n")),
            (200, "a\0b", found("ab")),
            (404, "no such page", FetchedRobots::Missing),
            (403, "", FetchedRobots::Missing),
            (301, "", FetchedRobots::Unreachable),
            (500, "", FetchedRobots::Unreachable),
        ] {
            assert_eq!(FetchedRobots::of_response(status, body.as_bytes()), expected, "{status}");
        }
    }
}
