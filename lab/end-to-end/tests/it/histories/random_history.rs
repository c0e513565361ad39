//! Generates a random history. Each step changes the service and the model in the same way.

use super::model::{Model, Window};
use super::test_app::{
    HistoryOrganizations, NEW_YEAR_MS, OWNERS, Observation, Organization, PARTNERS, STEP_US, TestApp, change, verify,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

const DAY_US: i64 = 86_400_000_000;
pub(super) const STEPS: usize = 12;

const TYPES: [&str; 10] = [
    "content_retrieved",
    "content_retrieved",
    "content_retrieved",
    "content_grounded",
    "content_cited",
    "content_cited",
    "content_presented",
    "content_engaged",
    "com.example.shared",
    "turn_completed",
];

pub(super) struct RandomHistory {
    pub(super) number: u64,
    pub(super) random: StdRng,
    pub(super) organizations: HistoryOrganizations,
    pub(super) model: Model,
    /// Reports of this step.
    pub(super) fresh: Vec<Observation>,
}

impl RandomHistory {
    pub(super) fn new(seed: u64, number: u64, cast: HistoryOrganizations) -> Self {
        let random = StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { number, random, organizations: cast, model: Model::default(), fresh: Vec::new() }
    }

    /// Returns hosts that owners may verify. The last one is the parent of all others but one.
    pub(super) fn own_hosts(&self) -> [String; 5] {
        let root = format!("h{}.test", self.number);
        [format!("a.{root}"), format!("b.a.{root}"), format!("c.b.a.{root}"), format!("h{}.example", self.number), root]
    }

    /// Returns a random host for events: one of the owners' hosts, a subdomain, or a lookalike.
    pub(super) fn host(&mut self) -> String {
        let own = self.own_hosts().choose(&mut self.random).unwrap().clone();
        match self.random.random_range(0..8) {
            0 => format!("news.{own}"),
            1 => format!("d.{own}"),
            2 => format!("not{own}"),
            3 => format!("{own}.evil.test"),
            _ => own,
        }
    }

    /// Makes one change, sends reports, or does nothing.
    pub(super) async fn make_change(&mut self, town: &TestApp) {
        // Without verified domains, owners see almost no data.
        let is_empty = self.model.rows.is_empty() && (0..OWNERS).all(|owner| self.model.hosts_of(owner).is_empty());
        match if is_empty { 0 } else { self.random.random_range(0..14) } {
            0..=3 => self.verify(town).await,
            4 | 5 => self.release(town).await,
            6 => self.grant_or_revoke(town).await,
            7 => self.set(town).await,
            8 => self.register(town).await,
            _ => self.report(town.now_us()),
        }
    }

    async fn verify(&mut self, town: &TestApp) {
        let (owner, host) = (self.random.random_range(0..OWNERS), self.own_hosts().choose(&mut self.random).unwrap().clone());
        let is_verified = verify(town, &self.organizations.owners[owner], &host).await;
        assert_eq!(is_verified, self.model.verify(owner, &host, town.now_us()), "history {}: {host} by {owner}", self.number);
    }

    /// Returns a domain in the owner's list.
    async fn registered(town: &TestApp, owner: &Organization, host: &str) -> Option<Value> {
        let (status, list) = change(town, Method::GET, &owner.key, "/domains", &Value::Null).await;
        assert_eq!(status, 200, "{list}");
        list.as_array().unwrap().iter().find(|domain| domain["domain"] == host).cloned()
    }

    async fn release(&mut self, town: &TestApp) {
        let owner = self.random.random_range(0..OWNERS);
        let hosts = self.own_hosts();
        // Usually an existing domain, sometimes a missing one.
        let held: Vec<String> = self.model.hosts_of(owner).into_iter().map(str::to_owned).collect();
        let host = held.choose(&mut self.random).or_else(|| hosts.choose(&mut self.random)).unwrap().clone();
        let found = Self::registered(town, &self.organizations.owners[owner], &host).await;
        // The service truncates the time to milliseconds.
        let was_verified = self.model.release(owner, &host, town.now_us() / 1_000 * 1_000);
        let is_verified = found.as_ref().is_some_and(|domain| domain["verified"] == true);
        assert_eq!(is_verified, was_verified, "history {}: {host} by {owner}: {found:?}", self.number);
        let Some(domain) = found else { return };
        let path = format!("/domains/{}", domain["id"].as_str().unwrap());
        let (status, answer) = change(town, Method::DELETE, &self.organizations.owners[owner].key, &path, &Value::Null).await;
        assert_eq!(status, 204, "{answer}");
    }

    /// Registers a domain without verifying it, which doesn't change any count. Another owner may have verified it.
    async fn register(&mut self, town: &TestApp) {
        let host = self.own_hosts().choose(&mut self.random).unwrap().clone();
        let owner = self.organizations.owners.choose(&mut self.random).unwrap();
        let (status, answer) = change(town, Method::POST, &owner.key, "/domains", &json!({"domain": host})).await;
        assert!(matches!(status, 201 | 409), "{status} {answer}");
    }

    async fn grant_or_revoke(&mut self, town: &TestApp) {
        let pair @ (owner, partner) = (self.random.random_range(0..OWNERS), self.random.random_range(0..PARTNERS));
        let (owner, partner) = (&self.organizations.owners[owner], &self.organizations.partners[partner]);
        if self.model.granted.insert(pair) {
            let grant = json!({"grantee_org_id": partner.id});
            let (status, answer) = change(town, Method::POST, &owner.key, "/delegations", &grant).await;
            assert_eq!(status, 201, "{answer}");
            return;
        }
        self.model.granted.remove(&pair);
        let (_, list) = change(town, Method::GET, &owner.key, "/delegations", &Value::Null).await;
        let theirs = |delegation: &&Value| delegation["grantee_org_id"] == json!(partner.id);
        let id = list.as_array().unwrap().iter().find(theirs).unwrap()["id"].as_str().unwrap().to_owned();
        let (status, answer) = change(town, Method::DELETE, &owner.key, &format!("/delegations/{id}"), &Value::Null).await;
        assert_eq!(status, 200, "{answer}");
    }

    async fn set(&mut self, town: &TestApp) {
        let value = self.random.random_bool(0.7);
        let (key, flag) = match self.random.random_range(0..=OWNERS) {
            OWNERS => {
                self.model.shares = value;
                (&self.organizations.agent.key, "share_sessions_via_click_tokens")
            }
            owner => {
                self.model.is_visible[owner] = value;
                (&self.organizations.owners[owner].key, "visible_in_click_token_lookups")
            }
        };
        let (status, answer) = change(town, Method::PATCH, key, "/settings", &json!({flag: value})).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Reports events. There are few keys, sessions and times, so reports collide; some repeat earlier ones.
    fn report(&mut self, now_us: i64) {
        for _ in 0..self.random.random_range(3..=15) {
            let repeated = (self.random.random_range(0..6) == 0).then(|| self.model.rows.choose(&mut self.random).cloned());
            let mut row = repeated.flatten().unwrap_or_else(|| self.observation(now_us));
            row.accepted_us = self.acceptance();
            self.model.rows.push(row.clone());
            self.fresh.push(row);
        }
    }

    /// Returns an acceptance time: in time, too late, or before the event. No two reports share a microsecond.
    fn acceptance(&mut self) -> i64 {
        loop {
            let accepted_us = NEW_YEAR_MS * 1_000 + self.random.random_range(-DAY_US..3 * DAY_US);
            if self.model.rows.iter().all(|row| row.accepted_us != accepted_us) {
                return accepted_us;
            }
        }
    }

    fn observation(&mut self, now_us: i64) -> Observation {
        let host = self.host();
        let reporters = self
            .organizations
            .owners
            .iter()
            .chain(&self.organizations.partners)
            .chain([&self.organizations.agent, &self.organizations.agent]);
        let reporters: Vec<Uuid> = reporters.map(|party| party.id.0).collect();
        let org_id = *reporters.choose(&mut self.random).unwrap();
        let is_owners = self.organizations.owners.iter().any(|owner| owner.id.0 == org_id);
        let random = &mut self.random;
        let source_role = random.random_range(0..5);
        let of_history = random.random_range(0..24);
        // Only fetches are merged by correlation id.
        let joins = of_history % 3 != 0;
        let event_type = if joins { TYPES[0] } else { TYPES.choose(random).unwrap() };
        let is_seen_by_server = source_role > 1 && event_type == TYPES[0];
        let session_id = match random.random_range(0..3) {
            0 => Uuid::nil(),
            1 => self.organizations.session,
            _ => Uuid::from_u128(random.random_range(1..4)),
        };
        // A click token's session belongs to its issuer.
        let is_bound = event_type == "content_engaged" && !session_id.is_nil() && random.random_range(0..2) == 0;
        let platform_id = if is_bound { self.organizations.agent.id.0 } else { org_id };
        Observation {
            // Some hosts can't have an owner.
            site: if random.random_range(0..20) == 0 { String::new() } else { host.rsplit('.').collect::<Vec<_>>().join(".") },
            number: (u128::from(self.number) << 32) | of_history,
            joins,
            org_id,
            is_owners,
            accepted_us: 0,
            source_role,
            status: if is_seen_by_server { [0, 200, 304, 404][random.random_range(0..4)] } else { 0 },
            event_type: event_type.to_owned(),
            at: moment(random, now_us),
            session_id,
            platform_id,
            link: if platform_id == org_id { 0 } else { random.random_range(1..4) },
            agent_id: (*["", "alpha", "beta"].choose(random).unwrap()).to_owned(),
            content_url: format!("https://{host}/{}", random.random_range(0..3)),
            event_id: (*["", "a", "b", "B", "\u{e4}"].choose(random).unwrap()).to_owned(),
            data: format!("{{\"org.example.n\":{},\"ip\":1}}", random.random_range(0..3)),
        }
    }

    /// Returns a random window, sometimes without bounds.
    pub(super) fn window(&mut self, now_us: i64) -> Window {
        let (one, other) = (moment(&mut self.random, now_us), moment(&mut self.random, now_us));
        Window {
            since: self.random.random_bool(0.3).then_some(one.min(other)),
            until: self.random.random_bool(0.3).then_some(one.max(other)),
        }
    }
}

/// Returns a millisecond in the history, often at or next to a step.
fn moment(random: &mut StdRng, now_us: i64) -> i64 {
    let step = i64::try_from(random.random_range(0..=STEPS)).unwrap();
    let changed_ms = (NEW_YEAR_MS * 1_000 + step * STEP_US) / 1_000;
    match random.random_range(0..4) {
        0 => changed_ms,
        1 => changed_ms + 1,
        2 => now_us / 1_000,
        _ => NEW_YEAR_MS + random.random_range(-3_600_000..30 * 3_600_000),
    }
}
