//! Members of an event that a privacy level may remove, kept until the level is known.
//!
//! Only the output of [`ConversationMembers::extra`] and [`ConversationMembers::data`] may reach the log.

use crate::privacy::{self, redact_click_tokens};
use crate::request::raw_json::{RawObject, raw_value};
use crate::validate::KNOWN;
use crate::validate::old_names;
use schemas::event::{EventFamily, EventType};
use schemas::session::PrivacyLevel;
use serde_json::value::RawValue;

/// An event's members that don't affect counting.
pub(crate) struct ConversationMembers<'a> {
    event_type: EventType,
    members: RawObject<'a>,
    turn: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
}

impl<'a> ConversationMembers<'a> {
    pub(crate) fn new(
        event_type: &EventType,
        members: RawObject<'a>,
        turn: Option<&'a RawValue>,
        data: Option<&'a RawValue>,
    ) -> Self {
        Self { event_type: event_type.clone(), members, turn, data }
    }

    /// Returns whether a privacy level could remove anything from it.
    pub(crate) fn is_private(&self) -> bool {
        let is_turn = self.event_type.family() == EventFamily::Turn;
        let mut own = self.members.members().filter(|(name, _)| !KNOWN.contains(name));
        let names_text = |data: &RawValue| data.get().contains("_text") || data.get().contains('\\');
        self.turn.is_some()
            || own.any(|(name, value)| privacy::is_private(name, value))
            || self.data.is_some_and(|data| is_turn || names_text(data))
    }

    /// Returns the `data` to store. On a turn it has the same limits as `turn`; on other events, only its strings are limited.
    pub(crate) fn data(&self, level: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
        if self.event_type.family() == EventFamily::Turn {
            return privacy::strip_members(self.data?, level);
        }
        let data = privacy::without_texts(self.data?, level)?;
        old_names::rewrite_data(&redact_click_tokens::json_without_click_tokens(data), &self.event_type)
    }

    /// Returns members that this build doesn't know and the stripped `turn`, as one object.
    pub(crate) fn extra(&self, level: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
        let unknown = self.members.retain(|name| !KNOWN.contains(&name));
        let unknown = unknown.as_deref().and_then(|unknown| privacy::strip_members(unknown, level));
        let turn = self.turn.and_then(|turn| privacy::strip_turn(turn, level));
        let Some(turn) = turn.map(redact_click_tokens::json_without_click_tokens) else { return unknown };
        let rest = unknown.as_ref().map(|object| format!(",{}", &object.get()[1..object.get().len() - 1])).unwrap_or_default();
        let text = format!("{{\"turn\":{}{rest}}}", turn.get());
        Some(raw_value(text))
    }
}
