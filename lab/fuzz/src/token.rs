//! A credential or id that a caller sends: API key, user session, click token or event id.
//!
//! - A parsed credential is formatted as it was sent, and is never both a key and a user session.
//! - A key with one changed character is invalid.
//! - An id has one canonical form.

use schemas::event_key::canonical_id;
use schemas::secrets::{PlainApiKey, PlainClickToken, PlainUserSession};

/// Checks the properties. Returns whether the text has the form of a credential.
pub fn run(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let key = PlainApiKey::parse(text);
    let session = PlainUserSession::parse(text);
    if let Some(key) = &key {
        assert_eq!(key.reveal(), text);
        assert!(text.starts_with(key.visible_prefix()) && text.is_ascii());
        assert!(session.is_none(), "a key is also a user session");
        check_typos(text);
    }
    if let Some(session) = &session {
        assert_eq!(session.reveal(), text);
    }
    let token = PlainClickToken::presented(text);
    assert_eq!(token.reveal(), text);
    assert!(token.hash() == PlainClickToken::presented(token.reveal()).hash());
    let id = canonical_id(text);
    assert_eq!(canonical_id(&id), id, "a canonical id is its own canonical form");
    key.is_some() || session.is_some()
}

fn check_typos(key: &str) {
    for at in 0..key.len() {
        let other = if key.as_bytes()[at] == b'x' { "y" } else { "x" };
        let typo = format!("{}{other}{}", &key[..at], &key[at + 1..]);
        assert!(PlainApiKey::parse(&typo).is_none(), "a key with a typo at {at} is valid");
    }
}
