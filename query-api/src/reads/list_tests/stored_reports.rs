//! The rows that a writer stores for reports.

use super::reports::{Content, Copy, HOSTS, stored_site};
use chrono::DateTime;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::testing::{TestStores, clickhouse_request};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::merge::{CurrentRows, keys_to_look_up, merge};
use store::report::Acceptance;
use store::row::{Entry, EventRow, EventWrite, ReportPlace, ReportWrite};
use uuid::Uuid;

pub(super) struct WriterTables {
    url: String,
    rows: BTreeMap<EventKey, EventRow<Arc<Content>>>,
    /// Issuers with a second row for a report.
    issuers: BTreeMap<EventKey, Uuid>,
    version: u64,
}

impl WriterTables {
    pub(super) async fn new(stores: &TestStores) -> Self {
        let (server, database) = (&stores.clickhouse.clickhouse_url, &stores.clickhouse.clickhouse_database);
        let url = format!("{server}/?database={database}&async_insert=0&wait_end_of_query=1");
        let world = Self { url, rows: BTreeMap::new(), issuers: BTreeMap::new(), version: 0 };
        let above = |host| Site::from_stored(&stored_site(host)).candidates();
        let rows = |host| above(host).into_iter().map(move |above| json!({"above": above.as_str(), "site": stored_site(host)}));
        let stored: Vec<Value> = HOSTS.into_iter().flat_map(rows).collect();
        world.insert("sites", &stored).await;
        world
    }

    pub(super) async fn clear(&mut self) {
        for table in ["events", "reports"] {
            self.run(format!("TRUNCATE TABLE {table}")).await;
        }
        (self.rows, self.issuers) = (BTreeMap::new(), BTreeMap::new());
    }

    /// Deletes all rows of `reports` but none of `events`.
    pub(super) async fn delete_reports(&mut self) {
        self.version += 1;
        let entries = self.rows.values().flat_map(|row| &row.reports);
        let rows: Vec<Value> = entries.map(|entry| self.report_row(&entry.place(), None, None)).collect();
        self.insert("reports", &rows).await;
    }

    pub(super) async fn accept(&mut self, block: &[Copy]) {
        self.version += 1;
        let (mut reports, mut events) = (Vec::new(), Vec::new());
        let mut groups: BTreeMap<EventKey, Vec<Copy>> = BTreeMap::new();
        block.iter().for_each(|copy| groups.entry(copy.group()).or_default().push(copy.clone()));
        for new in groups.values() {
            let changes = merge(&self.current(new), new);
            reports.extend(changes.reports.iter().flat_map(|write| self.report_rows(write, new)));
            for write in changes.events_first.iter().chain(&changes.events) {
                events.push(self.event_row(write));
                self.apply(write);
            }
        }
        self.insert("reports", &reports).await;
        self.insert("events", &events).await;
    }

    fn current(&self, new: &[Copy]) -> CurrentRows<Arc<Content>> {
        let joined = new[0].shared_key.and_then(|key| self.rows.get(&key)).cloned();
        let keys = keys_to_look_up(joined.as_ref(), new);
        CurrentRows {
            standalone: keys.iter().filter_map(|key| self.rows.get(key)).cloned().collect(),
            joined,
            ..CurrentRows::default()
        }
    }

    fn apply(&mut self, write: &EventWrite<Arc<Content>>) {
        match write {
            EventWrite::Row(row) => drop(self.rows.insert(row.key, row.clone())),
            EventWrite::Tombstone(place) => {
                if self.rows.get(&place.key).is_some_and(|row| row.place() == *place) {
                    self.rows.remove(&place.key);
                }
            }
        }
    }

    /// Returns the reporter's and the issuer's rows.
    fn report_rows(&mut self, write: &ReportWrite, new: &[Copy]) -> Vec<Value> {
        let place = write.place();
        let copy = match write {
            ReportWrite::Row(written) => new.iter().find(|copy| copy.accepted == written.accepted),
            ReportWrite::Tombstone(_) => None,
        };
        if let Some(copy) = copy.filter(|copy| copy.facts.platform != copy.observer.org.0) {
            self.issuers.insert(place.identity, copy.facts.platform);
        }
        let issuer = self.issuers.get(&place.identity).map(|issuer| self.report_row(&place, Some(*issuer), copy));
        std::iter::once(self.report_row(&place, None, copy)).chain(issuer).collect()
    }

    fn report_row(&self, place: &ReportPlace, issuer: Option<Uuid>, copy: Option<&Copy>) -> Value {
        let mut row = json!({
            "organization": issuer.unwrap_or(place.org.0),
            "at": text(place.at_ms),
            "identity": place.identity.0.to_string(),
            "home": place.home.0,
            "is_issuers": u8::from(issuer.is_some()),
            "version": self.version,
            "is_deleted": u8::from(copy.is_none()),
        });
        if let Some(copy) = copy {
            let content = &copy.facts;
            let link = ["", "taken", "same", "other"][usize::from(content.link)];
            let more = json!({
                "group_key": copy.shared_key.map_or(0, |key| key.0).to_string(),
                "received": received(&copy.accepted),
                "site": copy.site.as_ref().map_or("", Site::as_str),
                "type": content.event_type,
                "source_role": content.roles.0,
                "role": content.roles.1,
                "platform": content.platform,
                "session": content.session,
                "link": link,
                "link_site": content.link_site,
                "agent": content.agent,
                "url": content.url,
                "content_telemetry_id": content.telemetry_id,
                "event_id": content.event_id,
                "turn_id": content.turn_id,
                "data": content.data,
                "extra": content.extra,
                "signature": content.signature,
                "signature_reason": if content.signature == 1 { "stale" } else { "" },
                "signature_proof": if content.signature == 2 { "{}" } else { "" },
            });
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        row
    }

    fn event_row(&self, write: &EventWrite<Arc<Content>>) -> Value {
        let place = write.place();
        let mut row = json!({
            "site": place.site.as_ref().map_or("", Site::as_str),
            "at": text(place.at_ms),
            "key": place.key.0.to_string(),
            "home": place.home.0,
            "version": self.version,
            "is_deleted": u8::from(matches!(write, EventWrite::Tombstone(_))),
        });
        if let EventWrite::Row(event) = write {
            row.as_object_mut().unwrap().extend(event_columns(event).as_object().unwrap().clone());
        }
        row
    }

    async fn insert(&self, table: &str, rows: &[Value]) {
        if !rows.is_empty() {
            let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
            self.run(format!("INSERT INTO {table} FORMAT JSONEachRow\n{}", rows.join("\n"))).await;
        }
    }

    async fn run(&self, statement: String) {
        let response = clickhouse_request(reqwest::Method::POST, &self.url).body(statement).send().await.unwrap();
        let status = response.status();
        assert!(status.is_success(), "{}", response.text().await.unwrap());
    }
}

fn event_columns(event: &EventRow<Arc<Content>>) -> Value {
    let shown = event.representative().unwrap();
    let position = event.reports.iter().position(|entry| entry.accepted == shown.accepted).unwrap();
    let content = &shown.facts;
    let is_claim = |entry: &Entry<Arc<Content>>| match entry.facts.roles.1 {
        1 => true,
        role => role == 0 && !entry.facts.session.is_nil(),
    };
    let claimants: Vec<OrgId> = event.reports.iter().filter(|entry| is_claim(entry)).map(|entry| entry.observer.org).collect();
    let is_seen =
        event.reports.iter().any(|entry| [2, 3].contains(&entry.facts.roles.1) && !claimants.contains(&entry.observer.org));
    let is_retrieval = content.event_type == "content_retrieved";
    let each = |value: &dyn Fn(&Entry<Arc<Content>>) -> Value| event.reports.iter().map(value).collect::<Vec<_>>();
    let identity = |entry: &Entry<Arc<Content>>| if entry.accepted.identity == event.key { 0 } else { entry.accepted.identity.0 };
    json!({
        "type": content.event_type,
        "url": content.url,
        "roles": event.reports.iter().fold(0, |roles, entry| roles | 1_u8 << entry.facts.roles.1),
        "role": content.roles.1,
        "is_claim": u8::from(is_claim(shown)),
        "representative": position + 1,
        "organization": shown.observer.org.0,
        "platform": content.platform,
        "agent": content.agent,
        "link_site": if content.link != 3 { "" } else if content.link_site.is_empty() { "-" } else { &content.link_site },
        "is_claimed": u8::from(is_retrieval && !claimants.is_empty()),
        "is_seen": u8::from(is_retrieval && is_seen),
        "reports.organization": each(&|entry| json!(entry.observer.org.0)),
        "reports.platform": each(&|entry| json!(entry.facts.platform)),
        "reports.role": each(&|entry| json!(entry.facts.roles.1)),
        "reports.drain": each(&|_| json!(Uuid::nil())),
        "reports.agent": each(&|entry| json!(entry.facts.agent)),
        "reports.session": each(&|entry| json!(entry.facts.session.as_u64_pair().1)),
        "reports.at": each(&|entry| json!(text(entry.at_ms))),
        "reports.received": each(&|entry| json!(received(&entry.accepted))),
        "reports.identity": each(&|entry| json!(identity(entry).to_string())),
        "reports.home": each(&|entry| json!(entry.home.0)),
        "reports.details": each(&|_| json!("")),
    })
}

pub(super) fn received(accepted: &Acceptance) -> u64 {
    u64::try_from(accepted.at_us).unwrap() << 12 | u64::from(accepted.place)
}

fn text(at_ms: i64) -> String {
    DateTime::from_timestamp_millis(at_ms).unwrap().format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}
