//! An owner of several hosts sees a click's agent if the token's link leads to one of its own hosts; other owners don't
//! (docs/api/click-tokens.md#what-a-token-shows).

use crate::click_fixture::ClickFixture;
use crate::test_app::{NEW_YEAR_MS, Observation, fetch_on};
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::testing::SeededOrg;
use uuid::Uuid;

/// Stored code for a URL on another host than the token's link.
const OTHER: i8 = 3;

/// Returns a click on `host` with a token whose link leads to `link`. The link has no host if it can't be verified.
fn clicked(clicks: &ClickFixture, session: Uuid, key: u128, host: &str, link: &str) -> Observation {
    let link_site = Site::from_domain(link).map(|site| site.as_str().to_owned()).unwrap_or_default();
    let row = fetch_on(host, key)
        .by_org(clicks.network.id)
        .bound(clicks.agent.id, OTHER)
        .agent("secret-agent")
        .named("content_engaged");
    Observation { session_id: session, link_site, ..row.id(&key.to_string()) }.after(i64::try_from(key).unwrap())
}

/// Returns the keys of the events whose agent the owner sees. Checks that all others show their reporter.
async fn events_with_visible_agent(clicks: &ClickFixture, owner: &SeededOrg, query: &[(&str, &str)]) -> Vec<u128> {
    let (agent, network) = (clicks.agent.id.to_string(), clicks.network.id.to_string());
    let page = clicks.app.page(&owner.key, "/content-owners/events", query).await;
    let is_told = |item: &Value| {
        let whose = json!([item["platform_id"], item["agent_id"], item["session_id"] != ""]);
        assert!([json!([agent, "secret-agent", true]), json!([network, "", false])].contains(&whose), "{item}");
        item["session_id"] != ""
    };
    let told = page["items"].as_array().unwrap().iter().filter(|item| is_told(item));
    let mut keys: Vec<u128> = told.map(|item| item["event_id"].as_str().unwrap().parse().unwrap()).collect();
    keys.sort_unstable();
    let summary = clicks.app.summary(&owner.key, query).await;
    assert_eq!(summary.total_sessions, keys.len() as u64, "{query:?}: {summary:?}");
    let of_agent = summary.agents.iter().filter(|of| of.agent_id == "secret-agent").map(|of| of.event_count).sum::<u64>();
    assert_eq!(of_agent, keys.len() as u64, "{query:?}: {summary:?}");
    keys
}

#[tokio::test]
async fn owners_see_agents_of_clicks_between_their_own_hosts() {
    let clicks = ClickFixture::start().await;
    for host in ["shop.test", "deep.elsewhere.test"] {
        clicks.app.seed().verify(clicks.owner.id, host).await;
    }
    let other = clicks.app.seed().owner_of("elsewhere.test").await;
    clicks.app.seed().verify(other.id, "b.shop.test").await;
    let links = [
        (1, "shop.test", "example.com"),
        (2, "shop.test", "news.example.com"),
        (3, "example.com", "shop.test"),
        // Links to another owner's host below or above one of the owner's hosts, to unverified hosts, and to a host with a similar name.
        (4, "shop.test", "b.shop.test"),
        (5, "shop.test", "a.b.shop.test"),
        (6, "shop.test", "elsewhere.test"),
        (7, "shop.test", "nobody.test"),
        (8, "shop.test", "127.0.0.1"),
        (9, "shop.test", "notexample.com"),
        // A link to an own host below another owner's.
        (10, "shop.test", "x.deep.elsewhere.test"),
        // Clicks on another owner's host.
        (11, "elsewhere.test", "example.com"),
        (12, "b.shop.test", "shop.test"),
    ];
    let rows: Vec<_> = links.iter().map(|(key, host, link)| clicked(&clicks, Uuid::from_u128(*key), *key, host, link)).collect();
    clicks.app.insert(&rows[..7]).await;
    clicks.app.merge().await;
    clicks.app.insert(&rows[7..]).await;
    for _ in 0..2 {
        assert_eq!(events_with_visible_agent(&clicks, &clicks.owner, &[]).await, [1, 2, 3, 10]);
        assert_eq!(
            events_with_visible_agent(&clicks, &clicks.owner, &[("domain", "shop.test")]).await,
            [1, 2, 10],
            "all hosts of the owner count"
        );
        assert!(events_with_visible_agent(&clicks, &other, &[]).await.is_empty(), "the event's host doesn't count");
        clicks.app.merge().await;
    }
}

#[tokio::test]
async fn hides_agents_of_clicks_before_ownership() {
    let clicks = ClickFixture::start().await;
    clicks.app.seed().verify(clicks.owner.id, "shop.test").await;
    let from = chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + 10).unwrap();
    let took_over = sqlx::query("UPDATE domains SET visible_from = $1 WHERE domain = 'shop.test'").bind(from);
    took_over.execute(&clicks.app.stores.pool).await.unwrap();
    let rows = [9, 10].map(|key| clicked(&clicks, Uuid::from_u128(key), key, "example.com", "shop.test"));
    clicks.app.insert(&rows).await;
    for _ in 0..2 {
        assert_eq!(events_with_visible_agent(&clicks, &clicks.owner, &[]).await, [10]);
        assert_eq!(events_with_visible_agent(&clicks, &clicks.owner, &[("domain", "example.com")]).await, [10]);
        clicks.app.merge().await;
    }
}
