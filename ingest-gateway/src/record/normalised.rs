//! The events of one request as the log keeps them, and how much of their conversations their sessions let be kept.
//!
//! Must not change a key: what is known of a session, and whether PostgreSQL answers, must not change which event it is.

use super::conversation::Conversation;
use crate::State;
use crate::log::record_too_large;
use crate::request::idempotency::Fingerprint;
use crate::request::large::{ReceivedBody, Turn};
use crate::sessions::Levels;
use crate::validate::EnvelopeFacts;
use chrono::{DateTime, Utc};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{OrgId, SessionId};
use schemas::log::{LogEvent, MAX_RECORD_BYTES};
use schemas::session::{PrivacyLevel, SessionReport};
use service_kit::clicks::Session;
use service_kit::http::ApiError;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

pub(crate) struct Normalised<'a> {
    pub(crate) org: OrgId,
    pub(crate) events: Vec<LogEvent>,
    /// The identity of each as reported, before click tokens are looked up.
    pub(crate) reported: Vec<EventKey>,
    /// Of those events that say something of a conversation, by place.
    pub(crate) conversations: Vec<(usize, Conversation<'a>)>,
    /// The level declared around them.
    pub(crate) declared: Option<PrivacyLevel>,
    /// The session named around them.
    pub(crate) around: Option<SessionId>,
    /// What is said of it, or of the only one that they name.
    pub(crate) told: EnvelopeFacts,
    pub(crate) now: DateTime<Utc>,
}

/// A body of this size never becomes a record that the log refuses, whatever normalising adds.
const SURELY_FITS: usize = 1024 * 1024;
/// What a record holds beside its events: the facts of a session, key and headers.
const BESIDE_EVENTS: usize = 256 * 1024;
/// Most that a session which only its events name adds to it: its id and its level.
const REPORT_OF_SESSION: usize = 96;

impl Normalised<'_> {
    /// Digest of the reports' identities and roles. A retry has the same one, whether its click tokens could be looked up or
    /// not.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(self.org.0.as_bytes());
        for (event, reported) in self.events.iter().zip(&self.reported) {
            digest.update(reported.0.to_be_bytes());
            digest.update([SourceRole::code(event.source_role)]);
        }
        let bytes: [u8; 32] = digest.finalize().into();
        let mut fingerprint = Fingerprint::default();
        fingerprint.copy_from_slice(&bytes[..16]);
        fingerprint
    }

    /// 413 for what no log takes, before anything is changed. Only a large body can become a record that large, or one with
    /// many events that take the long URL of a click token.
    pub(crate) fn require_fits_log(&self, _: &Turn, body_bytes: usize) -> Result<(), ApiError> {
        let urls: usize = self.events.iter().filter_map(|event| event.content_url.as_ref()).map(String::len).sum();
        if body_bytes + urls <= SURELY_FITS {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&self.events).map_err(ApiError::internal)?.len();
        let sessions = REPORT_OF_SESSION * self.events.len();
        if bytes + sessions + BESIDE_EVENTS > MAX_RECORD_BYTES { Err(record_too_large()) } else { Ok(()) }
    }

    /// Withholds what their sessions don't let be kept, by what is known of them; the events came in `body`.
    pub(crate) async fn withhold(&mut self, state: &State, body: &ReceivedBody) {
        if self.conversations.is_empty() {
            return;
        }
        let known = state.memory.recall(self.sessions_of_conversations(), self.now).await;
        state.large.run(body, |turn| self.withhold_by(turn, &known)).await;
    }

    /// The caller's own sessions that the events name, also beside a token that is not resolved yet.
    pub(crate) fn named_sessions(&self) -> Vec<SessionReport> {
        let own = self.events.iter().filter(|event| event.session_org.is_none());
        let sessions: BTreeSet<SessionId> = own.filter_map(|event| event.session_id).collect();
        let told_of = self.around.or_else(|| sessions.first().copied().filter(|_| sessions.len() == 1));
        let report = |session_id| {
            let told = if Some(session_id) == told_of { self.told.clone() } else { EnvelopeFacts::default() };
            SessionReport {
                session_id,
                privacy_level: self.declared,
                parent_session_id: told.parent,
                started_at: told.started_at,
                manifest_ref: told.manifest_ref,
                // Around a session that only an event names, it is the agent of that event.
                agent_id: told.agent.filter(|_| Some(session_id) == self.around),
            }
        };
        sessions.into_iter().map(report).collect()
    }

    fn sessions_of_conversations(&self) -> BTreeSet<Session> {
        let events = self.conversations.iter().map(|(index, _)| &self.events[*index]);
        events.filter(|event| event.session_org.is_none()).filter_map(|event| session_of(event, self.org)).collect()
    }

    /// Keeps of each conversation what its session lets be kept: a level that was declared once may later only be tightened. Without
    /// any level, of session, envelope or turn, it is `minimal`. A session that can't be looked up counts as `minimal`, because it
    /// may have declared it; so does another organization's, because what is kept would show its level to the reporter.
    pub(crate) fn withhold_by(&mut self, _: &Turn, known: &Levels) {
        for (index, conversation) in &self.conversations {
            let event = &self.events[*index];
            let level = match session_of(event, self.org) {
                Some(_) if event.session_org.is_some() => Some(PrivacyLevel::Minimal),
                Some(session) => known.get(&session).copied().unwrap_or(Some(PrivacyLevel::Minimal)),
                None if event.is_unresolved() => Some(PrivacyLevel::Minimal),
                None => continue,
            };
            let level = [level, self.declared].into_iter().flatten().min();
            if level != self.declared {
                let event = &mut self.events[*index];
                (event.extra, event.data) = (conversation.extra(level), conversation.data(level));
            }
        }
    }
}

/// The session that an event names; the worker finds the one behind an unresolved token.
fn session_of(event: &LogEvent, reporter: OrgId) -> Option<Session> {
    let session = event.session_id.filter(|_| !event.is_unresolved())?;
    Some((event.session_org.unwrap_or(reporter), session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_only_its_events_name_adds_no_more_to_a_record_than_is_reckoned_with() {
        let report = |level| SessionReport { privacy_level: Some(level), ..SessionReport::of(SessionId(uuid::Uuid::max())) };
        let longest = PrivacyLevel::ALL.map(|level| serde_json::to_string(&report(level)).unwrap().len()).into_iter().max();
        let comma = 1;
        assert!(longest.is_some_and(|longest| longest + comma <= REPORT_OF_SESSION), "{longest:?}");
    }
}
