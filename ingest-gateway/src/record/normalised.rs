//! The events of one request as the log keeps them, and what is still to be filled in from their sessions: the agent,
//! and how much of a conversation may be kept.
//!
//! Must not change a key: what is known of a session, and whether PostgreSQL answers, must not change which event it is.

use super::conversation::Conversation;
use crate::State;
use crate::log::record_too_large;
use crate::request::idempotency::Fingerprint;
use crate::request::large::{ReceivedBody, Turn};
use crate::sessions::NeededFacts;
use crate::validate::EnvelopeFacts;
use chrono::{DateTime, Utc};
use schemas::event::{MAX_STRING_BYTES, SourceRole};
use schemas::event_key::EventKey;
use schemas::ids::{OrgId, SessionId};
use schemas::log::{LogEvent, MAX_RECORD_BYTES};
use schemas::session::{PrivacyLevel, SessionReport};
use service_kit::http::ApiError;
use service_kit::sessions::{Session, SessionState};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Events with their keys.
pub(crate) struct Normalised<'a> {
    /// Who reports them.
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
    /// Sessions that they name and that PostgreSQL did not take.
    pub(crate) unwritten: Vec<SessionReport>,
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
        let agents: usize = self.events.iter().filter(|event| is_nameless(event)).map(|_| MAX_STRING_BYTES).sum();
        let sessions = REPORT_OF_SESSION * self.events.len();
        if bytes + agents + sessions + BESIDE_EVENTS > MAX_RECORD_BYTES { Err(record_too_large()) } else { Ok(()) }
    }

    /// Has the sessions noted that the events name, and fills in what is known of them; the events came in `body`.
    pub(crate) async fn fill_in(&mut self, state: &State, body: &ReceivedBody) {
        let named = self.named_sessions();
        if let Some(level) = self.declared {
            state.memory.tighten(named.iter().map(|report| (self.org, report.session_id)), level);
        }
        self.unwritten = state.report_writer.write(self.org, named).await;
        let wanted = self.wanted();
        if wanted.is_empty() && self.conversations.is_empty() {
            return;
        }
        let recalled = state.memory.recall(wanted, self.now, self.unwritten.is_empty()).await;
        state.large.run(body, |turn| self.fill_in_from(turn, &recalled.known)).await;
        self.leave_nameless(&recalled.unasked);
    }

    /// Fills in what is known of the sessions.
    pub(crate) fn fill_in_from(&mut self, _: &Turn, known: &HashMap<Session, SessionState>) {
        self.name_agents(known);
        self.withhold(known);
    }

    /// The caller's own sessions that the events name: they exist from now on, also beside a token that is not resolved yet.
    fn named_sessions(&self) -> Vec<SessionReport> {
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

    fn wanted(&self) -> BTreeMap<Session, NeededFacts> {
        let mut wanted: BTreeMap<Session, NeededFacts> = BTreeMap::new();
        let mut want = |session: Session, more| {
            let before = wanted.entry(session).or_default();
            *before = before.and(more);
        };
        for session in self.events.iter().filter(|event| is_nameless(event)).filter_map(|event| session_of(event, self.org)) {
            want(session, NeededFacts { agent: true, level: false });
        }
        let own = self.conversations.iter().map(|(index, _)| &self.events[*index]).filter(|event| event.session_org.is_none());
        for session in own.filter_map(|event| session_of(event, self.org)) {
            want(session, NeededFacts { agent: false, level: true });
        }
        wanted
    }

    fn name_agents(&mut self, known: &HashMap<Session, SessionState>) {
        let org = self.org;
        for event in self.events.iter_mut().filter(|event| is_nameless(event)) {
            event.agent_id = session_of(event, org).and_then(|session| known.get(&session)?.agent.clone());
        }
    }

    /// Events whose session may have named an agent, which PostgreSQL could not be asked for: the worker asks.
    fn leave_nameless(&mut self, unasked: &BTreeSet<Session>) {
        let org = self.org;
        for event in self.events.iter_mut().filter(|event| is_nameless(event)) {
            event.is_nameless = session_of(event, org).is_some_and(|session| unasked.contains(&session));
        }
    }

    /// Keeps of each conversation what its session lets be kept: a level that was declared once may later only be
    /// tightened. A session of which nothing is known may have declared the strictest; somebody else's counts as `minimal`,
    /// because what is kept would tell the reporter what it declares.
    fn withhold(&mut self, known: &HashMap<Session, SessionState>) {
        for (index, conversation) in &self.conversations {
            let event = &self.events[*index];
            let level = match session_of(event, self.org) {
                Some(_) if event.session_org.is_some() => Some(PrivacyLevel::Minimal),
                Some(session) => known.get(&session).map_or(Some(PrivacyLevel::Minimal), |known| known.level),
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

/// Whose session stands behind an unresolved token is for the worker to find out, and with it the agent.
fn session_of(event: &LogEvent, reporter: OrgId) -> Option<Session> {
    let session = event.session_id.filter(|_| !event.is_unresolved())?;
    Some((event.session_org.unwrap_or(reporter), session))
}

fn is_nameless(event: &LogEvent) -> bool {
    event.agent_id.is_none() && !event.is_unresolved()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_only_its_events_name_adds_no_more_to_a_record_than_is_reckoned_with() {
        let report = |level| SessionReport {
            session_id: SessionId(uuid::Uuid::max()),
            privacy_level: Some(level),
            parent_session_id: None,
            started_at: None,
            manifest_ref: None,
            agent_id: None,
        };
        let longest = PrivacyLevel::ALL.map(|level| serde_json::to_string(&report(level)).unwrap().len()).into_iter().max();
        let comma = 1;
        assert!(longest.is_some_and(|longest| longest + comma <= REPORT_OF_SESSION), "{longest:?}");
    }
}
