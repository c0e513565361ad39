//! ID tokens that their provider didn't sign for this sign-in, and keys that a provider rotates.

use super::provider::Providers;
use super::tokens::{InvalidToken, Verifier};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::core::{CoreHmacKey, CoreJwsSigningAlgorithm, CoreProviderMetadata};
use openidconnect::{
    AccessToken, AuthorizationCode, ClientId, ClientSecret, JsonWebKeySet, Nonce, PkceCodeVerifier, PrivateSigningKey,
};
use p256::ecdsa::SigningKey;
use p256::ecdsa::signature::Signer as _;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::settings::{SecretSetting, WebhookSettings};
use service_kit::testing::TestServer;
use std::sync::{Arc, Mutex};
use url::Url;

const SECRET: &str = "a-client-secret-that-is-long-enough-for-hs256";
/// Access token and its `at_hash` from OpenID Connect Core 1.0, appendix A.3, and the one of SHA-512.
const ACCESS: &str = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";
const AT_HASH: &str = "77QmUPtjPfzWtF2AnpK9RQ";
const AT_HASH_OF_ED25519: &str = "q7nS86GgvvFaZkzALLWqJYaJIKw2wCDAVfCAsm5CrBM";
const NOW: i64 = 1_800_000_000;
const RSA_MODULUS: [u8; 256] = [0xc5; 256];

fn ec(seed: u8) -> SigningKey {
    SigningKey::from_slice(&[seed; 32]).unwrap()
}

fn ed() -> ed25519_dalek::SigningKey {
    ed25519_dalek::SigningKey::from_bytes(&[3; 32])
}

fn point(key: &SigningKey) -> Vec<u8> {
    key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
}

fn public(kid: &str, key: &SigningKey) -> Value {
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point(key)[1..33]), URL_SAFE_NO_PAD.encode(&point(key)[33..]));
    json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, "x": x, "y": y})
}

fn with_ec(seed: u8) -> impl Fn(&[u8]) -> Vec<u8> {
    move |message| {
        let signature: p256::ecdsa::Signature = ec(seed).sign(message);
        signature.to_bytes().to_vec()
    }
}

fn with_hmac(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> + use<> {
    let key = CoreHmacKey::new(secret);
    move |message| key.sign(&CoreJwsSigningAlgorithm::HmacSha256, message).unwrap()
}

/// Returns `value` with the members of `changes`; null removes one.
fn changed(mut value: Value, changes: &Value) -> Value {
    let members = value.as_object_mut().unwrap();
    members.extend(changes.as_object().unwrap().clone());
    members.retain(|_, value| !value.is_null());
    value
}

fn jwt(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn claims(issuer: &str, changes: &Value) -> Value {
    let good = json!({"iss": issuer, "aud": "c", "sub": "jane", "nonce": "n", "iat": NOW, "exp": NOW + 300,
        "email": "jane@example.com", "email_verified": true});
    changed(good, changes)
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/jwks"), "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "response_types_supported": ["code"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["none", "HS256", "RS256", "ES256", "ES384", "EdDSA"],
    })
}

/// Verifies a token at a provider with a key of each type.
fn verify(token: &str, secret: Option<&str>) -> Result<(), InvalidToken> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let keys = json!({"keys": [
        public("ec", &ec(1)),
        changed(public("encryption", &ec(2)), &json!({"use": "enc"})),
        changed(public("other-alg", &ec(4)), &json!({"alg": "ES384"})),
        {"kty": "RSA", "use": "sig", "kid": "rsa", "n": encode(&RSA_MODULUS), "e": "AQAB"},
        {"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "ed", "x": encode(ed().verifying_key().as_bytes())},
    ]});
    let keys: JsonWebKeySet<_> = serde_json::from_value(keys).unwrap();
    let metadata: CoreProviderMetadata = serde_json::from_value(metadata("https://id.example.com")).unwrap();
    let (metadata, secret) = (metadata.set_jwks(keys), secret.map(|secret| ClientSecret::new(secret.to_owned())));
    let (client_id, now) = (ClientId::new("c".to_owned()), DateTime::from_timestamp(NOW, 0).unwrap());
    let verifier = Verifier { metadata: &metadata, client_id: &client_id, client_secret: secret.as_ref(), now };
    verifier.id_token(token, &AccessToken::new(ACCESS.to_owned()), &Nonce::new("n".to_owned())).map(drop)
}

fn good() -> Value {
    claims("https://id.example.com", &json!({}))
}

#[test]
fn checks_times_nonce_and_access_token() {
    for (changes, is_accepted) in [
        (json!({}), true),
        (json!({"at_hash": AT_HASH}), true),
        (json!({"at_hash": "77QmUPtjPfzWtF2AnpK9RR"}), false),
        (json!({"at_hash": AT_HASH_OF_ED25519}), false),
        (json!({"at_hash": ""}), false),
        (json!({"at_hash": 7}), false),
        (json!({"nonce": null}), false),
        (json!({"nonce": ""}), false),
        (json!({"nonce": "N"}), false),
        (json!({"nonce": "n "}), false),
        (json!({"nonce": ["n"]}), false),
        (json!({"exp": NOW + 1}), true),
        (json!({"exp": NOW as f64 + 0.5}), true),
        (json!({"exp": NOW}), false),
        (json!({"exp": NOW - 1}), false),
        (json!({"exp": -1}), false),
        (json!({"exp": (NOW + 300).to_string()}), false),
        (json!({"exp": null}), false),
        (json!({"iat": NOW + 60}), true),
        (json!({"iat": NOW + 61}), false),
        (json!({"iat": null}), false),
        (json!({"nbf": NOW + 60}), true),
        (json!({"nbf": NOW + 61}), false),
        (json!({"nbf": NOW - 86_400, "iat": NOW - 86_400}), true),
    ] {
        let token = jwt(&json!({"alg": "ES256", "kid": "ec"}), &changed(good(), &changes), with_ec(1));
        let verified = verify(&token, Some(SECRET));
        assert_eq!(verified.is_ok(), is_accepted, "{changes}: {verified:?}");
    }
    let with_ed = |message: &[u8]| ed25519_dalek::Signer::sign(&ed(), message).to_bytes().to_vec();
    for (at_hash, is_accepted) in [(AT_HASH_OF_ED25519, true), (AT_HASH, false)] {
        let token = jwt(&json!({"alg": "EdDSA", "kid": "ed"}), &changed(good(), &json!({"at_hash": at_hash})), with_ed);
        assert_eq!(verify(&token, Some(SECRET)).is_ok(), is_accepted, "{at_hash}");
    }
}

#[test]
fn accepts_only_signatures_with_the_right_key_and_algorithm() {
    type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;
    let unsigned = || -> Sign { Box::new(|_| Vec::new()) };
    let hmac = |secret: &[u8]| -> Sign { Box::new(with_hmac(secret)) };
    let ec_of = |seed: u8| -> Sign { Box::new(with_ec(seed)) };
    let der: Sign = Box::new(|message| {
        let signature: p256::ecdsa::Signature = ec(1).sign(message);
        signature.to_der().as_bytes().to_vec()
    });
    let cases: [(Value, Sign, bool); 28] = [
        (json!({"alg": "ES256", "kid": "ec"}), ec_of(1), true),
        (json!({"alg": "ES256", "typ": "JWT"}), ec_of(1), true),
        (json!({"alg": "HS256"}), hmac(SECRET.as_bytes()), true),
        (json!({"alg": "none"}), unsigned(), false),
        (json!({"alg": "none", "kid": "ec"}), unsigned(), false),
        (json!({"alg": "None"}), unsigned(), false),
        (json!({"alg": "none", "kid": "ec"}), ec_of(1), false),
        (json!({"kid": "ec"}), ec_of(1), false),
        (json!({"alg": "HS256", "kid": "ec"}), hmac(&point(&ec(1))), false),
        (json!({"alg": "HS256", "kid": "ec"}), hmac(public("ec", &ec(1)).to_string().as_bytes()), false),
        (json!({"alg": "HS256", "kid": "rsa"}), hmac(&RSA_MODULUS), false),
        (json!({"alg": "HS256"}), hmac(b""), false),
        (json!({"alg": "HS256"}), unsigned(), false),
        (json!({"alg": "RS256", "kid": "ec"}), ec_of(1), false),
        (json!({"alg": "RS256", "kid": "rsa"}), ec_of(1), false),
        (json!({"alg": "RS256"}), ec_of(1), false),
        (json!({"alg": "ES256", "kid": "rsa"}), ec_of(1), false),
        (json!({"alg": "ES256", "kid": "ed"}), ec_of(1), false),
        (json!({"alg": "ES384", "kid": "ec"}), ec_of(1), false),
        (json!({"alg": "EdDSA", "kid": "ec"}), ec_of(1), false),
        (json!({"alg": "ES256", "kid": "ec"}), ec_of(9), false),
        (json!({"alg": "ES256", "kid": "ec"}), unsigned(), false),
        (json!({"alg": "ES256", "kid": "ec"}), der, false),
        (json!({"alg": "ES256", "kid": "encryption"}), ec_of(2), false),
        (json!({"alg": "ES256", "kid": "other-alg"}), ec_of(4), false),
        (json!({"alg": "ES256", "jwk": public("ec", &ec(9))}), ec_of(9), false),
        (json!({"alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": true}), ec_of(1), false),
        (json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}), ec_of(1), false),
    ];
    for (header, sign, is_accepted) in cases {
        let verified = verify(&jwt(&header, &good(), sign), Some(SECRET));
        assert_eq!(verified.is_ok(), is_accepted, "{header}: {verified:?}");
    }
    for secret in [SECRET, ""] {
        assert!(verify(&jwt(&json!({"alg": "HS256"}), &good(), with_hmac(secret.as_bytes())), None).is_err(), "{secret}");
    }
}

/// Returns a provider whose server has these keys and this token response; counts requests for keys.
async fn rotating(keys: &Arc<Mutex<(Value, usize)>>, token: &Arc<Mutex<String>>) -> (Providers, String, TestServer) {
    let issuer: Arc<Mutex<String>> = Arc::default();
    let (described, keys, token) = (Arc::clone(&issuer), Arc::clone(keys), Arc::clone(token));
    let listed = move || {
        let mut keys = keys.lock().unwrap();
        keys.1 += 1;
        std::future::ready(Json(json!({"keys": keys.0})))
    };
    let tokens = move || {
        let tokens = json!({"access_token": ACCESS, "token_type": "Bearer", "id_token": *token.lock().unwrap()});
        std::future::ready(Json(tokens))
    };
    let router = Router::new()
        .route("/.well-known/openid-configuration", get(move || std::future::ready(Json(metadata(&described.lock().unwrap())))))
        .route("/jwks", get(listed))
        .route("/token", post(tokens));
    let server = TestServer::start(router).await;
    issuer.lock().unwrap().clone_from(&server.url);
    let written = json!([{"id": "id", "issuer": server.url, "client_id": "c", "client_secret": SECRET}]);
    let allowed = server.url.trim_start_matches("http://").parse().unwrap();
    let egress = Egress::new(&WebhookSettings::default()).unwrap().for_operators(allowed);
    let written = SecretSetting::from(written.to_string());
    let public_url = Url::parse("https://telemetry.example.com").unwrap();
    (Providers::parse(Some(&written), &public_url, &egress).unwrap(), server.url.clone(), server)
}

#[tokio::test]
async fn fetches_rotated_keys_once_and_rejects_removed_ones() {
    let (keys, token) = (Arc::new(Mutex::new((json!([]), 0))), Arc::default());
    let (providers, issuer, _server) = rotating(&keys, &token).await;
    let clock = Clock::manual(DateTime::<Utc>::from_timestamp(NOW, 0).unwrap());
    // The provider's key, seed and kid of the token's key, minutes since the previous sign-in; requests for keys, and the outcome.
    for (listed, (seed, kid), minutes, fetches, is_accepted) in [
        (1, (1, Some("1")), 0, 1, true),
        (1, (1, Some("1")), 0, 0, true),
        (2, (2, Some("2")), 0, 1, true),
        (2, (1, Some("1")), 0, 1, false),
        (2, (1, Some("2")), 0, 0, false),
        (2, (7, Some("7")), 0, 1, false),
        (3, (3, None), 0, 1, true),
        (3, (3, None), 0, 0, true),
        (3, (1, None), 0, 1, false),
        (4, (3, Some("3")), 4, 0, true),
        (4, (3, Some("3")), 1, 2, false),
    ] {
        clock.advance(TimeDelta::minutes(minutes));
        *keys.lock().unwrap() = (json!([public(&listed.to_string(), &ec(listed))]), 0);
        let header = changed(json!({"alg": "ES256"}), &json!({"kid": kid}));
        *token.lock().unwrap() = jwt(&header, &claims(&issuer, &json!({"exp": NOW + 3_600})), with_ec(seed));
        let (code, verifier) = (AuthorizationCode::new("c".to_owned()), PkceCodeVerifier::new("v".repeat(43)));
        let provider = providers.find("id").unwrap();
        let verified = provider.verify_code(code, verifier, &Nonce::new("n".to_owned()), &clock).await;
        let seen = (verified.is_ok(), keys.lock().unwrap().1);
        assert_eq!(seen, (is_accepted, fetches), "{listed} {seed} {kid:?}: {:?}", verified.err());
    }
}
