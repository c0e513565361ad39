//! The queries in docs/operating/analytics.md, and those of the analysts' dashboard.

use super::figures::reports;
use super::single;
use rand::SeedableRng as _;
use service_kit::testing::random_seed;

const DOCUMENT: &str = include_str!("../../../../docs/operating/analytics.md");

fn queries() -> Vec<&'static str> {
    DOCUMENT.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap().trim()).collect()
}

const DASHBOARD: &str = include_str!("../../../../infra/observability/grafana/analyst-dashboard.json");

/// Returns the dashboard's statements for all of 2026, with Grafana's variables filled.
fn panels() -> Vec<String> {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let window = |sql: &str| sql.replace("$__fromTime", "'2026-01-01'").replace("$__toTime", "'2027-01-01'");
    panels.map(|panel| window(panel["targets"][0]["rawSql"].as_str().unwrap())).collect()
}

fn sum(rows: &str, column: usize) -> u64 {
    rows.lines().map(|row| row.split('\t').nth(column).unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_queries_return_the_api_figures() {
    let (world, owner, analyst) = single().await;
    let mut random = rand::rngs::StdRng::seed_from_u64(random_seed());
    world.app.insert(&reports(&mut random)).await;
    world.app.insert(&reports(&mut random)).await;
    let queries = queries();
    assert_eq!(queries.len(), 10);
    let mut answers = Vec::new();
    for query in queries {
        let answer = analyst.ask(query).await;
        assert!(!answer.is_empty(), "{query}");
        answers.push(answer);
    }
    let summary = world.app.summary(&owner.key, &[]).await;
    let by_source: u64 = summary.events_by_source.iter().map(|of| of.count).sum();
    let retrieved = summary.events_by_type.iter().find(|of| of.event_type == "content_retrieved").unwrap().count;
    // By type, page, agent, week, role, observer, day, first day, section and report role.
    assert_eq!(sum(&answers[0], 1), summary.total_events);
    assert_eq!(sum(&answers[1], 1), summary.total_events, "there are at most twenty pages");
    assert_eq!(sum(&answers[2], 2), retrieved);
    assert_eq!(sum(&answers[3], 1), retrieved);
    assert_eq!(sum(&answers[4], 1), by_source);
    let fetches = world.app.summary(&owner.key, &[("outcome", "fetch")]).await.total_events;
    assert_eq!((1..=4).map(|column| sum(&answers[5], column)).sum::<u64>(), fetches);
    assert_eq!(sum(&answers[6], 1), summary.total_events);
    assert_eq!(sum(&answers[8], 2), summary.total_events);
    let with_role: Vec<&str> = answers[9].lines().filter(|row| !row.starts_with('\t')).collect();
    assert_eq!(sum(&with_role.join("\n"), 2), by_source);
    let mut panels = panels().into_iter();
    let per_day = analyst.ask(&panels.next().unwrap()).await;
    assert_eq!(sum(&per_day, 2), summary.total_events, "all events are of 2026");
    for panel in panels {
        assert!(!analyst.ask(&panel).await.is_empty(), "{panel}");
    }
}
