//! The events of one request on their way to the log: validated together, bound to sessions, normalised.
//!
//! Must not accept part of a batch: it is taken whole or refused whole, with every fault listed.

use crate::State;
use crate::normalise::{Origin, attributed_site, normalise};
use crate::sessions::Sighting;
use crate::validate::{Binding, Context, Faults, Tokens, ValidEvent, bind_session, token_of, validate_event};
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::log::LogEvent;
use schemas::problem::Code;
use schemas::session::PrivacyLevel;
use serde_json::value::RawValue;
use service_kit::auth::Caller;
use service_kit::directory::OwnedSite;
use service_kit::http::ApiError;
use std::collections::BTreeSet;

/// Validated events, with the faults found so far.
pub(crate) struct Batch<'a> {
    context: Context<'a>,
    /// With their place in the request.
    events: Vec<(usize, ValidEvent<'a>)>,
    faults: Faults,
}

impl<'a> Batch<'a> {
    /// Checks every event by itself.
    pub(crate) fn validate(events: &[&'a RawValue], context: Context<'a>, mut faults: Faults) -> Self {
        let mut valid = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            faults.enter(index);
            valid.extend(validate_event(event, &context, &mut faults).map(|event| (index, event)));
        }
        Self { context, events: valid, faults }
    }

    /// Binds every event to its session, checks whose hosts they are, and normalises them.
    pub(crate) async fn bind(
        self,
        state: &State,
        caller: &Caller,
        idempotency_key: Option<&str>,
    ) -> Result<Vec<LogEvent>, ApiError> {
        let (context, events) = (&self.context, &self.events);
        let presented = events.iter().filter_map(|(_, event)| token_of(event, context)).map(str::to_owned).collect();
        let tokens = state.tokens.resolve(presented, context.now).await?;
        let bound = self.bind_to(&tokens)?;
        if let Some(owned) = owned_sites(state, caller).await? {
            require_own_hosts(bound.events.iter().map(|(event, _)| event), &owned)?;
        }
        let (now, level, is_whole_session) = (bound.context.now, bound.context.privacy_level, bound.context.is_whole_session);
        let mut events = bound.normalise(caller.org_id, idempotency_key);
        // An upload creates its session itself.
        let is_met = is_whole_session || state.sightings.note(named_sessions(caller, &events, level)).await;
        name_agents(state, caller, &mut events, now, is_met).await;
        Ok(events)
    }

    /// Binds every event to its session by what the tokens stand for.
    pub(crate) fn bind_to(self, tokens: &Tokens) -> Result<Bound<'a>, ApiError> {
        let Self { context, events, mut faults } = self;
        let mut bound = Vec::with_capacity(events.len());
        for (index, event) in events {
            faults.enter(index);
            let binding = bind_session(&event, &context, tokens, &mut faults);
            bound.push((event, binding));
        }
        faults.into_result()?;
        Ok(Bound { context, events: bound })
    }
}

/// Events that keep every rule, each with its session.
pub(crate) struct Bound<'a> {
    context: Context<'a>,
    events: Vec<(ValidEvent<'a>, Binding)>,
}

impl Bound<'_> {
    /// The events as the log keeps them.
    pub(crate) fn normalise(self, org: OrgId, idempotency_key: Option<&str>) -> Vec<LogEvent> {
        let origin = Origin { org, agent_id: self.context.agent_id.as_deref(), idempotency_key };
        let events = self.events.into_iter().enumerate();
        events.map(|(index, (event, binding))| normalise(event, binding, &origin, index)).collect()
    }
}

/// The caller's own sessions that the events name: they exist from now on. Beside a token that is not resolved yet,
/// a session may be somebody else's.
fn named_sessions(caller: &Caller, events: &[LogEvent], level: Option<PrivacyLevel>) -> Vec<Sighting> {
    let own = events.iter().filter(|event| event.session_org.is_none() && !event.is_unresolved());
    let own = own.filter_map(|event| event.session_id);
    own.map(|session| (caller.org_id, session, level)).collect()
}

/// Fills in the agent of each event's session, after the keys are made: what is known of a session must not
/// change which event it is. Whose session stands behind an unresolved token is for the worker to find out, and with
/// it the agent.
async fn name_agents(state: &State, caller: &Caller, events: &mut [LogEvent], now: DateTime<Utc>, may_ask: bool) {
    let session = |event: &LogEvent| event.session_id.map(|session| (event.session_org.unwrap_or(caller.org_id), session));
    let is_nameless = |event: &LogEvent| event.agent_id.is_none() && !event.is_unresolved();
    let nameless: BTreeSet<_> = events.iter().filter(|event| is_nameless(event)).filter_map(session).collect();
    if nameless.is_empty() {
        return;
    }
    let agents = match may_ask {
        true => state.agents.resolve(nameless, now).await,
        false => state.agents.remembered(nameless, now).0,
    };
    for event in events.iter_mut().filter(|event| is_nameless(event)) {
        event.agent_id = session(event).and_then(|session| agents.get(&session).cloned());
    }
}

/// An owner's key is bound to its verified domains; other keys report for any host (`None`).
async fn owned_sites(state: &State, caller: &Caller) -> Result<Option<Vec<OwnedSite>>, ApiError> {
    match caller.org_type {
        OrgType::ContentOwner => Ok(Some(state.callers.owned_sites(caller.org_id).await?)),
        OrgType::Platform | OrgType::Agent => Ok(None),
    }
}

fn require_own_hosts<'e, 'a: 'e>(
    events: impl IntoIterator<Item = &'e ValidEvent<'a>>,
    owned: &[OwnedSite],
) -> Result<(), ApiError> {
    let is_own = |event: &ValidEvent<'_>| attributed_site(event).is_some_and(|site| owned.iter().any(|own| own.covers(site)));
    if events.into_iter().all(is_own) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "A content owner's key reports only for URLs on the owner's verified domains."))
}
