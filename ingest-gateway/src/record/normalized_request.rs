//! A request's events as stored in the log, without the members that their sessions' privacy levels remove.
//!
//! Keys don't depend on known session data or on whether PostgreSQL responds.

use super::conversation_members::ConversationMembers;
use crate::State;
use crate::log::record_too_large;
use crate::request::cpu_permits::{CpuPermit, ReceivedBody};
use crate::request::idempotency::Fingerprint;
use crate::sessions::Levels;
use crate::validate::EnvelopeFacts;
use chrono::{DateTime, Utc};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{OrgId, SessionId};
use schemas::log::{LogEvent, MAX_RECORD_BYTES};
use schemas::session::{PrivacyLevel, SessionReport};
use service_kit::click_token_lookups::Session;
use service_kit::http::ApiError;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

pub(crate) struct NormalizedRequest<'a> {
    pub(crate) org: OrgId,
    pub(crate) events: Vec<LogEvent>,
    /// Each event's identity as reported, before click tokens are looked up.
    pub(crate) report_identities: Vec<EventKey>,
    /// Members that a level may remove, with their event's position.
    pub(crate) conversations: Vec<(usize, ConversationMembers<'a>)>,
    /// The envelope's privacy level.
    pub(crate) envelope_level: Option<PrivacyLevel>,
    /// The envelope's session.
    pub(crate) envelope_session: Option<SessionId>,
    /// The envelope's facts about that session, or about the only session that the events name.
    pub(crate) envelope_facts: EnvelopeFacts,
    pub(crate) now: DateTime<Utc>,
}

/// A body of at most this size never becomes a record that is too large, whatever normalizing adds.
const SURELY_FITS: usize = 1024 * 1024;
/// Size of a record besides its events: session facts, key and headers.
const BESIDE_EVENTS: usize = 256 * 1024;
/// Maximum bytes that a session named only by events adds to a record: its id and level.
const REPORT_OF_SESSION: usize = 96;

impl NormalizedRequest<'_> {
    /// Digest of the reports' identities and roles. A retry has the same digest, whether or not its click tokens could be looked up.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(self.org.0.as_bytes());
        for (event, reported) in self.events.iter().zip(&self.report_identities) {
            digest.update(reported.0.to_be_bytes());
            digest.update([SourceRole::code(event.source_role)]);
        }
        let bytes: [u8; 32] = digest.finalize().into();
        let mut fingerprint = Fingerprint::default();
        fingerprint.copy_from_slice(&bytes[..16]);
        fingerprint
    }

    /// Returns 413 for a record that is too large, before anything changes. Only a large body can become one, or many events that get a
    /// click token's long URL.
    pub(crate) fn require_fits_log(&self, _: &CpuPermit, body_bytes: usize) -> Result<(), ApiError> {
        let urls: usize = self.events.iter().filter_map(|event| event.content_url.as_ref()).map(String::len).sum();
        if body_bytes + urls <= SURELY_FITS {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&self.events).map_err(ApiError::internal)?.len();
        let sessions = REPORT_OF_SESSION * self.events.len();
        if bytes + sessions + BESIDE_EVENTS > MAX_RECORD_BYTES { Err(record_too_large()) } else { Ok(()) }
    }

    /// Looks up the sessions' levels and removes the members that they don't allow.
    pub(crate) async fn withhold(&mut self, state: &State, body: &ReceivedBody) {
        if self.conversations.is_empty() {
            return;
        }
        let known = state.session_levels.levels(self.sessions_of_conversations(), self.now).await;
        state.cpu_permits.run(body, |turn| self.withhold_by(turn, &known)).await;
    }

    /// Returns the caller's own sessions that events name, including those next to an unresolved token.
    pub(crate) fn named_sessions(&self) -> Vec<SessionReport> {
        let own = self.events.iter().filter(|event| event.session_org.is_none());
        let sessions: BTreeSet<SessionId> = own.filter_map(|event| event.session_id).collect();
        let told_of = self.envelope_session.or_else(|| sessions.first().copied().filter(|_| sessions.len() == 1));
        let report = |session_id| {
            let told = if Some(session_id) == told_of { self.envelope_facts.clone() } else { EnvelopeFacts::default() };
            SessionReport {
                session_id,
                privacy_level: self.envelope_level,
                parent_session_id: told.parent,
                started_at: told.started_at,
                manifest_ref: told.manifest_ref,
                // The envelope's agent belongs only to the envelope's session.
                agent_id: told.agent.filter(|_| Some(session_id) == self.envelope_session),
            }
        };
        sessions.into_iter().map(report).collect()
    }

    fn sessions_of_conversations(&self) -> BTreeSet<Session> {
        let events = self.conversations.iter().map(|(index, _)| &self.events[*index]);
        events.filter(|event| event.session_org.is_none()).filter_map(|event| session_of(event, self.org)).collect()
    }

    /// Removes the members that the sessions' levels don't allow. A declared level can only become stricter; without any level (of session,
    /// envelope or turn) it is `minimal`. A session that can't be looked up counts as `minimal`, because that may be its level. So does
    /// another organization's session, because the stored members would reveal its level to the reporter.
    pub(crate) fn withhold_by(&mut self, _: &CpuPermit, known: &Levels) {
        for (index, conversation) in &self.conversations {
            let event = &self.events[*index];
            let level = match session_of(event, self.org) {
                Some(_) if event.session_org.is_some() => Some(PrivacyLevel::Minimal),
                Some(session) => known.get(&session).copied().unwrap_or(Some(PrivacyLevel::Minimal)),
                None if event.is_unresolved() => Some(PrivacyLevel::Minimal),
                None => continue,
            };
            let level = [level, self.envelope_level].into_iter().flatten().min();
            if level != self.envelope_level {
                let event = &mut self.events[*index];
                (event.extra, event.data) = (conversation.extra(level), conversation.data(level));
            }
        }
    }
}

/// Returns the event's session. The worker finds an unresolved token's session.
fn session_of(event: &LogEvent, reporter: OrgId) -> Option<Session> {
    let session = event.session_id.filter(|_| !event.is_unresolved())?;
    Some((event.session_org.unwrap_or(reporter), session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_reports_fit_their_size_estimate() {
        let report = |level| SessionReport { privacy_level: Some(level), ..SessionReport::new(SessionId(uuid::Uuid::max())) };
        let longest = PrivacyLevel::ALL.map(|level| serde_json::to_string(&report(level)).unwrap().len()).into_iter().max();
        let comma = 1;
        assert!(longest.is_some_and(|longest| longest + comma <= REPORT_OF_SESSION), "{longest:?}");
    }
}
