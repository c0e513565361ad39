//! An OpenID Connect provider that returns what the test sets, signed with the client secret. It doesn't validate requests.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::PrivateSigningKey;
use openidconnect::core::{CoreHmacKey, CoreJwsSigningAlgorithm};
use serde_json::{Value, json};
use service_kit::testing::TestServer;
use std::sync::{Arc, Mutex};

pub(crate) const SECRET: &str = "a-client-secret-that-is-long-enough-for-hs256";

/// Claims in the next ID token.
#[derive(Clone)]
pub(crate) struct Claims {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) subject: String,
    pub(crate) nonce: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) email_verified: Option<bool>,
    pub(crate) expires_at: DateTime<Utc>,
    /// Additional claims, which replace the others. Null removes a claim.
    pub(crate) others: Value,
    pub(crate) key: String,
}

#[derive(Clone, Default)]
struct Script {
    token: Arc<Mutex<Value>>,
    /// Null if there is no userinfo endpoint.
    user_info: Arc<Mutex<Value>>,
    algorithms: Arc<Mutex<Vec<&'static str>>>,
    issuer: Arc<Mutex<String>>,
}

pub(crate) struct ForgedProvider {
    script: Script,
    server: TestServer,
}

impl ForgedProvider {
    pub(crate) async fn start() -> Self {
        let script = Script::default();
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/jwks", get(|| async { Json(json!({"keys": []})) }))
            .route("/token", post(async |State(script): State<Script>| Json(script.token.lock().unwrap().clone())))
            .route("/userinfo", get(async |State(script): State<Script>| Json(script.user_info.lock().unwrap().clone())))
            .with_state(script.clone());
        let server = TestServer::start(router).await;
        script.issuer.lock().unwrap().clone_from(&server.url);
        *script.algorithms.lock().unwrap() = vec!["HS256"];
        Self { script, server }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.server.url
    }

    /// Host and port, for `TELEMETRY_OIDC_ALLOW`.
    pub(crate) fn host(&self) -> &str {
        self.issuer().trim_start_matches("http://")
    }

    /// Sets the signing algorithms in its metadata.
    pub(crate) fn claims_to_sign_with(&self, algorithms: &[&'static str]) {
        *self.script.algorithms.lock().unwrap() = algorithms.to_vec();
    }

    /// Returns valid claims, for a test to modify.
    pub(crate) fn good(&self, subject: &str, email: &str, nonce: &str, now: DateTime<Utc>) -> Claims {
        Claims {
            issuer: self.issuer().to_owned(),
            audience: "telemetry".to_owned(),
            subject: subject.to_owned(),
            nonce: Some(nonce.to_owned()),
            email: Some(email.to_owned()),
            email_verified: Some(true),
            expires_at: now + TimeDelta::minutes(5),
            others: json!({}),
            key: SECRET.to_owned(),
        }
    }

    /// Returns these claims for the next code.
    pub(crate) fn will_say(&self, claims: &Claims, now: DateTime<Utc>) {
        let mut said = json!({
            "iss": claims.issuer, "aud": claims.audience, "sub": claims.subject, "nonce": claims.nonce, "email": claims.email,
            "email_verified": claims.email_verified, "exp": claims.expires_at.timestamp(), "iat": now.timestamp(),
        });
        let members = said.as_object_mut().unwrap();
        members.extend(claims.others.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let message = format!("{}.{}", encode(br#"{"alg":"HS256"}"#), encode(said.to_string().as_bytes()));
        let key = CoreHmacKey::new(claims.key.as_bytes());
        let signature = key.sign(&CoreJwsSigningAlgorithm::HmacSha256, message.as_bytes()).unwrap();
        let token = format!("{message}.{}", encode(&signature));
        self.will_hand_out(json!({"access_token": "x", "token_type": "Bearer", "id_token": token}));
    }

    /// Adds a userinfo endpoint that returns this.
    pub(crate) fn will_describe(&self, person: Value) {
        *self.script.user_info.lock().unwrap() = person;
    }

    /// Returns this response for the next code.
    pub(crate) fn will_hand_out(&self, answer: Value) {
        *self.script.token.lock().unwrap() = answer;
    }
}

async fn describe(State(script): State<Script>) -> Json<Value> {
    let issuer = script.issuer.lock().unwrap().clone();
    let user_info = Some(format!("{issuer}/userinfo")).filter(|_| !script.user_info.lock().unwrap().is_null());
    Json(json!({
        "issuer": issuer,
        "userinfo_endpoint": user_info,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": *script.algorithms.lock().unwrap(),
    }))
}
