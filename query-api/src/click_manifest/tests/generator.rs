//! A hostile reporter's sessions, with the session id and prose in every member.

use super::super::{CITED, GROUNDED, PRESENTED};
use crate::access::consent::ClickedSession;
use crate::access::session_scope::SessionScope;
use crate::click_manifest::id_encodings::planted;
use crate::reads::SessionEvent;
use chrono::DateTime;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use schemas::ids::{OrgId, SessionId};
use schemas::session::PrivacyLevel;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(super) const TYPES: [&str; 12] = [
    GROUNDED,
    CITED,
    PRESENTED,
    GROUNDED,
    CITED,
    PRESENTED,
    "content_retrieved",
    "content_engaged",
    "turn_started",
    "turn_completed",
    "checkout_completed",
    "com.example.shared",
];
/// The owner consents for the first two.
pub(super) const SITES: [&str; 4] = ["com.example.www", "org.example", "com.hidden", ""];
/// Standard members, and others that reporters send.
pub(super) const NAMES: [&str; 30] = [
    "scope",
    "cached",
    "citation_type",
    "position",
    "presentation_kind",
    "presentation_type",
    "query_tokens",
    "response_tokens",
    "tokens_ingested",
    "excerpt_tokens",
    "chars_ingested",
    "excerpt_chars",
    "excerpt_hash",
    "content_hash",
    "url_verified",
    "media_type",
    "provenance",
    "query_text",
    "response_text",
    "query_intent",
    "topics",
    "model_id",
    "ad_rendered",
    "turn",
    "engagement_type",
    "session_id",
    "external_session_id",
    "Scope",
    "turn_id",
    "position ",
];
pub(super) const SECRET: &str = "planted prose";

pub(super) struct Generator {
    pub(super) random: StdRng,
    pub(super) session: SessionId,
    pub(super) spelt: Vec<String>,
}

impl Generator {
    pub(super) fn new(random: StdRng) -> Self {
        let mut generator = Self { random, session: SessionId(Uuid::nil()), spelt: Vec::new() };
        generator.session = SessionId(Uuid::from_u128(generator.random.random()));
        generator.spelt = planted(generator.session).into_iter().map(|(_, spelt)| spelt).collect();
        generator
    }

    /// Returns a value for a reference or a URL, which is shown unless it contains the id.
    fn reference(&mut self) -> String {
        let spelt = self.spelt.choose(&mut self.random).unwrap().clone();
        match self.random.random_range(0..6) {
            0 => spelt,
            1 => format!("before-{spelt}-after"),
            2 => String::new(),
            _ => ["primary", "direct_quote", "session", "r-1", "card"].choose(&mut self.random).unwrap().to_string(),
        }
    }

    fn text(&mut self) -> String {
        match self.random.random_range(0..12) {
            0 | 1 => SECRET.to_owned(),
            // Longer than every standard keyword.
            2 => "word".repeat(17),
            _ => self.reference(),
        }
    }

    fn value(&mut self) -> Value {
        match self.random.random_range(0..8) {
            0 => json!(self.random.random::<u32>()),
            1 => json!(self.random.random::<bool>()),
            2 => json!({"query_text": SECRET, "id": self.text()}),
            3 => json!([self.text(), SECRET]),
            4 => json!(-1.5),
            _ => json!(self.text()),
        }
    }

    pub(super) fn event(&mut self) -> SessionEvent {
        let event_type = (*TYPES.choose(&mut self.random).unwrap()).to_owned();
        let site = *SITES.choose(&mut self.random).unwrap();
        let host = site.split('.').rev().collect::<Vec<_>>().join(".");
        let url = match self.random.random_range(0..10) {
            0 => String::new(),
            1 | 2 => format!("https://{host}/{}?q={}", self.random.random_range(0..3), self.reference()),
            _ => format!("https://{host}/{}", self.random.random_range(0..3)),
        };
        let names: Vec<&str> = NAMES.iter().filter(|_| self.random.random::<bool>()).copied().collect();
        let data: Map<String, Value> = names.into_iter().map(|name| (name.to_owned(), self.value())).collect();
        let turn =
            json!({"turn": {"privacy_level": "full", "query_text": SECRET, "response_text": self.text()}, "x": self.text()});
        SessionEvent {
            key: self.random.random_range(0..40),
            event_type,
            at_ms: 1_767_225_600_000 + self.random.random_range(0..1_000),
            role: 1,
            site: site.to_owned(),
            content_url: url,
            content_id: self.text(),
            content_telemetry_id: self.text(),
            event_id: self.text(),
            turn_id: self.reference(),
            output_id: self.reference(),
            data: serde_json::to_string(&data).unwrap(),
            extra: turn.to_string(),
            ..SessionEvent::default()
        }
    }

    pub(super) fn clicked(&mut self, level: Option<PrivacyLevel>) -> ClickedSession {
        ClickedSession {
            scope: SessionScope::granted(OrgId(Uuid::nil()), self.session),
            content_url: format!("https://www.example.com/?q={}", self.reference()),
            started_at: DateTime::from_timestamp(1_767_225_600, 0).unwrap(),
            level,
        }
    }
}
