//! Every list against the model: what a naive reading of the rows in memory says its items are.

use crate::model::{Event, Read, host_of, owners, random_rows, refill, sessions};
use crate::test_app::{Observation, TestApp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use serde_json::{Value, json};
use service_kit::testing::random_seed;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

fn instant(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

fn id(id: Uuid) -> String {
    if id.is_nil() { String::new() } else { id.to_string() }
}

fn role_name(code: i8) -> &'static str {
    SourceRole::from_code(code.unsigned_abs()).map_or("", SourceRole::as_str)
}

fn is_agents(row: &Observation) -> bool {
    matches!(row.counted_role(), 0 | 1) && (row.counted_role() == 1 || !row.as_owners_see().1.is_nil())
}

/// A longer run than the usual, where one is asked for.
pub(crate) fn given(variable: &str) -> Option<usize> {
    std::env::var_os(variable).map(|count| count.to_string_lossy().parse().unwrap())
}

fn roles<'a>(reports: impl IntoIterator<Item = &'a &'a Observation>) -> Value {
    let roles: BTreeSet<i8> = reports.into_iter().map(|row| row.counted_role()).filter(|role| *role > 0).collect();
    roles.into_iter().map(role_name).collect()
}

/// Without what only its reporter may see.
fn owners_data(row: &Observation) -> Value {
    let mut data: Value = serde_json::from_str(&row.data).unwrap();
    data.as_object_mut().unwrap().remove("n");
    data
}

/// The id of an event, as one of its reports has it.
fn told_id(key: u128, row: &Observation) -> String {
    if row.event_id.is_empty() { Uuid::from_u128(key).to_string() } else { row.event_id.clone() }
}

fn owners_item(event: &Event<'_>) -> Value {
    let shown = event.shown();
    let (platform, session, agent) = shown.as_owners_see();
    let mut data = owners_data(shown);
    data["observers"] = roles(&event.reports);
    json!({
        "event_id": told_id(event.key, shown),
        "session_id": id(session),
        "event_type": shown.event_type,
        "content_url": shown.content_url,
        "event_timestamp": instant(event.at()),
        "event_data": data,
        "platform_id": id(platform),
        "agent_id": agent,
    })
}

/// Newest first, ties by key.
fn owners_events(events: &[Event<'_>]) -> Vec<Value> {
    let mut events: Vec<_> = events.iter().collect();
    events.sort_by_key(|event| (Reverse(event.at()), event.key));
    events.into_iter().map(owners_item).collect()
}

/// What an organization reported, or others with its click tokens, newest first, ties by identity.
pub(crate) fn own_events(reports: &[(EventKey, &Observation)], org: Uuid) -> Vec<Value> {
    let mut reports = reports.to_vec();
    reports.sort_by_key(|(identity, row)| (Reverse(row.at), *identity));
    reports.into_iter().map(|(identity, row)| own_item(identity, row, org)).collect()
}

fn own_item(EventKey(identity): EventKey, row: &Observation, org: Uuid) -> Value {
    let is_by_other = row.org_id != org;
    let is_bound_by_other = !is_by_other && row.platform_id != org;
    let mut data: Value = if is_by_other { json!({}) } else { serde_json::from_str(&row.data).unwrap() };
    data["observers"] = roles([&row]);
    json!({
        "event_id": if is_by_other { Uuid::from_u128(identity).to_string() } else { told_id(identity, row) },
        "session_id": if is_bound_by_other { String::new() } else { id(row.session_id) },
        "event_type": row.event_type,
        "content_url": if is_bound_by_other && row.link == 1 { "" } else { &row.content_url },
        "event_timestamp": instant(row.at),
        "event_data": data,
        "platform_id": if is_bound_by_other { String::new() } else { id(row.platform_id) },
        "agent_id": if is_bound_by_other { "" } else { &row.agent_id },
        "source_role": role_name(row.counted_role()),
        "reported_by": if is_by_other { "other" } else { "self" },
        "content_telemetry_id": "",
    })
}

/// The newest event that has a report of that id, with all that may be told of it.
fn one_event(read: &Read, events: &[Event<'_>], event_id: &str) -> Option<Value> {
    // Of reports from before the host was the owner's only the one that represents the event, which the list shows too.
    let visible = |event: &Event<'_>| -> Vec<Observation> {
        let represents = |row: &Observation| std::ptr::eq(row, event.shown());
        let rows = event.by_precedence().into_iter();
        rows.filter(|row| represents(row) || read.may_see(&host_of(row), row.at)).cloned().collect()
    };
    let has_id = |event: &&Event<'_>| visible(event).iter().any(|row| told_id(event.key, row) == event_id);
    let named: Vec<_> = events.iter().filter(has_id).collect();
    let newest = *named.iter().min_by_key(|event| (Reverse(event.at()), event.key))?;
    let report = |(nth, row): (usize, Observation)| {
        let (platform, session, agent) = row.as_owners_see();
        let is_named = nth == 0 || row.counted_role() == 1 || !session.is_nil();
        json!({
            "source_role": role_name(row.counted_role()),
            "event_id": told_id(newest.key, &row),
            "session_id": id(session),
            "event_type": row.event_type,
            "content_url": row.content_url,
            "event_timestamp": instant(row.at),
            "event_data": owners_data(&row),
            "platform_id": if is_named { id(platform) } else { String::new() },
            "agent_id": if is_named { agent } else { "" },
        })
    };
    let reports: Vec<Value> = visible(newest).into_iter().enumerate().map(report).collect();
    let mut event = owners_item(newest);
    let parts = ["seen_by_both", "claimed_by_agent_only", "seen_by_neither", "seen_by_server_only"];
    event["corroboration"] = if newest.is_fetch() { parts[part_of(newest)].into() } else { Value::Null };
    event["events_of_this_id"] = named.len().into();
    event["total_reports"] = reports.len().into();
    event["reports"] = reports.into();
    Some(event)
}

/// By both, by the agent alone, by neither, by a server alone.
fn part_of(event: &Event<'_>) -> usize {
    let claimants: BTreeSet<Uuid> = event.reports.iter().filter(|row| is_agents(row)).map(|row| row.org_id).collect();
    let is_claimed = !claimants.is_empty();
    let is_seen = event.reports.iter().any(|row| matches!(row.source_role, 2 | 3) && !claimants.contains(&row.org_id));
    usize::from(!is_claimed) * 2 + usize::from(is_claimed != is_seen)
}

/// The items that have these members, and the parameters that ask for them.
fn narrowed(items: &[Value], random: &mut StdRng) -> (Vec<Value>, Vec<(&'static str, String)>) {
    let mut asked = Vec::new();
    for name in ["event_type", "agent_id", "platform_id"] {
        // Most of the time what one of the items has.
        if random.random_bool(0.5) && !items.is_empty() {
            let value = items[random.random_range(0..items.len())][name].as_str().unwrap().to_owned();
            asked.push((name, value));
        }
    }
    let has = |item: &&Value| asked.iter().all(|(name, value)| item[*name] == value.as_str());
    (items.iter().filter(has).cloned().collect(), asked)
}

/// A value by which items are put in order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Text(String),
}

/// Of an item: one of its members, or how many of its events are of a type.
fn key_of(item: &Value, member: &str) -> Key {
    if let Some(number) = item[member].as_u64() {
        return Key::Number(number);
    }
    let types = item["event_types"].as_array().into_iter().flatten();
    let of_type = || types.filter(|counted| counted["event_type"] == member).map(|counted| counted["count"].as_u64().unwrap());
    item[member].as_str().map_or_else(|| Key::Number(of_type().sum()), |text| Key::Text(text.to_owned()))
}

/// The items by one of these members, equals in the usual order, and how that is asked for.
fn sorted(items: &[Value], members: &[&str], random: &mut StdRng) -> (Vec<Value>, String) {
    let (member, is_descending) = (members[random.random_range(0..members.len())], random.random_bool(0.5));
    let mut items = items.to_vec();
    items.sort_by(|one, other| {
        let order = key_of(one, member).cmp(&key_of(other, member));
        if is_descending { order.reverse() } else { order }
    });
    (items, format!("{}{member}", if is_descending { "-" } else { "" }))
}

const URL_MEMBERS: [&str; 6] =
    ["content_url", "total_events", "unique_sessions", "last_seen", "content_retrieved", "content_engaged"];
const CORROBORATION_MEMBERS: [&str; 7] =
    ["day", "agent_id", "retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only", "seen_by_neither"];

/// What stands between the host and the question mark.
fn path_of(url: &str) -> &str {
    let beyond_host = url.splitn(4, '/').nth(3).map_or(0, |rest| url.len() - rest.len() - 1);
    url[beyond_host..].split('?').next().unwrap()
}

/// Host and first step of a page; without a step after it the page is in no folder.
fn section_of(shown: &Observation) -> String {
    let steps: Vec<&str> = path_of(&shown.content_url).split('/').collect();
    match steps[..] {
        [_, first, _, ..] => format!("https://{}/{first}/*", host_of(shown)),
        _ => format!("https://{}/", host_of(shown)),
    }
}

/// The events on pages whose path is asked for, and how it is asked: the path of one of them, or what it begins with; as often
/// what would be others as a pattern or in other letters.
fn on_path<'a>(events: &[Event<'a>], random: &mut StdRng) -> (Vec<Event<'a>>, String) {
    let path = |event: &Event<'a>| path_of(&event.shown().content_url).to_owned();
    let mut asked = ["/%", "/_", "/bl_g/", "/BLOG/", "/.", "/b\u{e4}"][random.random_range(0..6)].to_owned();
    if random.random() && !events.is_empty() {
        asked = path(&events[random.random_range(0..events.len())]);
        asked.truncate(random.random_range(1..=asked.len()));
        asked.retain(|one| one != '*');
    }
    let is_beginning = random.random_bool(0.7);
    let is_on = |event: &&Event<'a>| if is_beginning { path(event).starts_with(&asked) } else { path(event) == asked };
    let found = events.iter().filter(is_on).cloned().collect();
    (found, if is_beginning { format!("{asked}*") } else { asked })
}

fn urls(events: &[Event<'_>], name: impl Fn(&Observation) -> String) -> Vec<Value> {
    let mut urls: BTreeMap<String, Vec<&Event<'_>>> = BTreeMap::new();
    for event in events {
        urls.entry(name(event.shown())).or_default().push(event);
    }
    let mut items: Vec<_> = urls
        .into_iter()
        .map(|(url, events)| {
            let mut types: BTreeMap<&str, u64> = BTreeMap::new();
            events.iter().for_each(|event| *types.entry(&event.shown().event_type).or_default() += 1);
            let mut types: Vec<_> = types.into_iter().collect();
            types.sort_by_key(|(_, count)| Reverse(*count));
            let item = json!({
                "content_url": url,
                "total_events": events.len(),
                "unique_sessions": sessions(events.iter().flat_map(|event| &event.reports)),
                "event_types": types.iter().map(|(name, count)| json!({"event_type": name, "count": count})).collect::<Vec<_>>(),
                "last_seen": instant(events.iter().map(|event| event.at()).max().unwrap()),
            });
            (Reverse(events.len()), item)
        })
        .collect();
    items.sort_by_key(|(events, _)| *events);
    items.into_iter().map(|(_, item)| item).collect()
}

fn agent_of(event: &Event<'_>) -> (String, String) {
    let shown = event.shown();
    let (platform, _, agent) = shown.as_owners_see();
    if is_agents(shown) { (platform.to_string(), agent.to_owned()) } else { (String::new(), String::new()) }
}

fn corroboration(events: &[Event<'_>]) -> Vec<Value> {
    let mut parts: BTreeMap<(Reverse<String>, String, String), [u64; 4]> = BTreeMap::new();
    for event in events.iter().filter(|event| event.is_fetch()) {
        let day = instant(event.at())[..10].to_owned();
        let (platform, agent) = agent_of(event);
        parts.entry((Reverse(day), platform, agent)).or_default()[part_of(event)] += 1;
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    // A platform that is none is written as all zero in the store, and so comes first among equals here, too.
    parts.sort_by_key(|((day, ..), counts)| (day.clone(), Reverse(counts.iter().sum::<u64>())));
    let item = |((Reverse(day), platform_id, agent_id), [both, claimed, neither, seen]): (_, [u64; 4])| {
        json!({
            "day": day, "platform_id": platform_id, "agent_id": agent_id, "retrievals": both + claimed + neither + seen,
            "seen_by_both": both, "claimed_by_agent_only": claimed, "seen_by_server_only": seen, "seen_by_neither": neither,
        })
    };
    parts.into_iter().map(item).collect()
}

/// The rows of all agents of a day as one.
fn corroboration_by_day(events: &[Event<'_>]) -> Vec<Value> {
    let mut days: BTreeMap<Reverse<String>, serde_json::Map<String, Value>> = BTreeMap::new();
    for row in corroboration(events) {
        let day = days.entry(Reverse(row["day"].as_str().unwrap().to_owned())).or_default();
        for (name, part) in row.as_object().unwrap() {
            match part.as_u64() {
                Some(part) => {
                    let before = day.get(name).and_then(Value::as_u64).unwrap_or_default();
                    day.insert(name.clone(), (before + part).into());
                }
                None if name == "day" => _ = day.insert(name.clone(), part.clone()),
                None => {}
            }
        }
    }
    days.into_values().map(Value::Object).collect()
}

fn funnel(events: &[Event<'_>], by: &str) -> Vec<Value> {
    const STEPS: [&str; 5] = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let mut parts: BTreeMap<(String, String), [u64; 5]> = BTreeMap::new();
    for event in events {
        let shown = event.shown();
        let Some(step) = STEPS.iter().position(|step| shown.event_type == format!("content_{step}")) else { continue };
        let key = match by {
            "agent" => agent_of(event),
            "url" => (String::new(), shown.content_url.clone()),
            _ => (String::new(), instant(event.at())[..10].to_owned()),
        };
        parts.entry(key).or_default()[step] += 1;
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    match by {
        "day" => parts.reverse(),
        _ => parts.sort_by_key(|(_, counts)| Reverse(counts.iter().sum::<u64>())),
    }
    let item = |((platform, name), counts): ((String, String), [u64; 5])| {
        let mut item = match by {
            "agent" => json!({"platform_id": platform, "agent_id": name}),
            "url" => json!({"content_url": name}),
            _ => json!({"day": name}),
        };
        STEPS.iter().zip(counts).for_each(|(step, count)| item[*step] = count.into());
        item
    };
    parts.into_iter().map(item).collect()
}

/// Compares the whole list, and a page of it that begins anywhere.
async fn expect(app: &TestApp, key: &str, path: &str, query: &[(&str, &str)], items: &[Value], random: &mut StdRng, trace: &str) {
    let total = items.len();
    let whole = app.page(key, path, &[query, &[("limit", "1000")]].concat()).await;
    assert_eq!((whole["total"].as_u64(), &whole["items"]), (Some(total as u64), &json!(items)), "{path} {trace}");
    let (limit, offset) = (random.random_range(1..8), random.random_range(0..=total));
    let (limit_text, offset_text) = (limit.to_string(), offset.to_string());
    let page = app.page(key, path, &[query, &[("limit", limit_text.as_str()), ("offset", &offset_text)]].concat()).await;
    let part = &items[offset..usize::min(offset + limit, total)];
    assert_eq!((page["total"].as_u64(), &page["items"]), (Some(total as u64), &json!(part)), "{path} {limit} {offset} {trace}");
    assert_eq!((&page["limit"], &page["offset"]), (&json!(limit), &json!(offset)));
}

/// An owner's lists over one window.
struct Compared<'a> {
    app: &'a TestApp,
    key: &'a str,
    query: &'a [(&'a str, &'a str)],
    trace: &'a str,
}

impl Compared<'_> {
    async fn list(&self, list: &str, more: &[(&str, &str)], items: &[Value], random: &mut StdRng) {
        let (path, query) = (format!("/content-owners/{list}"), [self.query, more].concat());
        expect(self.app, self.key, &path, &query, items, random, self.trace).await;
    }

    /// In its usual order, or by one of these members.
    async fn sorted(&self, list: &str, more: &[(&str, &str)], items: &[Value], members: &[&str], random: &mut StdRng) {
        if random.random() {
            return self.list(list, more, items, random).await;
        }
        let (items, sort) = sorted(items, members, random);
        self.list(list, &[more, &[("sort", &sort)]].concat(), &items, random).await;
    }

    /// URLs and sections; of one path, where there is one.
    async fn pages(&self, seen: &[Event<'_>], path: Option<&str>, random: &mut StdRng) {
        let path: Vec<_> = path.map(|path| ("path", path)).into_iter().collect();
        let (by_url, by_section) = (urls(seen, |shown| shown.content_url.clone()), urls(seen, section_of));
        for (by, items) in [("url", by_url), ("section", by_section)] {
            let asked = [&path[..], &[("by", by)]].concat();
            self.sorted("urls", &asked, &items, &URL_MEMBERS, random).await;
        }
    }

    /// Corroboration and funnel, by whatever they are split.
    async fn sums(&self, seen: &[Event<'_>], random: &mut StdRng) {
        self.sorted("corroboration", &[], &corroboration(seen), &CORROBORATION_MEMBERS, random).await;
        self.list("corroboration", &[("by", "day")], &corroboration_by_day(seen), random).await;
        for [by, name] in [["agent", "agent_id"], ["url", "content_url"], ["day", "day"]] {
            let members = [name, "retrieved", "cited", "engaged"];
            self.sorted("funnel", &[("by", by)], &funnel(seen, by), &members, random).await;
        }
    }
}

#[tokio::test]
async fn every_list_equals_the_model() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    let reporter = app.seed().org("Agent", schemas::identity::OrgType::Agent).await;
    app.stop_merges().await;
    let rounds = given("MODEL_ROUNDS").unwrap_or(6);
    let (mut compared, mut of_others, mut narrowed_to_some) = (0, 0, 0);
    for round in 0.. {
        if round >= rounds && compared > rounds && of_others > 0 && narrowed_to_some > 0 {
            break;
        }
        assert!(round < rounds + 400, "the rounds compare hardly anything: seed {seed}");
        let rows: Vec<_> = random_rows(&mut random, &[reporter.id.0.as_u128(), 1, 1 << 64, 1 << 127]);
        refill(&app, &rows, &mut random).await;
        let read = Read::random(&mut random);
        let trace = format!("seed {seed} round {round} {read:?}");
        let query = read.query();
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let own = own_events(&read.own(&rows, reporter.id.0), reporter.id.0);
        // A reporter's own list is narrowed by time and by who reported.
        let by_time: Vec<_> = query.iter().copied().filter(|(name, _)| *name != "domain").collect();
        expect(&app, &reporter.key, "/agent/events", &by_time, &own, &mut random, &trace).await;
        for reported_by in ["self", "other"] {
            let part: Vec<Value> = own.iter().filter(|item| item["reported_by"] == reported_by).cloned().collect();
            let asked = [&by_time[..], &[("reported_by", reported_by)]].concat();
            expect(&app, &reporter.key, "/agent/events", &asked, &part, &mut random, &trace).await;
            of_others += if reported_by == "other" { part.len() } else { 0 };
        }

        let key = &owners[read.owner].key;
        let told = read.told(&rows);
        let Some(seen) = read.seen(&told) else {
            for path in ["events", "urls", "corroboration", "funnel"] {
                let answer = app.get(key, &format!("/content-owners/{path}"), &query).await;
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} {trace}");
            }
            continue;
        };
        let items = owners_events(&seen);
        expect(&app, key, "/content-owners/events", &query, &items, &mut random, &trace).await;
        let (items, asked) = narrowed(&items, &mut random);
        let asked: Vec<(&str, &str)> = asked.iter().map(|(name, value)| (*name, value.as_str())).collect();
        expect(&app, key, "/content-owners/events", &[&query[..], &asked].concat(), &items, &mut random, &trace).await;
        let of_key =
            seen.choose(&mut random).map_or_else(|| "nobody else".to_owned(), |event| Uuid::from_u128(event.key).to_string());
        for event_id in ["a", "B", "\u{e4}", "nobody", &of_key] {
            let answer = app.get(key, &format!("/content-owners/events/{event_id}"), &query).await;
            let expected = one_event(&read, &seen, event_id);
            let status = if expected.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            assert_eq!(answer.status, status, "{event_id} {trace}: {}", answer.text);
            assert_eq!(Some(answer.json()).filter(|_| status == StatusCode::OK), expected, "{event_id} {trace}");
        }
        let (on_path, path) = on_path(&seen, &mut random);
        narrowed_to_some += usize::from(!on_path.is_empty() && on_path.len() < seen.len());
        let compared_with = Compared { app: &app, key, query: &query, trace: &trace };
        compared_with.pages(&seen, None, &mut random).await;
        compared_with.pages(&on_path, Some(&path), &mut random).await;
        compared_with.sums(&seen, &mut random).await;
        compared += seen.len();
    }
}
