//! Event types, source roles and which role may send which type (docs/api/events.md#event-types).

use std::fmt;

/// Maximum length of an id, role, name or other short text, in bytes (docs/api/http.md#size-limits).
pub const MAX_STRING_BYTES: usize = 2_048;

/// Commerce types that published clients send and the rules don't forbid. Stored as sent.
pub const COMMERCE: [&str; 4] = ["product_viewed", "product_compared", "cart_add", "cart_remove"];

/// The type of an event: one of the eight names in the specification, or an extension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Content fetched from its source; the only type that merges across observers.
    ContentRetrieved,
    ContentGrounded,
    ContentCited,
    /// Content or a source reference made perceivable to the user.
    ContentPresented,
    ContentEngaged,
    TurnStarted,
    TurnCompleted,
    /// A purchase completed (commerce extension).
    CheckoutCompleted,
    /// Another `checkout_*` name, a namespaced name with a dot, or a commerce name of [`COMMERCE`].
    Extension(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFamily {
    /// The five `content_*` types, which require a URL or a content id.
    Content,
    /// The two `turn_*` types, which count for no owner.
    Turn,
    Checkout,
    Extension,
}

impl EventType {
    pub const SPECIFIED: [Self; 8] = [
        Self::ContentRetrieved,
        Self::ContentGrounded,
        Self::ContentCited,
        Self::ContentPresented,
        Self::ContentEngaged,
        Self::TurnStarted,
        Self::TurnCompleted,
        Self::CheckoutCompleted,
    ];

    /// Parses a type name. Returns `None` for a name that no rule allows (docs/api/events.md#event-types).
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(known) = Self::SPECIFIED.into_iter().find(|known| known.as_str() == name) {
            return Some(known);
        }
        let is_checkout = name.strip_prefix("checkout_").is_some_and(is_name);
        (is_namespaced(name) || is_checkout || COMMERCE.contains(&name)).then(|| Self::Extension(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::ContentRetrieved => "content_retrieved",
            Self::ContentGrounded => "content_grounded",
            Self::ContentCited => "content_cited",
            Self::ContentPresented => "content_presented",
            Self::ContentEngaged => "content_engaged",
            Self::TurnStarted => "turn_started",
            Self::TurnCompleted => "turn_completed",
            Self::CheckoutCompleted => "checkout_completed",
            Self::Extension(name) => name,
        }
    }

    pub fn family(&self) -> EventFamily {
        match self {
            Self::ContentRetrieved
            | Self::ContentGrounded
            | Self::ContentCited
            | Self::ContentPresented
            | Self::ContentEngaged => EventFamily::Content,
            Self::TurnStarted | Self::TurnCompleted => EventFamily::Turn,
            Self::CheckoutCompleted => EventFamily::Checkout,
            Self::Extension(name) if name.starts_with("checkout_") => EventFamily::Checkout,
            Self::Extension(_) => EventFamily::Extension,
        }
    }

    /// Returns whether `role` may report this type (docs/api/events.md#event-types).
    pub fn allows(&self, role: SourceRole) -> bool {
        match (self, self.family()) {
            (Self::ContentRetrieved, _) | (_, EventFamily::Extension) => true,
            (_, EventFamily::Checkout) => matches!(role, SourceRole::Index | SourceRole::Agent),
            (_, EventFamily::Content | EventFamily::Turn) => role == SourceRole::Agent,
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns whether a name is namespaced: parts of letters, digits, `_` and `-`, joined with dots.
pub fn is_namespaced(name: &str) -> bool {
    name.contains('.') && name.split('.').all(is_name)
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.len() <= 64 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

named_enum! {
    /// In the order of docs/api/counting.md#5-one-report-represents-the-event.
    pub enum SourceRole {
        Agent = "agent",
        /// A CDN or edge network.
        Edge = "edge",
        /// The content owner's web server.
        Origin = "origin",
        /// A content marketplace or licensed repository.
        Index = "index",
    }
}

impl SourceRole {
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Returns the stored number: 1 to 4 in the order of [`SourceRole::ALL`], or 0 without a role.
    pub fn code(role: Option<Self>) -> u8 {
        match role {
            None => 0,
            Some(Self::Agent) => 1,
            Some(Self::Edge) => 2,
            Some(Self::Origin) => 3,
            Some(Self::Index) => 4,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| Self::code(Some(*role)) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_match_the_specification() {
        let allowed = |name: &str| {
            let event_type = EventType::parse(name).unwrap();
            SourceRole::ALL.into_iter().filter(|role| event_type.allows(*role)).map(SourceRole::as_str).collect::<Vec<_>>()
        };
        assert_eq!(allowed("content_retrieved"), ["agent", "edge", "origin", "index"]);
        for name in
            ["content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started", "turn_completed"]
        {
            assert_eq!(allowed(name), ["agent"], "{name}");
        }
        assert_eq!(allowed("checkout_completed"), ["agent", "index"]);
        assert_eq!(allowed("checkout_started"), ["agent", "index"]);
        assert_eq!(allowed("com.example.shared"), ["agent", "edge", "origin", "index"]);
    }

    #[test]
    fn accepts_specified_commerce_and_namespaced_types() {
        for name in
            ["content_displayed", "content_", "turn_paused", "Content_Retrieved", "", "checkout_", ".", "a..b", "page_view"]
        {
            assert_eq!(EventType::parse(name), None, "{name}");
        }
        for name in ["content_retrieved", "checkout_abandoned", "com.example.shared", "product_viewed", "cart_add"] {
            assert_eq!(EventType::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn stored_roles_round_trip() {
        for role in SourceRole::ALL {
            assert_eq!(SourceRole::from_code(SourceRole::code(Some(role))), Some(role));
        }
        assert_eq!(SourceRole::from_code(0), None);
    }
}
