//! Compares every read with the model at the end of a history, for callers with and without access.

use super::expected_responses;
use super::model::{Retrieval, Window};
use super::random_history::RandomHistory;
use super::test_app::{OWNERS, Observation, PARTNERS, TestApp, get};
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

const LISTS: [&str; 4] = ["events", "urls", "corroboration", "funnel"];

type Query = Vec<(&'static str, String)>;

/// Returns the query parameters of a window.
fn written(window: Window) -> Query {
    let parameter = |name, ms: Option<i64>| ms.map(|ms| (name, expected_responses::instant(ms)));
    [parameter("since", window.since), parameter("until", window.until)].into_iter().flatten().collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl RandomHistory {
    /// Compares the reads and returns the number of compared events.
    pub(super) async fn compare_all(&mut self, town: &TestApp, seed: u64) -> usize {
        let holding: Vec<usize> = (0..OWNERS).filter(|owner| !self.model.hosts_of(*owner).is_empty()).collect();
        let anybody = self.random.random_range(0..OWNERS);
        let owner = holding.choose(&mut self.random).copied().filter(|_| anybody > 0).unwrap_or(anybody);
        let domain = self.random.random_bool(0.3).then(|| self.host());
        let window = self.window(town.now_us());
        let mut query = written(window);
        query.extend(domain.clone().map(|domain| ("domain", domain)));
        let outcome = *[None, None, None, Some("fetch"), Some("revalidation"), Some("failed")].choose(&mut self.random).unwrap();
        query.extend(outcome.map(|outcome| ("outcome", outcome.to_owned())));
        let trace = format!("seed {seed} history {} owner {owner} {query:?} ({})", self.number, self.model.story());

        let limit = self.random.random_range(1..6);
        let by = *["agent", "url", "day"].choose(&mut self.random).unwrap();
        let walked = *LISTS.choose(&mut self.random).unwrap();
        let mut seen = self.model.seen(owner, domain.as_deref(), window);
        seen.iter_mut().for_each(|seen| seen.retain(|event| outcome.is_none_or(|outcome| event.outcome() == outcome)));
        let count = seen.as_ref().map_or(0, Vec::len);
        self.compare_summary(town, owner, domain.as_deref(), &query, seen.as_deref(), &trace).await;
        for list in LISTS {
            let mut query = query.clone();
            query.extend((list == "funnel").then(|| ("by", by.to_owned())));
            let expected = seen.as_deref().map(|seen| items(list, by, seen));
            let (path, pages) = (format!("/content-owners/{list}"), (list == walked).then_some(limit));
            compare_list(town, &self.organizations.owners[owner].key, &path, &query, expected.as_deref(), pages, &trace).await;
        }
        drop(seen);
        let reported = self.compare_own_reports(town, window, &trace).await;
        self.compare_delegated(town, owner, &query, &trace).await;
        self.compare_manifest(town, &trace).await;
        self.compare_resolution(town, &trace).await;
        count + reported
    }

    async fn compare_summary(
        &self,
        town: &TestApp,
        owner: usize,
        domain: Option<&str>,
        query: &Query,
        seen: Option<&[Retrieval<'_>]>,
        trace: &str,
    ) {
        let party = &self.organizations.owners[owner];
        let (status, text) = get(town, &party.key, "/content-owners/summary", query).await;
        let Some(seen) = seen else {
            assert_eq!(status, 403, "summary {trace}: {text}");
            return;
        };
        assert_eq!(status, 200, "summary {trace}: {text}");
        let given = |name: &str| query.iter().find(|(given, _)| *given == name).map(|(_, value)| value);
        let mut expected = expected_responses::figures(seen);
        expected["organization_id"] = json!(party.id);
        expected["domains"] = domain.map_or_else(|| json!(self.model.hosts_of(owner)), |domain| json!([domain]));
        expected["period_start"] = json!(given("since"));
        expected["period_end"] = json!(given("until"));
        let found = parsed(&text);
        assert_eq!(found, expected, "summary {trace}");
        let by_type = found["events_by_type"].as_array().unwrap().iter().map(|of| of["count"].as_u64().unwrap());
        assert_eq!(found["total_events"], by_type.sum::<u64>(), "{trace}");
    }

    async fn compare_own_reports(&mut self, town: &TestApp, window: Window, trace: &str) -> usize {
        let cast = &self.organizations;
        let reporter = [&cast.agent, &cast.partners[0]].choose(&mut self.random).copied().unwrap();
        let reported = self.model.reported(reporter.id.0, window);
        let expected = expected_responses::own_events(reported.clone(), reporter.id.0);
        compare_list(town, &reporter.key, "/agent/events", &written(window), Some(&expected), None, trace).await;
        reported.len()
    }

    /// Checks that a partner gets the owner's response byte for byte, or a 403.
    async fn compare_delegated(&mut self, town: &TestApp, owner: usize, query: &Query, trace: &str) {
        let list = *["summary", "events", "urls", "corroboration", "funnel"].choose(&mut self.random).unwrap();
        let path = format!("/content-owners/{list}");
        let grantor = self.organizations.owners[owner].id.to_string();
        let delegated: Query = query.iter().cloned().chain([("delegated_from", grantor)]).collect();
        let own = get(town, &self.organizations.owners[owner].key, &path, query).await;
        for partner in 0..PARTNERS {
            let theirs = get(town, &self.organizations.partners[partner].key, &path, &delegated).await;
            if self.model.granted.contains(&(owner, partner)) && own.0 == 200 {
                assert_eq!(theirs, own, "{list} delegated to {partner}: {trace}");
            } else {
                assert_eq!(theirs.0, 403, "{list} not delegated to {partner}: {trace}: {}", theirs.1);
            }
        }
    }

    /// Checks that the manifest shows a session only if both organizations consent at the time of the lookup.
    async fn compare_manifest(&self, town: &TestApp, trace: &str) {
        let (status, text) =
            get(town, &self.organizations.partners[1].key, &format!("/ctx/{}", self.organizations.token), &[]).await;
        if !self.model.shares {
            assert_eq!(status, 404, "manifest {trace}: {text}");
            return;
        }
        assert_eq!(status, 200, "manifest {trace}: {text}");
        let is_told = |row: &Observation| {
            (row.org_id, row.platform_id, row.session_id)
                == (self.organizations.agent.id.0, self.organizations.agent.id.0, self.organizations.session)
                && matches!(row.event_type.as_str(), "content_grounded" | "content_cited" | "content_presented")
                && self.model.is_in_manifest(row)
        };
        let mut told: Vec<_> = self.model.merged().into_iter().map(|(_, row)| row).filter(|row| is_told(row)).collect();
        told.sort_by_key(|row| row.at);
        let expected: Vec<Value> = told.iter().map(|row| json!([row.event_type, row.content_url, row.at])).collect();
        let at = |event: &Value| event["timestamp"].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
        let found = parsed(&text);
        let shown = found["events"].as_array().unwrap().iter();
        let shown: Vec<Value> =
            shown.map(|event| json!([event["type"], event["content_url"], at(event).timestamp_millis()])).collect();
        assert_eq!(shown, expected, "manifest {trace}");
    }

    async fn compare_resolution(&mut self, town: &TestApp, trace: &str) {
        let host = self.host();
        let (status, text) = get(town, "", "/resolve", &[("domain", host.clone())]).await;
        assert_eq!(status, 200, "resolve {trace}: {text}");
        let owner = self.model.owner_of(&host).map(|owner| json!(self.organizations.owners[owner].id));
        assert_eq!(parsed(&text)["organization"]["id"], owner.unwrap_or_default(), "resolve {host} {trace}");
    }
}

fn items(list: &str, by: &str, seen: &[Retrieval<'_>]) -> Vec<Value> {
    match list {
        "events" => expected_responses::events(seen),
        "urls" => expected_responses::urls(seen),
        "corroboration" => expected_responses::corroboration(seen),
        _ => expected_responses::funnel(seen, by),
    }
}

/// Compares the whole list, and all its pages together. `None` expects a 403.
async fn compare_list(
    town: &TestApp,
    key: &str,
    path: &str,
    query: &Query,
    expected: Option<&[Value]>,
    limit: Option<usize>,
    trace: &str,
) {
    let page = async |limit: usize, offset: usize| {
        let paging = [("limit", limit.to_string()), ("offset", offset.to_string())];
        get(town, key, path, &query.iter().cloned().chain(paging).collect::<Vec<_>>()).await
    };
    // The model has no names of organizations.
    let without_names = |text: &str| {
        let mut part = parsed(text);
        for item in part["items"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("platform_name");
        }
        part
    };
    let (status, text) = page(1_000, 0).await;
    let Some(expected) = expected else {
        assert_eq!(status, 403, "{path} {trace}: {text}");
        return;
    };
    assert_eq!(status, 200, "{path} {trace}: {text}");
    let whole = without_names(&text);
    assert_eq!((&whole["items"], &whole["total"]), (&json!(expected), &json!(expected.len())), "{path} {trace}");
    let Some(limit) = limit else { return };
    let mut union = Vec::new();
    while union.len() < expected.len() {
        let (status, text) = page(limit, union.len()).await;
        assert_eq!(status, 200, "{path} {trace}: {text}");
        let part = without_names(&text);
        assert_eq!(part["total"], expected.len(), "{path} {trace}");
        let items = part["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{path} {trace}: a page within the list is empty");
        union.extend(items.iter().cloned());
    }
    assert_eq!(union, expected, "the pages of {path} {trace}");
}
