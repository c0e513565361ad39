//! Signed, tampered, replayed, unsigned and forged reports, and the figures by their signatures, before and after a rebuild from the log.

use crate::pipeline::Pipeline;
use crate::rebuild::rebuilt;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::send_request;
use service_kit::testing::{Seed, SeededOrg, client};
use signatures::content_telemetry::{Signer, sign_request};
use signatures::{PrivateKey, Request};
use std::collections::BTreeMap;

struct Agent {
    org: SeededOrg,
    key: PrivateKey,
}

/// A change of a signed request: an idempotency key, a replacement in its body, or none of its signature headers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Retry,
    Idempotency(&'static str),
    Body,
    Unsigned,
    /// Signed with a key that the manifest doesn't list.
    Forged,
}

impl Agent {
    async fn send(&self, pipeline: &Pipeline, page: &str, nonce: &str, change: Change) {
        let mut body =
            json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "agent",
            "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "content_url": format!("https://a.example/{page}")}]})
            .to_string();
        let (url, forged) = (pipeline.gateway_url("/events"), PrivateKey::generate());
        let headers = [("content-type", "application/json")];
        let request = Request { method: "POST", target_uri: &url, headers: &headers };
        let key = if change == Change::Forged { &forged } else { &self.key };
        let created = Clock::System.now().timestamp();
        let signed = sign_request(&request, body.as_bytes(), &Signer { key, key_id: "k", created, nonce }).unwrap();
        if change == Change::Body {
            body = body.replace(page, &format!("{page}-2"));
        }
        let sends = if change == Change::Retry { 2 } else { 1 };
        for _ in 0..sends {
            let mut request = client().post(&url).header(headers[0].0, headers[0].1).header("x-api-key", &self.org.key);
            if change != Change::Unsigned {
                request = signed.iter().fold(request, |request, (name, value)| request.header(*name, value));
            }
            if let Change::Idempotency(key) = change {
                request = request.header("idempotency-key", key);
            }
            let response = send_request(request.body(body.clone())).await;
            assert_eq!(response.status, 201, "{page}: {}", response.body);
        }
    }
}

async fn figures(pipeline: &Pipeline, key: &str, split: &str) -> BTreeMap<String, u64> {
    let series: Value =
        serde_json::from_str(&pipeline.read(key, &format!("/content-owners/series?split={split}")).await).unwrap();
    let items = series["items"].as_array().unwrap().iter();
    items.fold(BTreeMap::new(), |mut figures, item| {
        *figures.entry(item[split].as_str().unwrap().to_owned()).or_default() += item["total_events"].as_u64().unwrap();
        figures
    })
}

fn counts<const N: usize>(of: [(&str, u64); N]) -> BTreeMap<String, u64> {
    of.map(|(name, count)| (name.to_owned(), count)).into()
}

async fn total(pipeline: &Pipeline, key: &str, filter: &str) -> u64 {
    let summary: Value = serde_json::from_str(&pipeline.read(key, &format!("/content-owners/summary?{filter}")).await).unwrap();
    summary["total_events"].as_u64().unwrap()
}

async fn check_figures(pipeline: &Pipeline, owner: &str) {
    let by_signature = counts([("valid", 2), ("invalid", 3), ("none", 1)]);
    assert_eq!(figures(pipeline, owner, "signature").await, by_signature);
    assert_eq!(figures(pipeline, owner, "evidence").await, counts([("claimed", 6), ("signed", 2)]));
    for (name, count) in by_signature {
        assert_eq!(total(pipeline, owner, &format!("signature={name}")).await, count, "{name}");
    }
    assert_eq!(total(pipeline, owner, "evidence=signed").await, 2);
    assert_eq!(total(pipeline, owner, "evidence=claimed&signature=invalid").await, 3);
    let events: Value = serde_json::from_str(&pipeline.read(owner, "/content-owners/events").await).unwrap();
    let mut reasons = BTreeMap::new();
    for event in events["items"].as_array().unwrap() {
        let path = format!("/content-owners/events/{}", event["event_id"].as_str().unwrap());
        let one: Value = serde_json::from_str(&pipeline.read(owner, &path).await).unwrap();
        let report = &one["reports"][0];
        let result = [&report["signature"], &report["signature_reason"]].map(|text| text.as_str().unwrap());
        assert_eq!(
            report["signature_proof"].is_object(),
            ["valid", "replayed", "bad_signature"].contains(&result[usize::from(result[0] == "invalid")])
        );
        *reasons.entry(result.join(" ").trim_end().to_owned()).or_insert(0) += 1;
    }
    let expected =
        [("valid", 2), ("invalid replayed", 1), ("invalid digest_mismatch", 1), ("invalid bad_signature", 1), ("none", 1)];
    assert_eq!(reasons, counts(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_by_signature_survive_a_rebuild() {
    let pipeline = Pipeline::start().await;
    let seed = Seed(&pipeline.stores.pool);
    let (owner, org, key) = (seed.owner_of("a.example").await, seed.org("agent", OrgType::Agent).await, PrivateKey::generate());
    seed.list_key(org.id, "k", &key.public().thumbprint(), key.public().as_bytes()).await;
    let agent = Agent { org, key };
    for (page, nonce, change) in [
        ("valid", "nonce of the valid one", Change::Nothing),
        ("retried", "nonce of the retried one", Change::Retry),
        // The same signed request as another report, because signatures don't cover the idempotency key.
        ("valid", "nonce of the valid one", Change::Idempotency("another")),
        ("tampered", "nonce of the tampered", Change::Body),
        ("unsigned", "nonce of the unsigned", Change::Unsigned),
        ("forged", "nonce of the forged one", Change::Forged),
    ] {
        agent.send(&pipeline, page, nonce, change).await;
    }
    pipeline.run_worker_until_idle().await;
    check_figures(&pipeline, &owner.key).await;

    // Keys and nonces are not checked again.
    for statement in ["DELETE FROM used_nonces", "UPDATE manifest_keys SET ended_at = first_seen"] {
        sqlx::query(statement).execute(&pipeline.stores.pool).await.unwrap();
    }
    check_figures(&rebuilt(&pipeline, 0).await, &owner.key).await;
}
