//! Shortens text for the messages of failed tests.

pub(crate) fn around(text: &str, place: usize) -> &str {
    &text[text.floor_char_boundary(place.saturating_sub(200))..text.ceil_char_boundary(place + 300)]
}
