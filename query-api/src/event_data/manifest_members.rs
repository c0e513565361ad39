//! The event members that a click manifest shows, their kinds, and each member's privacy level.
//!
//! This is an allow-list: unknown members are never shown (docs/api/click-tokens.md#members-of-a-manifest).

use schemas::session::PrivacyLevel;

/// The kind of value that a member must have to be shown. Only references can contain free text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of these standard keywords.
    Word(&'static [&'static str]),
    Flag,
    /// A whole number from 0 to [`MAX_COUNT`].
    Count,
    /// An opaque reference. It may contain the session id.
    Reference,
}

/// More than the token count of any text.
pub(crate) const MAX_COUNT: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Beside `type`.
    Event,
    /// A member of `data`.
    Data,
}

/// Members besides `type`, `timestamp` and `content_url`, which every level shows: name, location, kind, and the strictest level that shows
/// the member. Content events have no text members.
pub(crate) const MEMBERS: &[(&str, Location, Kind, PrivacyLevel)] = &[
    ("turn_id", Location::Event, Kind::Reference, PrivacyLevel::Intent),
    ("output_id", Location::Event, Kind::Reference, PrivacyLevel::Intent),
    ("scope", Location::Data, Kind::Word(&["session", "turn"]), PrivacyLevel::Intent),
    ("cached", Location::Data, Kind::Flag, PrivacyLevel::Intent),
    (
        "citation_type",
        Location::Data,
        Kind::Word(&["direct_quote", "paraphrase", "reference", "contradiction", "unclassified"]),
        PrivacyLevel::Intent,
    ),
    ("position", Location::Data, Kind::Word(&["primary", "supporting", "mentioned", "unclassified"]), PrivacyLevel::Intent),
    ("presentation_kind", Location::Data, Kind::Word(&["content", "source_reference"]), PrivacyLevel::Intent),
    (
        "presentation_type",
        Location::Data,
        Kind::Word(&["link", "snippet", "inline_quote", "card", "detail_view", "embed", "spoken_credit"]),
        PrivacyLevel::Intent,
    ),
    ("query_tokens", Location::Data, Kind::Count, PrivacyLevel::Minimal),
    ("response_tokens", Location::Data, Kind::Count, PrivacyLevel::Minimal),
    ("tokens_ingested", Location::Data, Kind::Count, PrivacyLevel::Minimal),
    ("excerpt_tokens", Location::Data, Kind::Count, PrivacyLevel::Minimal),
];

/// Returns the members of `data` that some level shows.
pub(crate) fn members_of_data() -> impl Iterator<Item = &'static str> {
    MEMBERS.iter().filter(|(_, place, ..)| *place == Location::Data).map(|(name, ..)| *name)
}

pub(crate) fn kind_if_visible(name: &str, place: Location, level: PrivacyLevel) -> Option<Kind> {
    let found = MEMBERS.iter().find(|(shown, at, _, least)| *shown == name && *at == place && level >= *least)?;
    Some(found.2)
}
