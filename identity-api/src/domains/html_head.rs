//! Searches the head of an untrusted page for a domain's token, without building a tree: a page of 64 KiB can have a tree with millions of
//! nodes (`a2_stops_parsing_after_the_head`).
//!
//! The search stops at the end of the head, because visitors can write to the body. Where a browser would repair the page, the head counts
//! as ended.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use schemas::identity::domain::META_NAME;
use tokio::time::Instant;

/// Maximum number of tokens to read, including parse errors. A typical head has a few hundred.
const MAX_TOKENS: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) has_token: bool,
    pub(super) tokens: usize,
}

/// Searches a page's head for `<meta name="…" content="token">`, at most until the deadline.
pub(super) fn scan(page: &[u8], token: &str, until: Instant) -> Scan {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut place = ParserState::default();
    let mut tokens = 0;
    for Ok(read) in Tokenizer::new_with_emitter(page, emitter).take(MAX_TOKENS) {
        tokens += 1;
        match place.step(&read) {
            Step::Meta(meta) if names(meta, token) => return Scan { has_token: true, tokens },
            Step::Meta(_) | Step::On => {}
            Step::End => break,
        }
        if Instant::now() >= until {
            break;
        }
    }
    Scan { has_token: false, tokens }
}

fn names(meta: &StartTag<()>, token: &str) -> bool {
    let attribute = |name: &str| meta.attributes.get(name.as_bytes()).map(|value| value.as_slice());
    attribute("name").is_some_and(|name| name.eq_ignore_ascii_case(META_NAME.as_bytes()))
        && attribute("content").is_some_and(|content| content.trim_ascii() == token.as_bytes())
}

#[derive(Default)]
struct ParserState {
    /// Inside an element that contains only text, such as a title.
    is_in_text: bool,
    /// Number of enclosing templates, whose content isn't part of the page.
    templates: usize,
}

enum Step<'a> {
    Meta(&'a StartTag<()>),
    On,
    End,
}

impl ParserState {
    fn step<'a>(&mut self, token: &'a Token<()>) -> Step<'a> {
        match token {
            Token::StartTag(tag) => self.open(tag),
            // A text element ends only with its own end tag.
            Token::EndTag(_) if self.is_in_text => {
                self.is_in_text = false;
                Step::On
            }
            Token::EndTag(tag) => self.close(&tag.name),
            Token::String(text) if !self.is_in_text && self.templates == 0 && !text.trim_ascii().is_empty() => Step::End,
            Token::String(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => Step::On,
        }
    }

    fn open<'a>(&mut self, tag: &'a StartTag<()>) -> Step<'a> {
        match tag.name.as_slice() {
            b"template" => self.templates += 1,
            b"title" | b"script" | b"style" | b"noscript" => self.is_in_text = true,
            _ if self.templates > 0 => {}
            b"meta" => return Step::Meta(tag),
            b"html" | b"head" | b"base" | b"basefont" | b"bgsound" | b"link" => {}
            _ => return Step::End,
        }
        Step::On
    }

    fn close(&mut self, name: &[u8]) -> Step<'static> {
        match name {
            b"template" => self.templates = self.templates.saturating_sub(1),
            b"head" | b"body" | b"html" | b"br" if self.templates == 0 => return Step::End,
            _ => {}
        }
        Step::On
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn scan_page(page: &str) -> Scan {
        scan(page.as_bytes(), "t1", Instant::now() + Duration::from_secs(3_600))
    }

    #[test]
    fn finds_the_token_only_in_the_pages_head() {
        let tag = r#"<meta name="content-telemetry-verification" content="t1">"#;
        for good in [
            format!("<!doctype html><html><head><title>x</title>{tag}</head><body></body></html>"),
            format!("{tag}<p>a page without a head"),
            "<head><META CONTENT=' t1 ' NAME=Content-Telemetry-Verification />".to_owned(),
            format!("<html><head><script>if (1 < 2) {{}}</script>{tag}{}", "<p>cut off"),
            format!(
                "\u{feff}<html>\n<head>\n<!-- x --><template><p>x</template><link rel=x></nothing><style>p {{}}</style>{tag}"
            ),
        ] {
            assert!(scan_page(good.trim_start_matches('\u{feff}')).has_token, "{good}");
        }
        for bad in [
            String::new(),
            format!("<html><head></head><body>{tag}</body></html>"),
            format!("<html><head></head>{tag}</html>"),
            format!("<p>a comment of a visitor {tag}"),
            format!("x{tag}"),
            format!("<head><!-- {tag} --></head>"),
            format!("<head><script>'{tag}'</script></head>"),
            format!("<head><title>{tag}</title></head>"),
            format!("<head><title>cut off {tag}"),
            format!("<head><style>{tag}</style><noscript><p>{tag}</noscript></head>"),
            format!("<head><noframes>{tag}</noframes></head>"),
            format!("<head><template>{tag}</template></head>"),
            format!("<head><template><template></template>{tag}</template></head>"),
            format!("<head></br>{tag}"),
            r#"<head><meta name="content-telemetry-verification" content="t12"></head>"#.to_owned(),
            r#"<head><meta property="content-telemetry-verification" content="t1"></head>"#.to_owned(),
            r#"<head><meta name="other" content="t1"></head>"#.to_owned(),
        ] {
            assert!(!scan_page(&bad).has_token, "{bad}");
        }
    }

    /// In a tree, every paragraph would copy each of thousands of open formatting elements: 29 million nodes.
    #[test]
    fn a2_stops_parsing_after_the_head() {
        let mut page = String::from("<head><title>x</title></head>");
        (0..4_000).for_each(|number| page.push_str(&format!("<b a={number}>")));
        page.push_str(&"<p>".repeat(7_000));
        assert_eq!(scan_page(&page), Scan { has_token: false, tokens: 5 }, "{} bytes", page.len());
    }

    #[test]
    fn limits_tokens_in_an_endless_head() {
        let meta = "<meta>";
        let tag = r#"<meta name="content-telemetry-verification" content="t1">"#;
        assert_eq!(scan_page(&meta.repeat(100_000)).tokens, MAX_TOKENS);
        assert!(scan_page(&format!("{}{tag}", meta.repeat(MAX_TOKENS - 1))).has_token);
        assert!(!scan_page(&format!("{}{tag}", meta.repeat(MAX_TOKENS))).has_token);
        let over = scan(format!("{meta}{tag}").as_bytes(), "t1", Instant::now());
        assert_eq!(over, Scan { has_token: false, tokens: 1 }, "stops at the deadline");
        // One tag with many attributes, and nested templates.
        let attributes: String = (0..9_000).map(|number| format!(" a{number}")).collect();
        assert!(scan_page(&format!("<meta{attributes}>{tag}")).has_token);
        assert!(!scan_page(&format!("{}{tag}", "<template>".repeat(6_000))).has_token);
    }
}
