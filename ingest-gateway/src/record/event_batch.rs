//! Validates a request's events together, and binds them to sessions.

use super::normalize_event::{Origin, normalize_event};
use super::normalized_request::NormalizedRequest;
use super::verified_hosts::require_verified_hosts;
use crate::State;
use crate::request::cpu_permits::CpuPermit;
use crate::validate::{Binding, Context, Faults, Tokens, ValidEvent, bind_session, token_of, validate_event};
use schemas::bots::BotTable;
use schemas::ids::OrgId;
use serde_json::value::RawValue;
use service_kit::auth::Caller;
use service_kit::http::ApiError;

pub(crate) struct EventBatch<'a> {
    context: Context<'a>,
    /// Events with their position in the request.
    events: Vec<(usize, ValidEvent<'a>)>,
    faults: Faults,
}

impl<'a> EventBatch<'a> {
    pub(crate) fn validate(events: &[&'a RawValue], context: Context<'a>, mut faults: Faults) -> Self {
        let mut valid = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            faults.enter(index);
            valid.extend(validate_event(event, &context, &mut faults).map(|event| (index, event)));
        }
        Self { context, events: valid, faults }
    }

    /// Binds every event to its session, and checks that the caller may report for its host.
    pub(crate) async fn admit(self, state: &State, caller: &Caller) -> Result<BoundBatch<'a>, ApiError> {
        let (context, events) = (&self.context, &self.events);
        let presented = events.iter().filter_map(|(_, event)| token_of(event, context)).map(str::to_owned).collect();
        let tokens = state.click_tokens.resolve(presented, context.now).await?;
        let bound = self.bind_to(&tokens)?;
        require_verified_hosts(&bound.events, state, caller).await?;
        Ok(bound)
    }

    pub(crate) fn bind_to(self, tokens: &Tokens) -> Result<BoundBatch<'a>, ApiError> {
        let Self { context, events, mut faults } = self;
        let mut bound = Vec::with_capacity(events.len());
        for (index, event) in events {
            faults.enter(index);
            let binding = bind_session(&event, &context, tokens, &mut faults);
            bound.push((event, binding));
        }
        faults.into_result()?;
        Ok(BoundBatch { context, events: bound })
    }
}

pub(crate) struct BoundBatch<'a> {
    context: Context<'a>,
    events: Vec<(ValidEvent<'a>, Binding)>,
}

impl<'a> BoundBatch<'a> {
    /// Returns the events as stored in the log, as far as the request alone determines them.
    pub(crate) fn normalize(
        self,
        _: &CpuPermit,
        org: OrgId,
        idempotency_key: Option<&str>,
        bots: &BotTable,
    ) -> NormalizedRequest<'a> {
        let origin = Origin { org, agent_id: self.context.agent_id.as_deref(), idempotency_key, bots };
        let (mut events, mut conversations, mut reported) = (Vec::with_capacity(self.events.len()), Vec::new(), Vec::new());
        for (index, (event, binding)) in self.events.into_iter().enumerate() {
            let normalized = normalize_event(event, &binding, &origin, index);
            conversations.extend(normalized.conversation.map(|conversation| (index, conversation)));
            events.push(normalized.event);
            reported.push(normalized.reported);
        }
        let Context { now, privacy_level: declared, session_id: around, envelope_facts: told, .. } = self.context;
        NormalizedRequest {
            org,
            events,
            report_identities: reported,
            conversations,
            envelope_level: declared,
            envelope_session: around,
            envelope_facts: told,
            now,
        }
    }
}
