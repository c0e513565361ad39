//! Event types, source roles and which role may send which type (docs/api/events.md#event-types).

use std::fmt;

/// Longest id, role, name or other short text member, in bytes (docs/api/http.md#size-limits).
pub const MAX_STRING_BYTES: usize = 2_048;

/// Commerce names that the published clients send and no rule forbids; kept as sent.
pub const COMMERCE: [&str; 4] = ["product_viewed", "product_compared", "cart_add", "cart_remove"];

/// What happened. The eight names of the specification, or an extension's name kept as sent.
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
    /// Another `checkout_*` name, a namespaced one with a dot, or one of the clients' commerce names.
    Extension(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFamily {
    /// The five `content_*` types: need a URL or a content id.
    Content,
    /// The two `turn_*` types: never attributed to an owner.
    Turn,
    Checkout,
    Extension,
}

impl EventType {
    /// Every name the specification lists.
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

    /// Reads a type name. `None` is a name that no rule admits (docs/api/events.md#event-types).
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

    /// Whether `role` may report this type (docs/api/events.md#event-types).
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

/// Whether a name is somebody's own: names of letters, digits, `_` and `-`, put together with dots.
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

    /// The number under which a role is stored: 1 to 4, in the order of [`SourceRole::ALL`]; 0 is "not given".
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
    fn the_role_table_is_the_specifications() {
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
    fn only_specified_commerce_and_namespaced_names_are_types() {
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
    fn a_stored_role_is_read_back() {
        for role in SourceRole::ALL {
            assert_eq!(SourceRole::from_code(SourceRole::code(Some(role))), Some(role));
        }
        assert_eq!(SourceRole::from_code(0), None);
    }
}
