//! An organisation's own figures against the model: random reports, clicks and outcomes.

use crate::model::{Read, random_rows, refill};
use crate::model_lists::given;
use crate::model_series::{buckets, length_of};
use crate::model_time::{Stretch, instant};
use crate::test_app::{NEW_YEAR_MS, Observation, TestApp};
use chrono::DateTime;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::random_seed;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// How one session ended, at a time of the model.
struct Ended {
    at: i64,
    outcome_type: &'static str,
    currency: &'static str,
    amount: i64,
}

/// Sessions of the organisation in place of those there were, and one of another's for each.
async fn refill_sessions(app: &TestApp, org: Uuid, other: Uuid, stretch: Stretch, random: &mut StdRng) -> Vec<Ended> {
    sqlx::query("DELETE FROM sessions").execute(&app.stores.pool).await.unwrap();
    let mut all = Vec::new();
    for _ in 0..random.random_range(0..25) {
        let ended = Ended {
            at: NEW_YEAR_MS + random.random_range(0..10),
            outcome_type: ["conversion", "abandonment", "browse"].choose(random).unwrap(),
            currency: ["USD", "EUR", "JPY"].choose(random).unwrap(),
            amount: *[0, 1, 4_999, i64::MAX].choose(random).unwrap(),
        };
        // What PostgreSQL takes for no text stands beside what is read.
        let outcome = format!(
            r#"{{"type":"{}","value_amount":{},"currency":"{}","extra":{{"metadata":{{"type":"\u0000\ud800","n":"\""}}}}}}"#,
            ended.outcome_type, ended.amount, ended.currency
        );
        let at = DateTime::from_timestamp_millis(stretch.at(ended.at)).unwrap();
        let later = at + chrono::TimeDelta::days(3);
        // The end decides; without one the start, and without both when it was heard of.
        let times = match random.random_range(0..3) {
            0 => (Some(at), None, later),
            1 => (None, Some(at), later),
            _ => (None, None, at),
        };
        for (whose, outcome) in [(org, Some(outcome.clone())), (org, None), (other, Some(outcome))] {
            sqlx::query(
                "INSERT INTO sessions (organization_id, session_id, outcome, ended_at, started_at, created_at) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(whose)
            .bind(Uuid::new_v4())
            .bind(outcome)
            .bind(times.0)
            .bind(times.1)
            .bind(times.2)
            .execute(&app.stores.pool)
            .await
            .unwrap();
        }
        all.push(ended);
    }
    all
}

/// Role, agent and session of a report, as its reporter is told them.
fn told(row: &Observation) -> (i8, &str, Uuid) {
    if row.platform_id == row.org_id {
        (row.counted_role(), &row.agent_id, row.session_id)
    } else {
        (row.counted_role(), "", Uuid::nil())
    }
}

/// Under which value one's own report counts, if any.
fn value(row: &Observation, split: &str) -> Option<String> {
    let (role, agent, session) = told(row);
    match split {
        "none" => Some(String::new()),
        "type" => Some(row.event_type.clone()),
        "role" => SourceRole::from_code(role.unsigned_abs()).map(|role| SourceRole::code(Some(role)).to_string()),
        _ => Some(agent.to_owned()).filter(|_| role == 1 || !session.is_nil()),
    }
}

#[derive(Default)]
struct Figures {
    events: u64,
    sessions: BTreeSet<Uuid>,
    clicks: u64,
    clicked: BTreeSet<Uuid>,
}

/// By bucket and value; the bucket is zero for a summary.
fn figures(
    read: &Read,
    rows: &[Observation],
    org: Uuid,
    split: &str,
    bucket: &dyn Fn(i64) -> i64,
) -> BTreeMap<(i64, String), Figures> {
    let mut figures: BTreeMap<(i64, String), Figures> = BTreeMap::new();
    for (_, row) in read.own(rows, org) {
        let is_click = row.org_id != org;
        // Clicks have no roles and agents.
        let value = value(row, split).filter(|_| !is_click || ["none", "type"].contains(&split));
        let Some(value) = value else { continue };
        let figure = figures.entry((bucket(row.at), value)).or_default();
        let session = if is_click { row.session_id } else { told(row).2 };
        let (count, sessions) =
            if is_click { (&mut figure.clicks, &mut figure.clicked) } else { (&mut figure.events, &mut figure.sessions) };
        *count += 1;
        sessions.extend(Some(session).filter(|session| !session.is_nil()));
    }
    figures
}

fn in_window(query: &[(&str, String)], ms: i64) -> bool {
    let given = |name: &str| query.iter().find(|(known, _)| *known == name).map(|(_, text)| text.clone());
    given("since").is_none_or(|since| instant(ms) >= since) && given("until").is_none_or(|until| instant(ms) < until)
}

fn sorted(mut of: Vec<(u64, Value)>) -> Vec<Value> {
    of.sort_by_key(|(count, _)| Reverse(*count));
    of.into_iter().map(|(_, value)| value).collect()
}

fn summary(read: &Read, rows: &[Observation], org: Uuid, ended: &[&Ended]) -> Value {
    let of = |split: &str| figures(read, rows, org, split, &|_| 0);
    let whole = of("none").remove(&(0, String::new())).unwrap_or_default();
    let types = of("type");
    let by_type = |count: &dyn Fn(&Figures) -> u64| {
        let told = types.iter().filter(|(_, of)| count(of) > 0);
        sorted(told.map(|((_, name), of)| (count(of), json!({"event_type": name, "count": count(of)}))).collect())
    };
    let role = |((_, code), of): ((i64, String), Figures)| {
        let role = SourceRole::from_code(code.parse().unwrap()).unwrap();
        json!({"source_role": role.as_str(), "count": of.events, "sessions": of.sessions.len()})
    };
    let agent = |((_, name), of): ((i64, String), Figures)| {
        (of.events, json!({"agent_id": name, "event_count": of.events, "session_count": of.sessions.len()}))
    };
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut currencies: BTreeMap<&str, (u64, u128)> = BTreeMap::new();
    for of in ended {
        *outcomes.entry(of.outcome_type).or_default() += 1;
        let (count, value) = currencies.entry(of.currency).or_default();
        (*count, *value) = (*count + 1, *value + u128::try_from(of.amount).unwrap());
    }
    json!({
        "organization_id": org,
        "total_events": whole.events,
        "total_sessions": whole.sessions.len(),
        "events_by_type": by_type(&|of| of.events),
        "events_by_source": of("role").into_iter().map(role).collect::<Vec<_>>(),
        "agents": sorted(of("agent").into_iter().map(agent).collect()),
        "clicks": {"total_events": whole.clicks, "total_sessions": whole.clicked.len(), "events_by_type": by_type(&|of| of.clicks)},
        "outcomes": {
            "total": ended.len(),
            "by_type": sorted(outcomes.into_iter().map(|(name, count)| (count, json!({"outcome_type": name, "count": count}))).collect()),
            // As text: a number of more than 64 bits is none to this reader.
            "by_currency": currencies.into_iter().map(|(currency, (count, value))| json!([currency, count, value.to_string()])).collect::<Vec<_>>(),
        },
    })
}

/// The answer as the model has it: without the window, values as text.
fn plain(text: &str) -> Value {
    let told: schemas::series::AgentSummary = serde_json::from_str(text).unwrap();
    let mut plain: Value = serde_json::from_str(text).unwrap();
    let currencies = told.outcomes.by_currency.iter();
    plain["outcomes"]["by_currency"] = currencies.map(|of| json!([of.currency, of.count, of.value_amount.to_string()])).collect();
    for name in ["period_start", "period_end"] {
        plain.as_object_mut().unwrap().remove(name);
    }
    plain
}

/// Type and currency of an outcome.
type OutcomeValue<'a> = (&'a str, &'a str);

/// The items of one's own series, values as text.
fn items(
    read: &Read,
    rows: &[Observation],
    org: Uuid,
    ended: &[&Ended],
    of: (Stretch, &[(&str, String)], &str, &str),
) -> Vec<Value> {
    let (stretch, query, by, split) = of;
    let bucket = |ms: i64| ms.div_euclid(length_of(by));
    let is_outcome = split == "outcome";
    let figures = if is_outcome { BTreeMap::new() } else { figures(read, rows, org, split, &bucket) };
    let mut outcomes: BTreeMap<(i64, OutcomeValue<'_>), (u64, u128)> = BTreeMap::new();
    for of in ended.iter().filter(|_| is_outcome || split == "none") {
        let (count, value) = outcomes.entry((bucket(stretch.at(of.at)), (of.outcome_type, of.currency))).or_default();
        (*count, *value) = (*count + 1, *value + u128::try_from(of.amount).unwrap());
    }
    let listed = read.own(rows, org);
    let listed = listed.iter().filter(|_| !is_outcome).map(|(_, row)| bucket(row.at));
    let held: BTreeSet<i64> = listed.chain(outcomes.keys().map(|(bucket, _)| *bucket)).collect();
    let named: BTreeSet<String> = match split {
        "none" => [String::new()].into(),
        _ => figures.keys().map(|(_, name)| name.clone()).collect(),
    };
    let ended: BTreeSet<OutcomeValue<'_>> = outcomes.keys().map(|(_, value)| *value).collect();
    let mut items = Vec::new();
    for bucket in buckets(query, by, &held) {
        let start = instant(bucket * length_of(by));
        for (outcome_type, currency) in ended.iter().filter(|_| is_outcome) {
            let (count, value) = outcomes.get(&(bucket, (*outcome_type, *currency))).copied().unwrap_or_default();
            items.push(json!({"start": start, "outcome_type": outcome_type, "currency": currency, "outcomes": count, "value_amount": value.to_string()}));
        }
        for name in &named {
            let nothing = Figures::default();
            let of = figures.get(&(bucket, name.clone())).unwrap_or(&nothing);
            let mut item = json!({"start": start, "total_events": of.events, "total_sessions": of.sessions.len()});
            match split {
                "none" => {
                    let of_bucket = outcomes.iter().filter(|((at, _), _)| *at == bucket).map(|(_, (count, _))| count);
                    (item["clicks"], item["outcomes"]) = (of.clicks.into(), of_bucket.sum::<u64>().into());
                }
                "type" => (item["event_type"], item["clicks"]) = (name.as_str().into(), of.clicks.into()),
                "role" => item["source_role"] = SourceRole::from_code(name.parse().unwrap()).unwrap().as_str().into(),
                _ => item["agent_id"] = name.as_str().into(),
            }
            items.push(item);
        }
    }
    items
}

#[tokio::test]
async fn s1_an_organisations_own_figures_equal_the_model_in_summaries_and_series() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let own = app.seed().org("Agent", OrgType::Agent).await;
    let other = app.seed().org("Other", OrgType::Platform).await;
    app.stop_merges().await;
    let (mut clicks, mut outcomes) = (0, 0);
    let rounds = given("MODEL_ROUNDS").unwrap_or(8);
    // Some seeds make few clicks: the rounds go on until they have compared enough to mean something.
    for round in 0.. {
        if round >= rounds && clicks > 5 && outcomes > rounds {
            break;
        }
        assert!(round < rounds + 400, "the rounds compared hardly anything: seed {seed}");
        let org = own.id.0;
        let stretch = Stretch::random(&mut random);
        let rows = stretch.rows(&random_rows(&mut random, &[org.as_u128(), other.id.0.as_u128(), 1]));
        refill(&app, &rows, &mut random).await;
        let all = refill_sessions(&app, org, other.id.0, stretch, &mut random).await;
        let read = Read::stretched(stretch, &mut random);
        let query: Vec<_> = read.query().into_iter().filter(|(name, _)| *name != "domain").collect();
        let ended: Vec<&Ended> = all.iter().filter(|of| in_window(&query, stretch.at(of.at))).collect();
        let asked: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let trace = format!("seed {seed} round {round} {query:?}");

        let answer = app.get(&own.key, "/agent/summary", &asked).await;
        assert_eq!(answer.status.as_u16(), 200, "{trace}: {}", answer.text);
        let expected = summary(&read, &rows, org, &ended);
        assert_eq!(plain(&answer.text), expected, "{trace}");
        let listed = app.page(&own.key, "/agent/events", &asked).await;
        let counted = expected["total_events"].as_u64().unwrap() + expected["clicks"]["total_events"].as_u64().unwrap();
        assert_eq!(listed["total"], counted, "what is its own and what is others' is the list: {trace}");

        let by = if random.random() { "hour" } else { "day" };
        for split in ["none", "type", "role", "agent", "outcome"] {
            let asked = [&asked[..], &[("by", by), ("split", split)]].concat();
            let answer = app.get(&own.key, "/agent/series", &asked).await;
            assert_eq!(answer.status.as_u16(), 200, "{trace}: {}", answer.text);
            let told: schemas::series::Series<schemas::series::AgentSeriesItem> = serde_json::from_str(&answer.text).unwrap();
            let mut found: Value = serde_json::from_str(&answer.text).unwrap();
            for (item, told) in found["items"].as_array_mut().unwrap().iter_mut().zip(&told.items) {
                if let Some(value) = told.value_amount {
                    item["value_amount"] = value.to_string().into();
                }
            }
            let expected = items(&read, &rows, org, &ended, (stretch, &query, by, split));
            assert_eq!((&found["items"], &found["filled"]), (&json!(expected), &json!(true)), "{by} {split} {trace}");
            assert_eq!(found["total"], expected.len(), "{by} {split} {trace}");
        }
        clicks += expected["clicks"]["total_events"].as_u64().unwrap();
        outcomes += ended.len();
    }
}
