//! `GET /ctx/{token}`: permissions, consents and the manifest (CT1 to CT13, S10).

use crate::click_fixture::{ClickFixture, alike, reported, urls_of};
use crate::test_app::Observation;
use chrono::TimeDelta;
use query_api::ClickSettings;
use reqwest::StatusCode;
use schemas::identity::{OrgType, Scope};
use schemas::secrets::PlainClickToken;
use serde_json::{Value, json};
use service_kit::testing::{TestProcess, client, eventually, free_address};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

const PAGE: &str = "https://www.example.com/page";

#[tokio::test]
async fn ct12_manifest_equals_the_specification() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(3)).await;
    let agent = clicks.agent.id;
    let data = json!({"citation_type": "paraphrase", "position": "supporting", "excerpt_hash": "x"});
    let engaged = reported(agent, session, "content_engaged", PAGE).after(9);
    let foreign = Observation { org_id: clicks.network.id.0, ..reported(agent, session, "content_cited", PAGE) };
    clicks
        .app
        .insert(&[
            reported(agent, session, "content_cited", PAGE).after(5).data(&data.to_string()),
            reported(agent, session, "content_grounded", PAGE).data(&json!({"scope": "session", "cached": false}).to_string()),
            reported(agent, session, "content_presented", "https://example.com/")
                .after(7)
                .data(&json!({"presentation_type": "card"}).to_string()),
            reported(agent, session, "content_retrieved", PAGE),
            reported(agent, session, "turn_started", ""),
            reported(agent, session, "content_cited", "").after(6),
            reported(agent, Uuid::new_v4(), "content_cited", PAGE),
            engaged,
            foreign,
        ])
        .await;
    let token = clicks.token(session, "https://www.example.com/target").await;
    let event = |kind: &str, ms: &str, url: &str, data: Value| {
        json!({"type": kind, "timestamp": format!("2026-01-01T00:00:00{ms}Z"), "content_url": url, "turn_id": "turn-1",
            "output_id": "output-1", "data": data})
    };
    let expected = json!({
        "started_at": "2026-01-01T00:00:00.000Z",
        "click_content_url": "https://www.example.com/target",
        "events": [
            event("content_grounded", ".000", PAGE, json!({"scope": "session", "cached": false})),
            event("content_cited", ".005", PAGE, json!({"citation_type": "paraphrase", "position": "supporting"})),
            event("content_presented", ".007", "https://example.com/", json!({"presentation_type": "card"})),
        ],
        "content_urls_grounded": [PAGE],
        "content_urls_cited": [PAGE],
        "content_urls_presented": ["https://example.com/"],
    });
    assert_eq!(clicks.manifest(&token).await, expected);
}

#[tokio::test]
async fn ct2_ct10_unusable_tokens_return_the_same_404() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(3)).await;
    let (token, unshared) = (clicks.token(session, PAGE).await, clicks.token(session, PAGE).await);
    clicks.clock.advance(TimeDelta::days(90));
    let expired = clicks.look_up(&token).await;
    clicks.clock.advance(TimeDelta::days(-1));
    assert_eq!(clicks.look_up(&token).await.status, StatusCode::OK);
    clicks.share(clicks.agent.id, false).await;
    let mut others = vec![(unshared.clone(), clicks.look_up(&unshared).await)];
    clicks.share(clicks.agent.id, true).await;
    let unknown = PlainClickToken::generate().reveal().to_owned();
    let malformed = ["x", "ctx_", "%00", "%ff%fe", "ctx_%2e%2e", "..%2fctx", "'%20OR%201=1", "%F0%9F%92%A9", "{token}"];
    let long = "a".repeat(4_000);
    let cut = &token[..token.len() - 1];
    for asked in malformed.into_iter().chain([unknown.as_str(), long.as_str(), cut, &token.to_uppercase(), &token[4..]]) {
        others.push((asked.to_owned(), clicks.look_up(asked).await));
    }
    let expected = alike(&expired);
    assert_eq!(expired.refusal(), (404, "not_found"));
    for (asked, other) in others {
        assert_eq!(alike(&other), expected, "{asked}");
    }
}

#[tokio::test]
async fn ct11_tokens_expire_after_ninety_days() {
    let clicks = ClickFixture::start().await;
    let token = clicks.token(clicks.session(None).await, PAGE).await;
    clicks.clock.advance(TimeDelta::days(90) - TimeDelta::seconds(1));
    assert_eq!(clicks.look_up(&token).await.status, StatusCode::OK);
    clicks.clock.advance(TimeDelta::milliseconds(999));
    assert_eq!(clicks.look_up(&token).await.status, StatusCode::OK);
    clicks.clock.advance(TimeDelta::milliseconds(1));
    assert_eq!(clicks.look_up(&token).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn ct5_lookup_requires_a_platform_or_agent_key() {
    let clicks = ClickFixture::start().await;
    let path = format!("/ctx/{}", clicks.token(clicks.session(None).await, PAGE).await);
    let seed = clicks.app.seed();
    let person = format!("Bearer {}", seed.session("a@example.com", TimeDelta::days(1)).await);
    let writer = seed.key(clicks.agent.id, OrgType::Agent, &[Scope::TelemetryWrite]).await;
    let cases: [(&[(&str, &str)], u16); 6] = [
        (&[("x-api-key", &clicks.network.key)], 200),
        (&[("x-api-key", &clicks.agent.key)], 200),
        (&[("x-api-key", &clicks.owner.key)], 403),
        (&[("x-api-key", &writer)], 403),
        (&[("authorization", &person)], 401),
        (&[], 401),
    ];
    for (headers, status) in cases {
        assert_eq!(clicks.get(&path, headers).await.status, status, "{headers:?}");
    }
}

#[test]
fn ct1_tokens_are_uniformly_random() {
    let tokens: Vec<String> = (0..100_000).map(|_| PlainClickToken::generate().reveal().to_owned()).collect();
    let beginnings: HashSet<&str> = tokens.iter().map(|token| &token["ctx_".len().."ctx_".len() + 8]).collect();
    assert_eq!(beginnings.len(), tokens.len(), "two prefixes are equal by chance in one of fifty thousand runs");
    // Each of the 62 characters is equally frequent in each of the 43 places, within seven standard deviations.
    let mut counts = vec![HashMap::new(); 43];
    for token in &tokens {
        for (place, character) in token["ctx_".len()..].chars().enumerate() {
            *counts[place].entry(character).or_insert(0_i64) += 1;
        }
    }
    for (place, of) in counts.iter().enumerate() {
        assert_eq!(of.len(), 62, "place {place}");
        assert!(of.values().all(|count| (count - 1_613).abs() < 280), "place {place}: {of:?}");
    }
}

#[tokio::test]
async fn limits_lookups_per_key() {
    let clicks = ClickFixture::start_with(ClickSettings { click_lookup_rate: 1 }).await;
    let mut refused = None;
    for _ in 0..20 {
        let answer = clicks.look_up("ctx_guess").await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("twenty lookups exceed the rate limit");
    assert!(refused.headers.contains_key("retry-after"));
    let other = clicks.get("/ctx/ctx_guess", &[("x-api-key", &clicks.agent.key)]).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND, "another key has its own limit");
}

#[tokio::test]
async fn ct8_consents_apply_from_the_next_lookup() {
    let clicks = ClickFixture::start().await;
    let blog = clicks.app.seed().owner_of("blog.example.com").await;
    let session = clicks.session(Some(3)).await;
    let (page, post) = ("https://shop.example.com/1", "https://x.blog.example.com/2");
    let nobodys = ["https://unverified.test/3", "https://notexample.com/4", "http://127.0.0.1/5"];
    let mut rows: Vec<Observation> = Vec::new();
    for url in [page, post].into_iter().chain(nobodys) {
        rows.extend(
            ["content_grounded", "content_cited", "content_presented"].map(|kind| reported(clicks.agent.id, session, kind, url)),
        );
    }
    clicks.app.insert(&rows).await;
    let token = clicks.token(session, PAGE).await;
    let shown = |urls: &[&str]| {
        let thrice: Vec<&str> = urls.iter().flat_map(|url| [*url; 3]).collect();
        json!([thrice, urls, urls, urls])
    };
    let sorted = async || {
        let mut urls = urls_of(&clicks.manifest(&token).await);
        urls.as_array_mut().unwrap().iter_mut().for_each(|list| list.as_array_mut().unwrap().sort_by_key(Value::to_string));
        urls
    };
    assert_eq!(sorted().await, shown(&[page]), "only the blog's owner can consent");
    clicks.show(blog.id, true).await;
    assert_eq!(sorted().await, shown(&[page, post]));
    clicks.show(clicks.owner.id, false).await;
    assert_eq!(sorted().await, shown(&[post]));
    clicks.show(blog.id, false).await;
    assert_eq!(sorted().await, shown(&[]));
    clicks.share(clicks.agent.id, false).await;
    assert_eq!(clicks.look_up(&token).await.status, StatusCode::NOT_FOUND);
    clicks.share(clicks.agent.id, true).await;
    assert_eq!(sorted().await, shown(&[]));
    // After the release, later events belong to the parent's owner; earlier ones don't.
    clicks.show(clicks.owner.id, true).await;
    let released = "UPDATE domains SET verified_at = '2025-12-01T00:00:00Z', released_at = '2026-02-01T00:00:00Z' WHERE domain = 'blog.example.com'";
    sqlx::query(released).execute(&clicks.app.stores.pool).await.unwrap();
    assert_eq!(sorted().await, shown(&[page]));
    clicks.app.insert(&[reported(clicks.agent.id, session, "content_cited", post).after(40 * 86_400_000)]).await;
    assert_eq!(sorted().await[2], json!([page, post]), "later events belong to the parent's owner");
}

#[tokio::test]
async fn shows_events_of_own_former_subdomains() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(3)).await;
    let post = "https://blog.example.com/1";
    let own = "INSERT INTO domains (organization_id, domain, site, verified_at, visible_from, released_at) \
               VALUES ($1, 'blog.example.com', 'com.example.blog', '2025-12-01T00:00:00Z', '2025-12-01T00:00:00Z', '2026-02-01T00:00:00Z')";
    sqlx::query(own).bind(clicks.owner.id.0).execute(&clicks.app.stores.pool).await.unwrap();
    clicks.app.insert(&[reported(clicks.agent.id, session, "content_cited", post)]).await;
    let token = clicks.token(session, PAGE).await;
    assert_eq!(urls_of(&clicks.manifest(&token).await)[2], json!([post]));
}

#[tokio::test]
async fn applies_the_strictest_turn_without_a_level() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(None).await;
    let agent = clicks.agent.id;
    clicks.app.insert(&[reported(agent, session, "content_cited", PAGE)]).await;
    let token = clicks.token(session, PAGE).await;
    let members = async || {
        let event = clicks.manifest(&token).await["events"][0].clone();
        let data: Vec<String> = event["data"].as_object().unwrap().keys().cloned().collect();
        (event.get("turn_id").is_some(), data)
    };
    let turn = |level: &str| Observation {
        extra: json!({"turn": {"privacy_level": level}}).to_string(),
        ..reported(agent, session, "turn_completed", "")
    };
    let (counts, all) = (vec!["excerpt_tokens".to_owned()], ["excerpt_tokens", "position", "scope"].map(str::to_owned).to_vec());
    assert_eq!(members().await, (false, counts.clone()));
    clicks.app.insert(&[turn("full")]).await;
    assert_eq!(members().await, (true, all.clone()));
    clicks.app.insert(&[turn("intent")]).await;
    assert_eq!(members().await, (true, all));
    clicks.app.insert(&[turn("minimal"), turn("full")]).await;
    assert_eq!(members().await, (false, counts));
}

#[tokio::test]
async fn ct13_responses_set_no_store_and_no_referrer() {
    let clicks = ClickFixture::start().await;
    let token = clicks.token(clicks.session(None).await, PAGE).await;
    for answer in [clicks.look_up(&token).await, clicks.look_up("ctx_unknown").await] {
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn does_not_log_tokens() {
    let clicks = ClickFixture::start().await;
    let (known, unknown) =
        (clicks.token(clicks.session(None).await, PAGE).await, PlainClickToken::generate().reveal().to_owned());
    let listen = free_address();
    let stores = &clicks.app.stores;
    let settings = [
        ("TELEMETRY_LISTEN", listen.to_string()),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
        ("TELEMETRY_LOG", "trace".to_owned()),
        ("DATABASE_URL", stores.postgres.database_url.clone()),
        ("CLICKHOUSE_URL", stores.clickhouse.clickhouse_url.clone()),
        ("TELEMETRY_CLICKHOUSE_DATABASE", stores.clickhouse.clickhouse_database.clone()),
    ];
    let process = TestProcess::service(&[], &settings);
    let ask = async |token: &str| {
        let request = client().get(format!("http://{listen}/ctx/{token}")).header("x-api-key", &clicks.network.key);
        request.send().await.ok().map(|response| response.status())
    };
    // The token's expiry comes from the manual clock. Extend it past today, because the process uses the system clock.
    let renewed = "UPDATE click_tokens SET expires_at = now() + interval '1 day'";
    sqlx::query(renewed).execute(&stores.pool).await.unwrap();
    let status = eventually("the process responds", || ask(&known)).await;
    assert_eq!((status, ask(&unknown).await), (StatusCode::OK, Some(StatusCode::NOT_FOUND)));
    let log = eventually("both are logged", || async {
        let log = process.stderr();
        (log.matches("/ctx/[redacted]").count() >= 2).then_some(log)
    })
    .await;
    for token in [known, unknown] {
        assert!(!log.contains(&token) && !log.contains(&token[4..]), "a token is in the log");
    }
}
