//! Reads with a member's user session: they equal those with the organization's key, are in the audit trail, and end with the session or
//! the membership.

use crate::test_app::{Observation, Query, TestApp, fetch_on, serve};
use chrono::TimeDelta;
use reqwest::{RequestBuilder, StatusCode};
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use service_kit::testing::{SeededOrg, client, eventually};
use sqlx::PgPool;
use uuid::Uuid;

const READS: [&str; 10] = [
    "/content-owners/summary",
    "/content-owners/events",
    "/content-owners/urls",
    "/content-owners/corroboration",
    "/content-owners/reconciliation",
    "/content-owners/funnel",
    "/content-owners/series",
    "/agent/events",
    "/agent/summary",
    "/agent/series",
];
const FORMATS: [&str; 3] = ["application/json", "text/csv", "application/x-ndjson"];
const EMAIL: &str = "ada@a.test";

#[derive(Clone, Copy, Debug)]
enum Credentials<'a> {
    Key(&'a str),
    Bearer(&'a str),
    Cookie(&'a str),
}

impl Credentials<'_> {
    fn on(self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Key(key) => request.header("x-api-key", key),
            Self::Bearer(session) => request.bearer_auth(session),
            Self::Cookie(session) => request.header("cookie", format!("other=1; telemetry-session={session}")),
        }
    }
}

/// The response as a caller sees it, without the request id and the cursor, which depend on the request.
type Seen = (StatusCode, Vec<(String, String)>, String);

async fn ask(server: &str, shows: Credentials<'_>, accept: &str, path: &str) -> Seen {
    let response = shows.on(client().get(format!("{server}{path}"))).header("accept", accept).send().await.unwrap();
    let headers =
        response.headers().iter().filter(|(name, _)| !["x-request-id", "x-next-after", "date"].contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let status = response.status();
    let mut text = response.text().await.unwrap();
    if let Some((head, rest)) = text.split_once("\"request_id\":\"") {
        text = format!("{head}{}", rest.split_once('"').unwrap().1);
    }
    (status, headers, text)
}

/// Returns a response. Repeats requests that fail because the store is busy, which can happen to any of them.
async fn answered(server: &str, shows: Credentials<'_>, accept: &str, path: &str) -> Seen {
    let asked = async || Some(ask(server, shows, accept, path).await).filter(|seen| seen.0 != StatusCode::SERVICE_UNAVAILABLE);
    eventually("the service responds", asked).await
}

/// Adds parameters to a path with or without a query.
fn with(path: &str, parameters: &str) -> String {
    format!("{path}{}{parameters}", if path.contains('?') { '&' } else { '?' })
}

fn rows(agent: OrgId) -> Vec<Observation> {
    let row = |key: u128, host: &str| {
        let at = i64::try_from(key).unwrap() * 7_000_000;
        [
            fetch_on(host, key).role(Edge).after(at),
            fetch_on(host, key).role(Agent).by_org(agent).session(key % 3 + 1).agent("bot").after(at + 3),
        ]
    };
    (0..30)
        .flat_map(|key| row(key, ["example.com", "news.example.com", "other.test"][usize::try_from(key % 3).unwrap()]))
        .collect()
}

/// Returns an owner, an agent with a delegation from it, and a member of both.
async fn app() -> (TestApp, SeededOrg, SeededOrg, String) {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("agent", OrgType::Agent).await;
    app.seed().delegate(owner.id, agent.id).await;
    app.insert(&rows(agent.id)).await;
    let session = app.seed().session(EMAIL, TimeDelta::days(1)).await;
    for org in [owner.id, agent.id] {
        app.seed().join(EMAIL, org).await;
    }
    (app, owner, agent, session)
}

#[tokio::test]
async fn members_see_the_same_data_as_the_key() {
    let (app, owner, agent, session) = app().await;
    let server = &app.server.url;
    let filters =
        ["", "?since=2026-01-01T01:00:00Z&until=2026-01-02", "?domain=news.example.com", "?limit=3&offset=2", "?since=bad"];
    let delegated = format!("?delegated_from={}", owner.id);
    let stranger = format!("?delegated_from={}", agent.id);
    let seen = format!("?seen_by={}", agent.id);
    let mut told = [0, 0];
    for (org, told) in [&owner, &agent].into_iter().zip(&mut told) {
        for read in READS {
            for filter in filters.iter().copied().chain([delegated.as_str(), &stranger, &seen]) {
                let path = format!("{read}{filter}");
                let named = with(&path, &format!("organization_id={}", org.id));
                let accept = FORMATS[(read.len() + filter.len()) % FORMATS.len()];
                let expected = answered(server, Credentials::Key(&org.key), accept, &path).await;
                *told += usize::from(expected.0 == StatusCode::OK);
                for shows in [Credentials::Bearer(&session), Credentials::Cookie(&session)] {
                    assert_eq!(answered(server, shows, accept, &named).await, expected, "{named} {shows:?}");
                }
            }
        }
    }
    // The owner: seven reads without a filter, by period, by domain and as the agent, and five by page, without summary and series.
    // The agent: the same seven for the owner, and its own three without a filter and by period, and one by page.
    assert_eq!(told, [7 * 4 + 5, 7 + 3 * 2 + 1]);
    let whole =
        answered(server, Credentials::Cookie(&session), "*/*", &format!("/content-owners/summary?organization_id={}", owner.id))
            .await;
    assert!(whole.2.contains("\"total_events\":20"), "{}", whole.2);
    let names: Vec<_> = whole.1.iter().map(|(name, _)| name.as_str()).collect();
    assert!(whole.1.contains(&("cache-control".to_owned(), "no-store".to_owned())), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("access-control-")), "no CORS headers: {names:?}");
}

#[tokio::test]
async fn foreign_and_unknown_organizations_get_the_same_response() {
    let (app, owner, _, session) = app().await;
    let (server, seed) = (&app.server.url, app.seed());
    let (other, single) = (seed.owner_of("other.test").await, seed.session("single@a.test", TimeDelta::days(1)).await);
    seed.join("single@a.test", owner.id).await;
    let stranger = seed.session("stranger@a.test", TimeDelta::days(1)).await;
    let document = "/sessions/01900000-0000-7000-8000-000000000000/document";
    for read in READS.into_iter().chain([document]) {
        let asking = async |session: &str, parameters: &str| {
            ask(server, Credentials::Bearer(session), "*/*", &with(read, parameters)).await
        };
        let of = |org: &dyn std::fmt::Display| format!("organization_id={org}");
        let expected = asking(&session, &of(&Uuid::from_u128(7))).await;
        assert_eq!(expected.0, StatusCode::FORBIDDEN, "{read}: {}", expected.2);
        for session in [&session, &single, &stranger] {
            assert_eq!(asking(session, &of(&other.id)).await, expected, "{read}");
        }
        assert_eq!(asking(&stranger, "").await, expected, "{read}: the person has no organization");
        assert_eq!(asking(&single, &of(&owner.id)).await, asking(&single, "").await, "{read}: it is the default");
        for unclear in [String::new(), of(&"x"), of(&""), format!("{}&{}", of(&owner.id), of(&other.id))] {
            let (status, _, text) = asking(&session, &unclear).await;
            assert_eq!((status, text.contains("invalid_parameter")), (StatusCode::BAD_REQUEST, true), "{read} {unclear}: {text}");
        }
        for named in [owner.id, other.id] {
            let (status, _, text) = ask(server, Credentials::Key(&owner.key), "*/*", &with(read, &of(&named))).await;
            assert_eq!(
                (status, text.contains("invalid_parameter")),
                (StatusCode::BAD_REQUEST, true),
                "an API key has one organization: {text}"
            );
        }
    }
}

#[tokio::test]
async fn keys_take_precedence_over_sessions() {
    let (app, owner, _, session) = app().await;
    let other = app.seed().session("other@a.test", TimeDelta::days(1)).await;
    app.seed().join("other@a.test", owner.id).await;
    let url = format!("{}/content-owners/summary?organization_id={}", app.server.url, owner.id);
    let get = || client().get(&url);
    let cookie = |session: &str| format!("telemetry-session={session}");
    for refused in [
        get().bearer_auth(&session).header("x-api-key", "svc_pub_none"),
        get().header("cookie", cookie(&session)).header("x-api-key", ""),
        get().bearer_auth(&session).bearer_auth(&other),
        get().bearer_auth(&session).header("cookie", cookie(&other)),
        get().header("cookie", cookie(&session)).header("cookie", cookie(&other)),
        get().header("cookie", format!("__Host-{}", cookie(&session))),
        get().header("authorization", &session),
        get().bearer_auth(&owner.key),
        get().header("cookie", cookie(&owner.key)),
        get(),
    ] {
        assert_eq!(refused.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(get().bearer_auth(&session).header("cookie", cookie(&session)).send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn s4_ended_sessions_and_memberships_cannot_read() {
    const ROUNDS: usize = 40;
    let (app, owner, ..) = app().await;
    let second = serve(&Query::settings(&app)).await;
    let servers = [app.server.url.as_str(), second.url.as_str()];
    let path = format!("/content-owners/summary?organization_id={}", owner.id);
    let reads = async |server: &str, session: &str| ask(server, Credentials::Bearer(session), "*/*", &path).await.0;
    let ends = [
        ("UPDATE user_sessions SET ended_at = now() WHERE user_id = $1", StatusCode::UNAUTHORIZED),
        ("UPDATE user_sessions SET expires_at = now() WHERE user_id = $1", StatusCode::UNAUTHORIZED),
        ("UPDATE user_sessions SET idle_until = now() WHERE user_id = $1", StatusCode::UNAUTHORIZED),
        ("DELETE FROM memberships WHERE user_id = $1", StatusCode::FORBIDDEN),
    ];
    for round in 0..ROUNDS {
        let email = format!("round-{round}@a.test");
        let session = app.seed().session(&email, TimeDelta::days(1)).await;
        let person = app.seed().join(&email, owner.id).await;
        for server in servers {
            assert_eq!(reads(server, &session).await, StatusCode::OK, "round {round}");
        }
        let (end, refused) = ends[round % ends.len()];
        sqlx::query(end).bind(person.0).execute(&app.stores.pool).await.unwrap();
        for server in servers.into_iter().chain(servers) {
            assert_eq!(reads(server, &session).await, refused, "round {round}: {end}");
        }
    }
}

/// Returns user and organization of the reads in the audit trail.
async fn audited(pool: &PgPool) -> Vec<(Uuid, Uuid)> {
    let rows = "SELECT actor_id, organization_id FROM audit_log WHERE action = 'telemetry.read' AND actor_kind = 'user' \
        AND object_kind = 'user' AND object_id = actor_id ORDER BY id";
    sqlx::query_as(rows).fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn audits_the_first_read_of_a_session() {
    let (app, owner, agent, session) = app().await;
    let pool = &app.stores.pool;
    let second = serve(&Query::settings(&app)).await;
    let read = async |server: &str, session: &str, org: OrgId, path: &str| {
        ask(server, Credentials::Bearer(session), "*/*", &with(path, &format!("organization_id={org}"))).await.0
    };
    // A read that can't be recorded fails.
    let (server, summary) = (&app.server.url, "/content-owners/summary");
    sqlx::query("REVOKE INSERT ON session_reads FROM telemetry_query").execute(pool).await.unwrap();
    assert!(read(server, &session, owner.id, summary).await.is_server_error());
    sqlx::query("GRANT INSERT ON session_reads TO telemetry_query").execute(pool).await.unwrap();
    assert_eq!(audited(pool).await, []);

    let person = app.seed().join(EMAIL, owner.id).await.0;
    for server in [server, &second.url, server] {
        for path in [summary, "/content-owners/urls"] {
            assert_eq!(read(server, &session, owner.id, path).await, StatusCode::OK);
            assert_eq!(audited(pool).await, [(person, owner.id.0)]);
        }
    }
    assert_eq!(read(server, &session, agent.id, "/agent/summary").await, StatusCode::OK);
    let again = app.seed().session(EMAIL, TimeDelta::days(1)).await;
    assert_eq!(read(server, &again, owner.id, summary).await, StatusCode::OK);
    assert_eq!(audited(pool).await, [(person, owner.id.0), (person, agent.id.0), (person, owner.id.0)], "another session");
    assert_eq!(read(server, &again, OrgId(Uuid::from_u128(7)), summary).await, StatusCode::FORBIDDEN);
    assert_eq!(audited(pool).await.len(), 3, "rejected reads are not audited");
    // The record is deleted with its session; the audit trail remains.
    sqlx::query("DELETE FROM user_sessions").execute(pool).await.unwrap();
    let notes: i64 = sqlx::query_scalar("SELECT count(*) FROM session_reads").fetch_one(pool).await.unwrap();
    assert_eq!((notes, audited(pool).await.len()), (0, 3));
}
