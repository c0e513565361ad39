//! Two owners with their hosts, and random reads of them.

use super::model::Event;
use super::reports::{HOSTS, ORGANIZATIONS};
use super::stored_reports::ReportTables;
use super::{HOUR_MS, NEW_YEAR_MS, random_time};
use crate::access::reader::Reader;
use crate::access::visibility::Visibility;
use crate::parameters::ReadParameters;
use crate::parameters::period::Period;
use crate::read_limiter::ReadSettings;
use crate::reads::Reads;
use crate::reads::list_limits::ListLimits;
use chrono::DateTime;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use schemas::identity::OrgType;
use schemas::ids::{ApiKeyId, OrgId};
use schemas::instant;
use service_kit::auth::{Credential, Tenant};
use service_kit::databases;
use service_kit::identity_tables::IdentityTables;
use service_kit::testing::{Seed, TestStores};
use uuid::Uuid;

/// Verified hosts: owner, host and the first visible millisecond.
const VERIFIED: [(usize, &str, i64); 7] = [
    (0, "example.com", i64::MIN),
    (1, "blog.example.com", i64::MIN),
    (0, "deep.blog.example.com", i64::MIN),
    (0, "late.example.com", NEW_YEAR_MS + 6 * HOUR_MS + 1),
    (1, "x.late.example.com", NEW_YEAR_MS - 6 * HOUR_MS),
    (1, "other.test", i64::MIN),
    (0, "sub.other.test", NEW_YEAR_MS + 12 * HOUR_MS),
];

/// Low enough that random reports exceed it.
pub(in crate::reads) const MOST: ListLimits =
    ListLimits { types: 6, types_of_page: 3, agents: 5, in_series: 3, others_in_series: 2 };

pub(in crate::reads) struct ReadFixture {
    pub(in crate::reads) reads: Reads,
    pub(in crate::reads) store: ReportTables,
    owners: [OrgId; 2],
    directory: IdentityTables,
}

impl ReadFixture {
    pub(in crate::reads) async fn new() -> Self {
        let stores = TestStores::fresh().await;
        let seed = Seed(&stores.pool);
        let owners = [ORGANIZATIONS[0], ORGANIZATIONS[1]].map(|id| OrgId(Uuid::from_u128(id)));
        for owner in owners {
            let insert = sqlx::query("INSERT INTO organizations (id, name, org_type) VALUES ($1, 'Owner', 'content_owner')");
            insert.bind(owner.0).execute(&stores.pool).await.unwrap();
        }
        for (owner, host, from_ms) in VERIFIED {
            seed.verify(owners[owner], host).await;
            if let Some(from) = DateTime::from_timestamp_millis(from_ms) {
                let update = sqlx::query("UPDATE domains SET visible_from = $1 WHERE domain = $2").bind(from).bind(host);
                update.execute(&stores.pool).await.unwrap();
            }
        }
        let client = databases::clickhouse(&stores.clickhouse).unwrap();
        Self {
            reads: Reads { list_limits: MOST, ..Reads::new(&client, &ReadSettings::default()) },
            store: ReportTables::new(&stores.clickhouse).await,
            owners,
            directory: IdentityTables::new(stores.pool.clone()),
        }
    }

    /// Returns an owner's random read, half of the time for one domain.
    pub(in crate::reads) async fn random_read(&self, random: &mut StdRng) -> OwnerRead {
        let owner = random.random_range(0..2);
        let is_own = |host: &&&str| owner_of(host).is_some_and(|(of, _)| of == owner);
        let own: Vec<&str> = HOSTS.iter().filter(is_own).copied().collect();
        let domain = if random.random() { own.choose(random).copied() } else { None };
        let (one, other) = (random_time(random), random_time(random));
        let mut end = |ms: i64| random.random::<bool>().then_some(ms);
        let window = (end(one.min(other)), end(one.max(other)));
        let reader = Reader {
            credential: Credential::Key(ApiKeyId(Uuid::nil())),
            tenant: Tenant::Organization(self.owners[owner]),
            org_id: self.owners[owner],
            org_type: OrgType::ContentOwner,
        };
        let view = domain.map_or_else(ReadParameters::default, |domain| ReadParameters::new([("domain", domain)]));
        let seen = Visibility::for_read(&self.directory, &reader, &view).await.ok().unwrap();
        let text = |ms: i64| instant::text(DateTime::from_timestamp_millis(ms).unwrap());
        let (since, until) = (window.0.map(text), window.1.map(text));
        let period = Period::parse(since.as_deref(), until.as_deref()).ok().unwrap();
        OwnerRead { owner, domain, window, seen, period }
    }
}

#[derive(Debug)]
pub(in crate::reads) struct OwnerRead {
    owner: usize,
    domain: Option<&'static str>,
    window: (Option<i64>, Option<i64>),
    pub(in crate::reads) seen: Visibility,
    pub(in crate::reads) period: Period,
}

impl OwnerRead {
    pub(in crate::reads) fn shows(&self, event: &Event<'_>) -> bool {
        !event.event_type().starts_with("turn_") && self.covers(&event.host(), event.at_ms())
    }

    /// Returns whether the read includes events on this host at this time.
    pub(super) fn covers(&self, host: &str, at_ms: i64) -> bool {
        self.may_see(host, at_ms)
            && self.domain.is_none_or(|domain| is_within(host, domain))
            && self.window.0.is_none_or(|since| at_ms >= since)
            && self.window.1.is_none_or(|until| at_ms < until)
    }

    /// Returns whether the owner may see events on this host at this time, in any read.
    pub(in crate::reads) fn may_see(&self, host: &str, at_ms: i64) -> bool {
        owner_of(host).is_some_and(|(owner, from_ms)| owner == self.owner && at_ms >= from_ms)
    }
}

/// Returns the owner of the longest verified host above, and the first time that it may see.
fn owner_of(host: &str) -> Option<(usize, i64)> {
    let above = VERIFIED.iter().filter(|(_, verified, _)| is_within(host, verified));
    above.max_by_key(|(_, verified, _)| verified.len()).map(|(owner, _, from_ms)| (*owner, *from_ms))
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain || host.ends_with(&format!(".{domain}"))
}
