//! Start and end of accounts.

use super::{Accounts, Analyst, AnalystFixture, as_upkeep, cast, owners, single, theirs};
use query_api::analysts::SyncResult;
use reqwest::StatusCode;
use service_kit::roles::Role;
use service_kit::testing::{TestProcess, eventually, free_address};

const COUNT: &str = "SELECT count() FROM events";

/// Returns whether the statement fails because the account's permissions have expired.
async fn is_unchecked(analyst: &Analyst, statement: &str) -> bool {
    analyst.refusal("", statement).await.contains("was not checked lately")
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_removed_in_the_round_after_revocation() {
    let mut world = AnalystFixture::start().await;
    let Accounts { owner, other, partner, analyst, others, partners } = cast(&world).await;
    let without = world.account(4, partner.id, Some(other.id)).await;
    world.app.insert(&theirs()).await;
    world.settle().await;
    let own = analyst.number(COUNT).await;
    assert!(own > 0 && others.number(COUNT).await > 0);
    assert_eq!(partners.number(COUNT).await, own);
    assert!(without.refusal("", "SELECT 1").await.contains("AUTHENTICATION_FAILED"), "it has no delegation");
    assert_eq!(world.round().await, SyncResult { live: 3, ..SyncResult::default() }, "a round without changes stores nothing");

    world.sql("UPDATE delegations SET revoked_at = now() WHERE grantee_org_id = $1", partner.id.0).await;
    assert_eq!(world.round().await, SyncResult { live: 2, stored: 1, users_changed: true });
    assert!(is_unchecked(&partners, COUNT).await);
    assert_eq!(analyst.number(COUNT).await, own);

    world.sql("UPDATE analyst_accounts SET revoked_at = now() WHERE organization_id = $1", other.id.0).await;
    assert_eq!(world.round().await, SyncResult { live: 1, stored: 1, users_changed: true });
    assert!(is_unchecked(&others, COUNT).await);

    world.sql("UPDATE domains SET released_at = now() WHERE organization_id = $1", owner.id.0).await;
    assert_eq!(world.round().await, SyncResult { live: 1, stored: 1, users_changed: false });
    assert_eq!(analyst.number(COUNT).await, 0);
    world.read_users().await;
    for ended in [&partners, &others] {
        assert!(ended.refusal("", "SELECT 1").await.contains("AUTHENTICATION_FAILED"));
    }

    world.app.seed().verify(owner.id, "a.test").await;
    world.app.seed().delegate(owner.id, partner.id).await;
    world.settle().await;
    assert_eq!(partners.number(COUNT).await, analyst.number(COUNT).await, "the account returns with its delegation");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_accounts_fail_instead_of_returning_less() {
    let (world, _, analyst) = single().await;
    let left = "SELECT dateDiff('second', now64(3), until) FROM analyst_access FINAL";
    let left = world.app.clickhouse().query(left).fetch_one::<i64>().await.unwrap();
    assert!((1..=120).contains(&left), "{left}");
    let end = "INSERT INTO analyst_access SELECT login, hosts, visible_from_ms, now64(3), now64(3) - toIntervalSecond(1) FROM analyst_access FINAL";
    for with_events in [false, true] {
        if with_events {
            world.app.insert(&theirs()).await;
        }
        for change in [end, "TRUNCATE TABLE analyst_access"] {
            world.app.command(change).await;
            for view in ["events", "reports"] {
                for statement in [format!("SELECT count() FROM {view}"), format!("SELECT at FROM {view} LIMIT 1")] {
                    assert!(is_unchecked(&analyst, &statement).await, "{statement}");
                }
            }
            assert_eq!(world.round().await, SyncResult { live: 1, stored: 1, users_changed: false });
            assert_eq!(analyst.number(COUNT).await > 0, with_events);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn process_creates_and_removes_accounts() {
    let mut world = AnalystFixture::start().await;
    let (owner, _) = owners(&world).await;
    let analyst = world.account(1, owner.id, None).await;
    world.app.insert(&theirs()).await;
    let stores = world.app.stores.signed_in_as(Role::Query);
    let settings = [
        ("DATABASE_URL", stores.postgres.database_url.clone()),
        ("CLICKHOUSE_URL", as_upkeep(&world.settings.clickhouse_url)),
        ("TELEMETRY_ANALYST_USERS", world.users_file().display().to_string()),
        ("TELEMETRY_ANALYST_EVERY", "1".to_owned()),
        ("TELEMETRY_LISTEN", free_address().to_string()),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
    ];
    let mut process = TestProcess::service(&["analysts"], &settings);
    let file = world.users_file();
    eventually("the users file exists", async || file.exists().then_some(())).await;
    world.read_users().await;
    let found = eventually("the account can read", async || {
        let (status, text) = analyst.ask_with("", COUNT).await;
        (status == StatusCode::OK).then_some(text)
    })
    .await;
    assert_eq!(found.trim_end().parse::<u64>().unwrap(), world.app.total(&owner.key, &[]).await);
    world.sql("UPDATE analyst_accounts SET revoked_at = now() WHERE organization_id = $1", owner.id.0).await;
    eventually("the account has ended", async || (analyst.ask_with("", COUNT).await.0 != StatusCode::OK).then_some(())).await;
    assert_eq!(TestProcess::service(&["health"], &settings).exit_code().await, Some(0));
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
}
