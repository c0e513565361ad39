//! The members of an event that a privacy level may withhold, kept as they were reported until the level is known.
//!
//! Must not reach the log itself: only what [`Conversation::extra`] and [`Conversation::data`] let through does.

use crate::raw::RawObject;
use crate::validate::KNOWN;
use crate::{privacy, redact, tolerate};
use schemas::event::{EventFamily, EventType};
use schemas::session::PrivacyLevel;
use serde_json::value::RawValue;

/// What an event says besides the members that make it countable.
pub(crate) struct Conversation<'a> {
    event_type: EventType,
    members: RawObject<'a>,
    turn: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
}

impl<'a> Conversation<'a> {
    pub(crate) fn of(
        event_type: &EventType,
        members: RawObject<'a>,
        turn: Option<&'a RawValue>,
        data: Option<&'a RawValue>,
    ) -> Self {
        Self { event_type: event_type.clone(), members, turn, data }
    }

    /// Whether any level would withhold anything.
    pub(crate) fn is_private(&self) -> bool {
        let is_turn = self.event_type.family() == EventFamily::Turn;
        self.turn.is_some() || (is_turn && self.data.is_some()) || self.members.members().any(|(name, _)| privacy::is_known(name))
    }

    /// `data` as it is kept; on a conversation's turn it may not say what `turn` may not.
    pub(crate) fn data(&self, level: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
        let data = privacy::without_address_hashes(self.data?)?;
        let data = redact::json_without_click_tokens(data);
        if self.event_type.family() != EventFamily::Turn {
            return tolerate::rewrite_data(&data, &self.event_type);
        }
        let members = RawObject::parse(data.get()).ok()?;
        members.retain(|name| privacy::is_kept_outside_turn(name, level))
    }

    /// Members this build does not know, and the stripped `turn`, as one object.
    pub(crate) fn extra(&self, level: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
        let unknown = self.members.retain(|name| !KNOWN.contains(&name) && privacy::is_kept_outside_turn(name, level));
        let unknown = unknown.as_deref().and_then(privacy::without_address_hashes);
        let turn = self.turn.and_then(|turn| privacy::strip_turn(turn, level));
        let Some(turn) = turn else { return unknown.map(redact::json_without_click_tokens) };
        let rest = unknown.as_ref().map(|object| format!(",{}", &object.get()[1..object.get().len() - 1])).unwrap_or_default();
        let text = format!("{{\"turn\":{}{rest}}}", turn.get());
        let object = RawValue::from_string(text).expect("an object of valid values is valid JSON");
        Some(redact::json_without_click_tokens(object))
    }
}
