//! Which members of an event a click manifest shows, of what kind, and from which level on.
//!
//! Must stay an allow-list: everything else is withheld, also what this build has never heard of
//! (docs/api/click-tokens.md#members-of-a-manifest).

use schemas::session::PrivacyLevel;

/// What kind of value a member may have to be shown. None of them can hold what its reporter makes up, but for references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of these words, which are the standard's.
    Word(&'static [&'static str]),
    Flag,
    /// A whole number from 0 to [`MAX_COUNT`].
    Count,
    /// An opaque reference, which may hold the session's id.
    Reference,
}

/// More tokens than any text has.
pub(crate) const MAX_COUNT: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Beside `type`.
    Event,
    /// In `data`.
    Data,
}

/// Members of an event beyond `type`, `timestamp` and `content_url`, which every level shows: name, place, kind, and
/// the strictest level that shows it. Text members are at no level: content events have none to show.
pub(crate) const SHOWN: &[(&str, Location, Kind, PrivacyLevel)] = &[
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

/// The members of `data` that some level shows.
pub(crate) fn members_of_data() -> impl Iterator<Item = &'static str> {
    SHOWN.iter().filter(|(_, place, ..)| *place == Location::Data).map(|(name, ..)| *name)
}

pub(crate) fn is_shown(name: &str, place: Location, level: PrivacyLevel) -> Option<Kind> {
    let found = SHOWN.iter().find(|(shown, at, _, least)| *shown == name && *at == place && level >= *least)?;
    Some(found.2)
}
