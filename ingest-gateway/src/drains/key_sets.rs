//! Key sets of agents that sign their fetches, by URL (docs/api/signatures.md#signed-agents).
//!
//! They are fetched in the background, so no line waits for one. Gateways share the last good copies through PostgreSQL, and a failed
//! fetch never replaces one.

use axum::http::header;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use schemas::ids::OrgId;
use service_kit::auth::{Caller, Tenant};
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::hourly_deletion;
use service_kit::slots::{Pool, Slots};
use signatures::{Key, key_set};
use sqlx::PgPool;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use url::Url;
use uuid::Uuid;

const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";
const REFRESH_AFTER: TimeDelta = TimeDelta::hours(1);
const RETRY_AFTER: TimeDelta = TimeDelta::minutes(5);
const DEADLINE: Duration = Duration::from_secs(5);
const MAX_DOCUMENT_BYTES: usize = 16 * 1024;
/// Number of concurrent fetches, shared by tenants.
const AT_ONCE: usize = 16;
/// Number of concurrent fetches from one registrable domain. Visitors choose the URLs, so they can name slow servers.
const AT_ONCE_PER_DOMAIN: usize = 3;
/// Maximum number of copies, in memory and in PostgreSQL. If there are more, the organization with the most loses its oldest one.
const MAX_COPIES: usize = 1_000;
/// Maximum URLs whose last attempt is remembered.
const MAX_ATTEMPTS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");
/// Pause between lookups of other gateways' copies.
const SHARE_EVERY: Duration = Duration::from_secs(30);
const KEEP: TimeDelta = TimeDelta::days(30);

const SHARED: &str =
    "SELECT url, document, fetched_at, organization_id FROM agent_key_sets WHERE fetched_at > $1 ORDER BY fetched_at LIMIT 1000";
const DELETE: &str = "DELETE FROM agent_key_sets WHERE url = ANY(array( \
     SELECT url FROM agent_key_sets WHERE fetched_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// The last good copy of a key set.
#[derive(Clone)]
struct KeySetCopy {
    keys: Arc<[Key]>,
    fetched_at: DateTime<Utc>,
    /// The organization whose log named it first.
    org: OrgId,
}

type Copies = Mutex<HashMap<String, KeySetCopy>>;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct KeySets {
    fetcher: Arc<Fetcher>,
    attempts: Arc<Mutex<LruCache<String, DateTime<Utc>>>>,
    slots: Arc<Slots<Tenant>>,
    domain_slots: Arc<Slots<u64>>,
    /// Lines are processed on threads of their own.
    runtime: Handle,
    _tasks: Arc<[AbortOnDropHandle<()>]>,
}

struct Fetcher {
    copies: Copies,
    egress: Egress,
    pool: PgPool,
    clock: Clock,
}

impl KeySets {
    pub(super) fn start(egress: Egress, pool: PgPool, clock: Clock) -> Self {
        let fetcher = Arc::new(Fetcher { copies: Mutex::default(), egress, pool: pool.clone(), clock: clock.clone() });
        let sharing = Arc::clone(&fetcher).copy_shared();
        let expiry = hourly_deletion::hourly("old key sets of agents", move || {
            let (pool, before) = (pool.clone(), clock.now() - KEEP);
            async move { hourly_deletion::delete_in_batches(&pool, DELETE, before).await }
        });
        Self {
            fetcher,
            attempts: Arc::new(Mutex::new(LruCache::new(MAX_ATTEMPTS))),
            slots: Slots::new(Pool::KeySets, AT_ONCE),
            domain_slots: Slots::unlimited(),
            runtime: Handle::current(),
            _tasks: [AbortOnDropHandle::new(tokio::spawn(sharing)), expiry].into(),
        }
    }

    /// Returns the last good copy. Fetches the key set later for the caller, if there is none or if it is old.
    pub(super) fn find(&self, url: &Url, caller: &Caller) -> Option<Arc<[Key]>> {
        let (found, now) = (lock(&self.fetcher.copies).get(url.as_str()).cloned(), self.fetcher.clock.now());
        if found.as_ref().is_none_or(|copy| now - copy.fetched_at >= REFRESH_AFTER) {
            self.want(url, caller, now);
        }
        found.map(|copy| copy.keys)
    }

    /// Starts a fetch if it is due. Without free slots, the next line tries again.
    fn want(&self, url: &Url, caller: &Caller, now: DateTime<Utc>) {
        let mut attempts = lock(&self.attempts);
        if attempts.get(url.as_str()).is_some_and(|last| now - *last < RETRY_AFTER) {
            return;
        }
        let Ok(of_domain) = self.domain_slots.take(domain_hash(url), AT_ONCE_PER_DOMAIN) else { return };
        let Ok(slot) = self.slots.take(caller.tenant(), usize::MAX) else { return };
        attempts.put(url.to_string(), now);
        let (fetcher, url, org) = (Arc::clone(&self.fetcher), url.clone(), caller.org_id);
        self.runtime.spawn(async move {
            let document = fetch(&fetcher.egress, &url).await;
            drop((slot, of_domain));
            fetcher.store(&url, document, org).await;
        });
    }

    /// Returns whether a fetch was tried.
    #[cfg(test)]
    pub(super) fn is_attempted(&self, url: &str) -> bool {
        lock(&self.attempts).contains(url)
    }
}

/// Returns a hash of a URL's registrable domain.
fn domain_hash(url: &Url) -> u64 {
    let host = url.host_str().unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    psl::domain_str(host).unwrap_or(host).hash(&mut hasher);
    hasher.finish()
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single step, so the state is consistent even after a panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores a copy unless there is a later one.
fn keep(copies: &Copies, url: &str, document: &[u8], (fetched_at, org): (DateTime<Utc>, OrgId)) -> bool {
    let Ok(keys) = key_set(document) else { return false };
    let (keys, mut copies) = (keys.into(), lock(copies));
    match copies.get_mut(url) {
        Some(known) if known.fetched_at >= fetched_at => {}
        Some(known) => (known.keys, known.fetched_at) = (keys, fetched_at),
        None => {
            if copies.len() >= MAX_COPIES {
                evict(&mut copies);
            }
            copies.insert(url.to_owned(), KeySetCopy { keys, fetched_at, org });
        }
    }
    true
}

/// Removes the oldest copy of the organization with the most.
fn evict(copies: &mut HashMap<String, KeySetCopy>) {
    let mut numbers = HashMap::<OrgId, usize>::new();
    copies.values().for_each(|copy| *numbers.entry(copy.org).or_default() += 1);
    let most = numbers.into_iter().max_by_key(|(_, number)| *number).map(|(org, _)| org);
    let oldest = copies.iter().filter(|(_, copy)| Some(copy.org) == most).min_by_key(|(_, copy)| copy.fetched_at);
    if let Some(url) = oldest.map(|(url, _)| url.clone()) {
        copies.remove(&url);
    }
}

impl Fetcher {
    /// Stores a valid document, for all gateways.
    async fn store(&self, url: &Url, document: Option<Vec<u8>>, org: OrgId) {
        let now = self.clock.now();
        let Some(document) = document.filter(|document| keep(&self.copies, url.as_str(), document, (now, org))) else { return };
        let most = i64::try_from(MAX_COPIES).unwrap_or(i64::MAX);
        let share =
            sqlx::query(include_str!("key_sets/share.sql")).bind(url.as_str()).bind(document).bind(now).bind(org.0).bind(most);
        if let Err(error) = share.execute(&self.pool).await {
            tracing::warn!("failed to share the key set of an agent with other gateways: {error}");
        }
    }

    /// Copies the key sets that other gateways fetched.
    async fn copy_shared(self: Arc<Self>) {
        let mut since = DateTime::UNIX_EPOCH;
        loop {
            let found = sqlx::query_as(SHARED).bind(since).fetch_all(&self.pool).await.unwrap_or_default();
            let found: Vec<(String, Vec<u8>, DateTime<Utc>, Uuid)> = found;
            for (url, document, fetched_at, org) in found {
                keep(&self.copies, &url, &document, (fetched_at, OrgId(org)));
                since = since.max(fetched_at);
            }
            tokio::time::sleep(SHARE_EVERY).await;
        }
    }
}

/// Returns the document if the response is one: status 200, without redirects, and of the right media type.
async fn fetch(egress: &Egress, url: &Url) -> Option<Vec<u8>> {
    let response = egress.get(url, DEADLINE, MAX_DOCUMENT_BYTES).await.ok()?;
    let media_type = response.headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    let is_key_set = response.status == 200 && !response.is_truncated && media_type.eq_ignore_ascii_case(MEDIA_TYPE);
    is_key_set.then_some(response.body)
}

#[cfg(test)]
mod tests {
    use super::super::dry_run::{DrainDryRun, anonymous_caller};
    use super::super::formats::DirectiveState;
    use super::*;
    use data_encoding::BASE64;
    use schemas::bots::BotTable;
    use schemas::identity::DrainProvider;
    use schemas::site::Site;
    use serde_json::json;
    use service_kit::settings::WebhookSettings;

    const SET: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}]}"#;

    #[test]
    fn keeps_the_last_good_copy() {
        let (copies, now, org) = (Copies::default(), DateTime::UNIX_EPOCH, OrgId(Uuid::nil()));
        let count = |copies: &Copies| lock(copies).get("a").map(|copy| copy.keys.len());
        assert!(keep(&copies, "a", SET, (now, org)));
        assert!(!keep(&copies, "a", b"<html>", (now + REFRESH_AFTER, org)));
        assert_eq!(count(&copies), Some(1));
        keep(&copies, "a", br#"{"keys":[]}"#, (now - REFRESH_AFTER, org));
        assert_eq!(count(&copies), Some(1), "an older copy of another gateway");
        keep(&copies, "a", br#"{"keys":[]}"#, (now + REFRESH_AFTER, org));
        assert_eq!(count(&copies), Some(0), "the agent withdrew its key");
    }

    #[test]
    fn an_organization_replaces_only_its_own_key_sets() {
        let (copies, [busy, other]) = (Copies::default(), [1, 2].map(|number| OrgId(Uuid::from_u128(number))));
        keep(&copies, "other", SET, (DateTime::UNIX_EPOCH, other));
        for number in 0..2_000 {
            keep(&copies, &number.to_string(), SET, (DateTime::UNIX_EPOCH + TimeDelta::seconds(1 + number), busy));
        }
        let copies = lock(&copies);
        let has = ["other", "1999", "0"].map(|url| copies.contains_key(url));
        assert_eq!((copies.len(), has), (MAX_COPIES, [true, true, false]));
    }

    /// Returns key sets that never reach PostgreSQL or a server.
    fn key_sets() -> KeySets {
        let pool = PgPool::connect_lazy("postgres://127.0.0.1:9/none").unwrap();
        KeySets::start(Egress::new(&WebhookSettings::default()).unwrap(), pool, Clock::System)
    }

    #[tokio::test]
    async fn a_tenant_does_not_use_up_the_slots_for_key_sets() {
        let (key_sets, [busy, other]) = (key_sets(), [1, 2].map(|number| caller(OrgId(Uuid::from_u128(number)))));
        // The tasks don't run until this one yields.
        let tries = |name: &str, caller: &Caller| {
            let url = Url::parse(&format!("https://{name}/keys")).unwrap();
            assert!(key_sets.find(&url, caller).is_none());
            key_sets.is_attempted(url.as_str())
        };
        let of_domain = (0..10).filter(|number| tries(&format!("s{number}.evil.test"), &busy)).count();
        let of_tenant = of_domain + (0..100).filter(|number| tries(&format!("evil{number}.test"), &busy)).count();
        assert_eq!((of_domain, of_tenant), (AT_ONCE_PER_DOMAIN, AT_ONCE / 2));
        assert!(tries("agent.test", &other) && !tries("b.evil.test", &other));
    }

    #[tokio::test]
    async fn lines_of_other_hosts_do_not_fetch_key_sets() {
        let (key_sets, now) = (key_sets(), DateTime::from_timestamp(1_793_527_200, 0).unwrap());
        let (provider, hosts) = (DrainProvider::Ndjson, vec![Site::from_domain("a.test").unwrap()]);
        let mut judge = DrainDryRun { provider, host: None, hosts, bots: BotTable::bundled(), now }.judge();
        judge.key_sets = Some(key_sets.clone());
        for (host, expected) in [("b.test", false), ("a.test", true)] {
            let url = format!("https://agent-of-{host}/keys");
            let input = r#"sig=("@authority" "signature-agent";key="sig");created=1;expires=2;keyid="k";tag="web-bot-auth""#;
            let line = json!({"timestamp": "2026-11-01T09:00:00Z", "host": host, "url": "/", "method": "GET", "status": 200,
                "user_agent": "GPTBot/1.2", "signature_agent": format!("sig=\"{url}\""), "signature_input": input,
                "signature": format!("sig=:{}:", BASE64.encode(&[0; 64]))});
            judge.process(line.to_string().as_bytes(), &DirectiveState::default());
            assert_eq!(key_sets.is_attempted(&url), expected, "{host}");
        }
    }

    fn caller(org_id: OrgId) -> Caller {
        Caller { org_id, ..anonymous_caller() }
    }
}
