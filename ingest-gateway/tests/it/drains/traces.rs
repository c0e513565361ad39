//! D4: what is of people leaves no trace, nor does anybody's address.

use super::{BOT, delivery, line};
use crate::harness::{Gateway, answer};
use schemas::identity::OrgType;
use service_kit::testing::size;

/// Every text in the tables that a drain writes.
const TABLES: &str = "SELECT t::text FROM drain_hours t UNION ALL SELECT t::text FROM drain_bad_lines t";
/// In every planted user agent.
const PLANTED: &str = "Zaphod";

/// An address that nobody else has.
fn address(n: usize) -> String {
    format!("2001:db8:dead:{:x}:{:x}::{:x}", n >> 16, n & 0xffff, 0xbeef)
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_planted_addresses_and_user_agents_are_nowhere() {
    let planted = size("PLANTED", 10_000);
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let person = |n: usize| line("a.test", "/", &format!("Mozilla/5.0 {PLANTED}/{n}"), &address(n), &format!("person-{n}"));
    let bot = |n: usize| line("a.test", "/", BOT, &address(n), &format!("bot-{n}"));
    let lines: Vec<String> = (0..planted).map(|n| if n % 50 == 0 { bot(n) } else { person(n) }).collect();
    let taken = gateway.drain("cloudflare", &key, lines.join("\n")).await;
    assert_eq!((taken.status, taken.body["kept"].as_u64()), (200, Some(planted.div_ceil(50) as u64)), "{}", taken.body);
    // Lines that cannot be read say them too, wherever they stand.
    let bad: Vec<String> = (0..20).map(|n| format!("{} {PLANTED} {}", address(n), person(n))).collect();
    for (provider, body) in [
        ("ndjson", bad.join("\n").into_bytes()),
        ("combined", bad.join("\n").into_bytes()),
        ("akamai", bad.join("\n").into_bytes()),
        ("vercel", bad.join("\n").into_bytes()),
        ("firehose", delivery(PLANTED, &[bad.join("\n").as_bytes()])),
    ] {
        let told = answer(
            gateway.request_to(&format!("/drains/{provider}"), Some(&key)).header("x-amz-firehose-request-id", "1").body(body),
        )
        .await;
        assert_eq!(told.status, 200, "{provider}: {}", told.body);
        assert!(!told.body.to_string().contains("dead"), "{provider}: {}", told.body);
    }
    let records = gateway.record_texts(usize::try_from(gateway.record_count()).unwrap()).await;
    let rows: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&gateway.stores.pool).await.unwrap();
    assert!(!records.is_empty() && rows.len() > 10, "{} {}", records.len(), rows.len());
    for text in records.iter().chain(&rows) {
        for trace in [PLANTED, "2001:db8", "db8:dead"] {
            assert!(!text.contains(trace), "{trace} in {}", &text[..text.len().min(2_000)]);
        }
    }
}
