//! Validates the events of one request together and binds them to sessions.

use super::normalise::{Origin, normalise};
use super::normalised::Normalised;
use super::own_hosts::require_own_hosts;
use crate::State;
use crate::request::large::Turn;
use crate::validate::{Binding, Context, Faults, Tokens, ValidEvent, bind_session, token_of, validate_event};
use schemas::bots::BotTable;
use schemas::ids::OrgId;
use serde_json::value::RawValue;
use service_kit::auth::Caller;
use service_kit::http::ApiError;

pub(crate) struct Batch<'a> {
    context: Context<'a>,
    /// Events with their index in the request.
    events: Vec<(usize, ValidEvent<'a>)>,
    faults: Faults,
}

impl<'a> Batch<'a> {
    pub(crate) fn validate(events: &[&'a RawValue], context: Context<'a>, mut faults: Faults) -> Self {
        let mut valid = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            faults.enter(index);
            valid.extend(validate_event(event, &context, &mut faults).map(|event| (index, event)));
        }
        Self { context, events: valid, faults }
    }

    /// Binds every event to its session, and checks that the caller may report for its host.
    pub(crate) async fn admit(self, state: &State, caller: &Caller) -> Result<Bound<'a>, ApiError> {
        let (context, events) = (&self.context, &self.events);
        let presented = events.iter().filter_map(|(_, event)| token_of(event, context)).map(str::to_owned).collect();
        let tokens = state.tokens.resolve(presented, context.now).await?;
        let bound = self.bind_to(&tokens)?;
        require_own_hosts(&bound.events, state, caller).await?;
        Ok(bound)
    }

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

pub(crate) struct Bound<'a> {
    context: Context<'a>,
    events: Vec<(ValidEvent<'a>, Binding)>,
}

impl<'a> Bound<'a> {
    /// Returns the events as the log stores them, as far as the request alone determines it.
    pub(crate) fn normalise(self, _: &Turn, org: OrgId, idempotency_key: Option<&str>, bots: &BotTable) -> Normalised<'a> {
        let origin = Origin { org, agent_id: self.context.agent_id.as_deref(), idempotency_key, bots };
        let (mut events, mut conversations, mut reported) = (Vec::with_capacity(self.events.len()), Vec::new(), Vec::new());
        for (index, (event, binding)) in self.events.into_iter().enumerate() {
            let normalised = normalise(event, &binding, &origin, index);
            conversations.extend(normalised.conversation.map(|conversation| (index, conversation)));
            events.push(normalised.event);
            reported.push(normalised.reported);
        }
        let Context { now, privacy_level: declared, session_id: around, told, .. } = self.context;
        Normalised { org, events, reported, conversations, declared, around, told, now }
    }
}
