//! Expected JSON of each read, according to docs/api/event-keys.md#figures.

use super::model::Retrieval;
use super::test_app::Observation;
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const ROLES: [&str; 5] = ["", "agent", "edge", "origin", "index"];
const STEPS: [&str; 5] = ["retrieved", "grounded", "cited", "presented", "engaged"];

pub(super) fn instant(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn id(id: Uuid) -> String {
    if id.is_nil() { String::new() } else { id.to_string() }
}

/// Returns the role. For types that only agents report, a missing role means the agent's.
fn role_of(row: &Observation) -> i8 {
    let is_agents =
        matches!(row.event_type.as_str(), "content_grounded" | "content_cited" | "content_presented" | "content_engaged")
            || row.event_type.starts_with("turn_");
    if row.source_role == 0 && is_agents { 1 } else { row.source_role }
}

fn role(row: &Observation) -> &'static str {
    ROLES[usize::from(role_of(row).unsigned_abs())]
}

/// Returns the platform, session and agent as owners see them. A click on a host other than the token's belongs to its reporter and has no
/// session.
fn known(row: &Observation) -> (Uuid, Uuid, &str) {
    if row.link == 3 { (row.org_id, Uuid::nil(), "") } else { (row.platform_id, row.session_id, row.agent_id.as_str()) }
}

/// Returns whether a report comes from an agent: it has that role or a session.
fn names_agent(row: &Observation) -> bool {
    role_of(row) == 1 || !known(row).1.is_nil()
}

fn sessions<'a>(rows: impl Iterator<Item = &'a &'a Observation>) -> usize {
    let named = rows.map(|row| known(row)).filter(|(_, session, _)| !session.is_nil());
    named.map(|(platform, session, _)| (platform, session)).collect::<BTreeSet<_>>().len()
}

/// Sorts counts in descending order, ties by name.
fn ranked<K: Ord + Clone>(counts: BTreeMap<K, usize>) -> Vec<(K, usize)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

fn per_type(retrievals: &[&Retrieval<'_>]) -> Value {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    retrievals.iter().for_each(|seen| *counts.entry(&seen.representative().event_type).or_default() += 1);
    ranked(counts).into_iter().map(|(name, count)| json!({"event_type": name, "count": count})).collect()
}

/// Returns a summary's numbers.
pub(super) fn figures(retrievals: &[Retrieval<'_>]) -> Value {
    let seen_by = |accepts: &dyn Fn(&Observation) -> bool| {
        let count = retrievals.iter().filter(|seen| seen.reports.iter().any(|row| accepts(row))).count();
        (count, sessions(retrievals.iter().flat_map(|seen| &seen.reports).filter(|row| accepts(row))))
    };
    let mut sources = Vec::new();
    for name in &ROLES[1..] {
        let (count, sessions) = seen_by(&|row| role(row) == *name);
        sources.extend((count > 0).then(|| json!({"source_role": name, "count": count, "sessions": sessions})));
    }
    let named: BTreeSet<(Uuid, &str)> = retrievals
        .iter()
        .flat_map(|seen| &seen.reports)
        .filter(|row| names_agent(row))
        .map(|row| (known(row).0, known(row).2))
        .collect();
    let mut agents: Vec<_> = named
        .into_iter()
        .map(|(platform, agent)| {
            let is_theirs = |row: &Observation| (known(row).0, known(row).2) == (platform, agent);
            let (events, _) = seen_by(&|row| names_agent(row) && is_theirs(row));
            let (_, sessions) = seen_by(&is_theirs);
            (
                Reverse(events),
                json!({"platform_id": platform, "agent_id": agent, "event_count": events, "session_count": sessions}),
            )
        })
        .collect();
    agents.sort_by_key(|(events, _)| *events);
    json!({
        "total_events": retrievals.len(),
        "total_sessions": sessions(retrievals.iter().flat_map(|seen| &seen.reports)),
        "events_by_type": per_type(&retrievals.iter().collect::<Vec<_>>()),
        "events_by_source": sources,
        "agents": agents.into_iter().map(|(_, agent)| agent).collect::<Vec<_>>(),
    })
}

fn shown_id(key: u128, row: &Observation) -> String {
    if row.event_id.is_empty() { Uuid::from_u128(key).to_string() } else { row.event_id.clone() }
}

/// Returns a report's data, with the roles of these rows as observers.
fn data_with_observers<'a>(data: &str, rows: impl IntoIterator<Item = &'a Observation>) -> Value {
    let roles: BTreeSet<i8> = rows.into_iter().map(role_of).filter(|role| *role > 0).collect();
    let mut data: Value = serde_json::from_str(data).unwrap_or_else(|_| json!({}));
    data["observers"] = roles.into_iter().map(|role| ROLES[usize::from(role.unsigned_abs())]).collect();
    data
}

/// Returns the list of events, newest first, ties by key.
pub(super) fn events(retrievals: &[Retrieval<'_>]) -> Vec<Value> {
    let mut items = BTreeMap::new();
    for seen in retrievals {
        let told_by = seen.representative();
        let (platform, session, agent) = known(told_by);
        let mut data = data_with_observers(&told_by.data, seen.reports.iter().copied());
        // Owners can't see IP addresses.
        data.as_object_mut().unwrap().remove("ip");
        let item = json!({
            "event_id": shown_id(seen.key, told_by),
            "session_id": id(session),
            "event_type": told_by.event_type,
            "content_url": told_by.content_url,
            "event_timestamp": instant(seen.at()),
            "event_data": data,
            "platform_id": id(platform),
            "agent_id": agent,
            "outcome": seen.outcome(),
            "bot": "",
        });
        items.insert((Reverse(seen.at()), seen.key), item);
    }
    items.into_values().collect()
}

/// Returns an organization's own list, newest first, ties by identity.
pub(super) fn own_events(mut reports: Vec<(u128, &Observation)>, org: Uuid) -> Vec<Value> {
    reports.sort_by_key(|(identity, row)| (Reverse(row.at), *identity));
    reports.into_iter().map(|(identity, row)| own_item(identity, row, org)).collect()
}

fn own_item(identity: u128, row: &Observation, org: Uuid) -> Value {
    let is_by_other = row.org_id != org;
    let is_anothers_click = !is_by_other && row.platform_id != org;
    json!({
        "event_id": if is_by_other { Uuid::from_u128(identity).to_string() } else { shown_id(identity, row) },
        "session_id": if is_anothers_click { String::new() } else { id(row.session_id) },
        "event_type": row.event_type,
        "content_url": if is_anothers_click && row.link == 1 { "" } else { &row.content_url },
        "event_timestamp": instant(row.at),
        // Hidden from the token's issuer.
        "event_data": data_with_observers(if is_by_other { "{}" } else { &row.data }, [row]),
        "platform_id": if is_anothers_click { String::new() } else { id(row.platform_id) },
        "agent_id": if is_anothers_click { "" } else { &row.agent_id },
        "source_role": role(row),
        "reported_by": if is_by_other { "other" } else { "self" },
        "content_telemetry_id": "",
    })
}

fn of_outcome(retrievals: &[&Retrieval<'_>], outcome: &str) -> usize {
    retrievals.iter().filter(|seen| seen.outcome() == outcome).count()
}

fn of_type(retrievals: &[&Retrieval<'_>], event_type: &str) -> usize {
    retrievals.iter().filter(|seen| seen.representative().event_type == event_type).count()
}

/// Returns the number of clicks with another organization's token on the host of the token's link.
fn visits(retrievals: &[&Retrieval<'_>]) -> usize {
    let is_visit =
        |row: &Observation| row.event_type == "content_engaged" && row.platform_id != row.org_id && matches!(row.link, 1 | 2);
    retrievals.iter().filter(|seen| is_visit(seen.representative())).count()
}

pub(super) fn urls(retrievals: &[Retrieval<'_>]) -> Vec<Value> {
    let mut urls: BTreeMap<&str, Vec<&Retrieval<'_>>> = BTreeMap::new();
    for seen in retrievals {
        urls.entry(&seen.representative().content_url).or_default().push(seen);
    }
    let mut items: Vec<_> = urls
        .into_iter()
        .map(|(url, retrievals)| {
            let item = json!({
                "content_url": url,
                "total_events": retrievals.len(),
                "unique_sessions": sessions(retrievals.iter().flat_map(|seen| &seen.reports)),
                "event_types": per_type(&retrievals),
                "fetched": of_outcome(&retrievals, "fetch"),
                "failed": of_outcome(&retrievals, "failed"),
                "revalidated": of_outcome(&retrievals, "revalidation"),
                "grounded": of_type(&retrievals, "content_grounded"),
                "cited": of_type(&retrievals, "content_cited"),
                "presented": of_type(&retrievals, "content_presented"),
                "engagements": of_type(&retrievals, "content_engaged") - visits(&retrievals),
                "visits": visits(&retrievals),
                "last_seen": instant(retrievals.iter().map(|seen| seen.at()).max().unwrap()),
            });
            (Reverse(retrievals.len()), item)
        })
        .collect();
    items.sort_by_key(|(events, _)| *events);
    items.into_iter().map(|(_, item)| item).collect()
}

/// Returns platform and agent of a retrieval. Both are empty if a server or an unknown observer reported it.
fn agent_of(seen: &Retrieval<'_>) -> (String, String) {
    let told_by = seen.representative();
    let is_claim = matches!(role_of(told_by), 0 | 1) && names_agent(told_by);
    let (platform, _, agent) = known(told_by);
    if is_claim { (platform.to_string(), agent.to_owned()) } else { Default::default() }
}

pub(super) fn corroboration(retrievals: &[Retrieval<'_>]) -> Vec<Value> {
    let mut parts: BTreeMap<(Reverse<String>, String, String), [usize; 4]> = BTreeMap::new();
    for seen in retrievals.iter().filter(|seen| seen.outcome() == "fetch") {
        let (platform, agent) = agent_of(seen);
        let claims = seen.reports.iter().filter(|row| matches!(role_of(row), 0 | 1) && names_agent(row));
        let claimants: BTreeSet<Uuid> = claims.map(|row| row.org_id).collect();
        let is_claimed = !claimants.is_empty();
        let is_seen = seen.reports.iter().any(|row| matches!(row.source_role, 2 | 3) && !claimants.contains(&row.org_id));
        let place = match (is_claimed, is_seen) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        let day = instant(seen.at())[..10].to_owned();
        parts.entry((Reverse(day), platform, agent)).or_default()[place] += 1;
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by_key(|((day, ..), counts)| (day.clone(), Reverse(counts.iter().sum::<usize>())));
    let item = |((Reverse(day), platform_id, agent_id), counts): ((Reverse<String>, String, String), [usize; 4])| {
        let [both, claimed, seen, neither] = counts;
        json!({
            "day": day, "platform_id": platform_id, "agent_id": agent_id, "retrievals": counts.iter().sum::<usize>(),
            "seen_by_both": both, "claimed_by_agent_only": claimed, "seen_by_server_only": seen, "seen_by_neither": neither,
        })
    };
    parts.into_iter().map(item).collect()
}

pub(super) fn funnel(retrievals: &[Retrieval<'_>], by: &str) -> Vec<Value> {
    let mut parts: BTreeMap<(String, String), Vec<&Retrieval<'_>>> = BTreeMap::new();
    for seen in retrievals {
        let told_by = seen.representative();
        if !STEPS.iter().any(|step| told_by.event_type == format!("content_{step}")) {
            continue;
        }
        let key = match by {
            "agent" => agent_of(seen),
            "url" => (String::new(), told_by.content_url.clone()),
            _ => (String::new(), instant(seen.at())[..10].to_owned()),
        };
        parts.entry(key).or_default().push(seen);
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    match by {
        "day" => parts.reverse(),
        _ => parts.sort_by_key(|(_, seen)| Reverse(seen.len())),
    }
    let item = |((platform, name), seen): ((String, String), Vec<&Retrieval<'_>>)| {
        let mut item = match by {
            "agent" => json!({"platform_id": platform, "agent_id": name, "bot": ""}),
            "url" => json!({"content_url": name}),
            _ => json!({"day": name}),
        };
        STEPS.iter().for_each(|step| item[*step] = of_type(&seen, &format!("content_{step}")).into());
        for (member, outcome) in [("fetched", "fetch"), ("failed", "failed"), ("revalidated", "revalidation")] {
            item[member] = of_outcome(&seen, outcome).into();
        }
        let visits = visits(&seen);
        item["visits"] = visits.into();
        item["engagements"] = (of_type(&seen, "content_engaged") - visits).into();
        item
    };
    parts.into_iter().map(item).collect()
}
