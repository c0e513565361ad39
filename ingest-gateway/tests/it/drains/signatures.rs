//! Tests of drains with a signing secret.

use crate::encodings::compress;
use crate::harness::{Gateway, TestApp, send_request};
use hmac::{Hmac, KeyInit, Mac};
use schemas::identity::{DrainProvider, OrgType};
use schemas::ids::DrainId;
use serde_json::json;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use sha1::Sha1;
use std::fmt::Write as _;

const LINES: &[u8] = include_bytes!("../../drains/vercel.ndjson");
const SECRET: &str = "a secret of the owner's own";

fn signed(body: &[u8], secret: &str) -> String {
    let mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body);
    mac.finalize().into_bytes().iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").unwrap();
        digits
    })
}

/// Creates a Vercel drain whose secret is encrypted with these settings' key.
async fn drain(gateway: &TestApp, secrets: &SecretsSettings) -> (DrainId, String) {
    let org = gateway.seed().org("network", OrgType::Platform).await.id;
    let (drain, key) = gateway.seed().drain(org, OrgType::Platform, DrainProvider::Vercel).await;
    let sealed = secrets.sealer().unwrap().seal(SECRET, drain.0.as_bytes()).unwrap();
    let keep = sqlx::query("UPDATE drains SET secret_sealed = $2 WHERE id = $1").bind(drain.0).bind(sealed);
    keep.execute(&gateway.stores.pool).await.unwrap();
    (drain, key)
}

async fn sent(gateway: &TestApp, key: &str, body: &[u8], signature: Option<&str>, encoding: &str) -> (u16, serde_json::Value) {
    let request = gateway.post_request("/drains/vercel", key).header("content-encoding", encoding).body(body.to_vec());
    let request = signature.into_iter().fold(request, |request, signature| request.header("x-vercel-signature", signature));
    let answer = send_request(request).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn drains_with_a_secret_accept_only_signed_bodies() {
    let secrets = SecretsSettings { secrets_key: Some(SecretsKey::generate()) };
    let gateway = Gateway::start_opening(secrets.clone()).await;
    let (_, key) = drain(&gateway, &secrets).await;
    let right = signed(LINES, SECRET);
    for wrong in [None, Some(""), Some(&*signed(LINES, "another")), Some(&*signed(&LINES[1..], SECRET)), Some(&right[1..])] {
        let (status, body) = sent(&gateway, &key, LINES, wrong, "identity").await;
        assert_eq!((status, &body["code"]), (403, &json!("forbidden")), "{wrong:?}");
    }
    let hours: i64 = sqlx::query_scalar("SELECT count(*) FROM drain_hours").fetch_one(&gateway.stores.pool).await.unwrap();
    assert_eq!(hours, 0, "rejected bodies are not stored");
    let (status, plain) = sent(&gateway, &key, LINES, Some(&right), "identity").await;
    assert_eq!(status, 200, "{plain}");
    assert!(plain["kept"].as_u64().unwrap() > 0, "{plain}");
    let gzip = compress("gzip", LINES);
    assert_eq!(sent(&gateway, &key, &gzip, Some(&right), "gzip").await.0, 403, "the signature covers the compressed bytes");
    assert_eq!(sent(&gateway, &key, &gzip, Some(&signed(&gzip, SECRET)), "gzip").await, (200, plain));
}

#[tokio::test]
async fn signed_bodies_have_their_own_limit() {
    const LIMIT: usize = 16 * 1024 * 1024;
    let secrets = SecretsSettings { secrets_key: Some(SecretsKey::generate()) };
    let gateway = Gateway::start_opening(secrets.clone()).await;
    let (drain, key) = drain(&gateway, &secrets).await;
    for (bytes, status) in [(LIMIT, 200), (LIMIT + 1, 413)] {
        let body = vec![b'\n'; bytes];
        assert_eq!(sent(&gateway, &key, &body, Some(&signed(&body, SECRET)), "identity").await.0, status, "{bytes}");
    }
    let forget = sqlx::query("UPDATE drains SET secret_sealed = NULL WHERE id = $1").bind(drain.0);
    forget.execute(&gateway.stores.pool).await.unwrap();
    service_kit::testing::eventually("the secret is forgotten", || async {
        (sent(&gateway, &key, LINES, None, "identity").await.0 == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn rejects_bodies_that_cannot_be_verified() {
    let secrets = SecretsSettings { secrets_key: Some(SecretsKey::generate()) };
    for other in [SecretsSettings::default(), SecretsSettings { secrets_key: Some(SecretsKey::generate()) }] {
        let gateway = Gateway::start_opening(other).await;
        let (_, key) = drain(&gateway, &secrets).await;
        let (status, body) = sent(&gateway, &key, LINES, Some(&signed(LINES, SECRET)), "identity").await;
        assert_eq!((status, &body["code"]), (503, &json!("unavailable")), "{body}");
        let open = gateway.seed().org("another", OrgType::Platform).await.key;
        assert_eq!(sent(&gateway, &open, LINES, None, "identity").await.0, 200, "a key without a drain has no secret");
    }
}
