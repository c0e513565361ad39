//! The events of one request as the log keeps them, and what is still to be filled in from their sessions: the agent,
//! and how much of a conversation may be kept.
//!
//! Must not change a key: what is known of a session, and whether PostgreSQL answers, must not change which event it is.

use crate::State;
use crate::conversation::Conversation;
use crate::idempotency::Fingerprint;
use crate::sessions::{Known, Session, Sighting, Wanted};
use chrono::{DateTime, Utc};
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::log::LogEvent;
use schemas::session::PrivacyLevel;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// Events with their keys.
pub(crate) struct Normalised<'a> {
    /// Who reports them.
    pub(crate) org: OrgId,
    pub(crate) events: Vec<LogEvent>,
    /// Of those events that say something of a conversation, by place.
    pub(crate) conversations: Vec<(usize, Conversation<'a>)>,
    /// The level declared around them.
    pub(crate) declared: Option<PrivacyLevel>,
    pub(crate) now: DateTime<Utc>,
    /// The request carries the session itself.
    pub(crate) is_whole_session: bool,
}

impl Normalised<'_> {
    /// Names the observations, whatever else the request says.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(self.org.0.as_bytes());
        for event in &self.events {
            digest.update(event.key.0.to_be_bytes());
            digest.update([SourceRole::code(event.source_role)]);
        }
        let bytes: [u8; 32] = digest.finalize().into();
        let mut fingerprint = Fingerprint::default();
        fingerprint.copy_from_slice(&bytes[..16]);
        fingerprint
    }

    /// Has the sessions noted that the events name, and fills in what is known of them.
    pub(crate) async fn fill_in(&mut self, state: &State) {
        // An upload writes its session itself.
        let may_ask = self.is_whole_session || state.sightings.note(self.named_sessions()).await;
        let wanted = self.wanted();
        if wanted.is_empty() && self.conversations.is_empty() {
            return;
        }
        let known = state.memory.recall(wanted, self.now, may_ask).await;
        self.name_agents(&known);
        self.withhold(&known);
    }

    /// The caller's own sessions that the events name: they exist from now on. Beside a token that is not resolved
    /// yet, a session may be somebody else's.
    fn named_sessions(&self) -> Vec<Sighting> {
        let own = self.events.iter().filter(|event| event.session_org.is_none() && !event.is_unresolved());
        own.filter_map(|event| Some((self.org, event.session_id?, self.declared))).collect()
    }

    fn wanted(&self) -> BTreeMap<Session, Wanted> {
        let mut wanted: BTreeMap<Session, Wanted> = BTreeMap::new();
        let mut want = |session: Session, more| {
            let before = wanted.entry(session).or_default();
            *before = before.and(more);
        };
        for session in self.events.iter().filter(|event| is_nameless(event)).filter_map(|event| self.session_of(event)) {
            want(session, Wanted { agent: true, level: false });
        }
        for session in self.conversations.iter().filter_map(|(index, _)| self.own_session_of(&self.events[*index])) {
            want(session, Wanted { agent: false, level: true });
        }
        wanted
    }

    /// Whose session stands behind an unresolved token is for the worker to find out, and with it the agent.
    fn session_of(&self, event: &LogEvent) -> Option<Session> {
        event.session_id.filter(|_| !event.is_unresolved()).map(|session| (event.session_org.unwrap_or(self.org), session))
    }

    fn own_session_of(&self, event: &LogEvent) -> Option<Session> {
        self.session_of(event).filter(|(org, _)| *org == self.org)
    }

    fn name_agents(&mut self, known: &HashMap<Session, Known>) {
        let org = self.org;
        for event in self.events.iter_mut().filter(|event| is_nameless(event)) {
            let session = event.session_id.map(|session| (event.session_org.unwrap_or(org), session));
            event.agent_id = session.and_then(|session| known.get(&session)?.agent.clone());
        }
    }

    /// Keeps of each conversation what its session lets be kept: a level that was declared once may later only be
    /// tightened. A session of which nothing is known may have declared the strictest.
    fn withhold(&mut self, known: &HashMap<Session, Known>) {
        for (index, conversation) in &self.conversations {
            let event = &self.events[*index];
            let level = match self.own_session_of(event) {
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

fn is_nameless(event: &LogEvent) -> bool {
    event.agent_id.is_none() && !event.is_unresolved()
}
