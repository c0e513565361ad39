//! The reports of a session.

use super::Rounds;
use super::model::firsts;
use super::reports::{Copy, org, session};
use super::stored_reports::received;
use crate::access::session_scope::SessionScope;
use crate::reads::{SessionEvent, SessionPart};
use schemas::ids::{OrgId, SessionId};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns the expected row for part of a session. `data` and `extra` are compared as JSON.
fn row(copy: &Copy, part: SessionPart) -> Value {
    let content = &copy.facts;
    let is_turn = content.event_type.starts_with("turn_");
    let is_whole = part == SessionPart::Whole;
    let whole = |text: &str| if is_whole { text.to_owned() } else { String::new() };
    let member = |name: &str| json!({name: serde_json::from_str::<Value>(&content.data).unwrap()[name]}).to_string();
    let level =
        serde_json::from_str::<Value>(&content.extra).ok().map(|extra| match (&extra["turn"], &extra["turn"]["privacy_level"]) {
            (Value::Object(_), Value::Null) => json!({"turn": {}}).to_string(),
            (Value::Object(_), level) => json!({"turn": {"privacy_level": level}}).to_string(),
            _ => String::new(),
        });
    let (data, extra) = match part {
        SessionPart::Whole => (content.data.clone(), content.extra.clone()),
        SessionPart::Disclosable if is_turn => (String::new(), level.unwrap_or_default()),
        SessionPart::Disclosable => (member("scope"), String::new()),
        SessionPart::Clicks => (member("value_amount"), String::new()),
    };
    let turn_id = if part == SessionPart::Clicks { "" } else { &content.turn_id };
    json!([
        copy.accepted.identity.0.to_string(),
        copy.site.as_ref().unwrap().as_str(),
        content.event_type,
        copy.at_ms,
        content.roles.0,
        whole(&content.agent),
        content.url,
        whole(&content.telemetry_id),
        whole(&content.event_id),
        turn_id,
        data,
        extra,
    ])
}

fn expected(org: Uuid, session: Uuid, copies: &[Copy], part: SessionPart) -> Vec<Value> {
    let types = ["content_grounded", "content_cited", "content_presented", "turn_started", "turn_completed"];
    let is_of = |copy: &&Copy| {
        let is_own = copy.observer.org.0 == org;
        let content = &copy.facts;
        content.session == session
            && content.platform == org
            && is_own == (part != SessionPart::Clicks)
            && (part != SessionPart::Disclosable || types.contains(&content.event_type))
    };
    let mut reports: Vec<&Copy> = firsts(copies).into_iter().filter(is_of).collect();
    let time = |copy: &Copy| if part == SessionPart::Clicks { 0 } else { copy.at_ms };
    reports.sort_by_key(|copy| (time(copy), received(&copy.accepted)));
    reports.into_iter().map(|copy| row(copy, part)).collect()
}

fn found(event: &SessionEvent) -> Value {
    json!([
        event.key.to_string(),
        event.site,
        event.event_type,
        event.at_ms,
        event.role,
        event.agent_id,
        event.content_url,
        event.content_telemetry_id,
        event.event_id,
        event.turn_id,
        event.data,
        event.extra,
    ])
}

#[tokio::test]
async fn sessions_equal_the_model() {
    let mut compared = [0; 3];
    let rounds = Rounds::new().await;
    rounds
        .compare(async |reads, copies, _, trace| {
            for (org, session) in (1..4).flat_map(|of| (1..4).map(move |one| (org(of), session(one)))) {
                let parts = [SessionPart::Whole, SessionPart::Disclosable, SessionPart::Clicks];
                for (n, part) in parts.into_iter().enumerate() {
                    let scope = SessionScope::granted(OrgId(org), SessionId(session));
                    let read = reads.session_events(scope, part).await.unwrap();
                    assert!(read.is_whole);
                    let found: Vec<Value> = read.events.iter().map(found).collect();
                    assert_eq!(found, expected(org, session, copies, part), "{org} {session} {part:?} {trace}");
                    compared[n] += found.len();
                }
            }
            compared.iter().all(|compared| *compared > 20)
        })
        .await;
}
