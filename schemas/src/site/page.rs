//! A URL's page, which is the same for all its spellings and part of a fetch's key. Rules and examples:
//! docs/api/event-keys.md#key-of-a-retrieval.
//!
//! Removes only parts that never identify content, so different pages stay distinct. Changing a rule requires a new record version
//! (`log::RECORD_VERSION`).

use super::without_www;
use std::fmt::Write as _;
use url::Url;

/// Parameters that identify where a visitor came from, not the page. Parameters with the prefix [`CAMPAIGN`] do too.
const TRACKING: [&str; 12] =
    ["gclid", "gclsrc", "dclid", "fbclid", "msclkid", "yclid", "mc_cid", "mc_eid", "igshid", "_hsenc", "_hsmi", "ref_src"];
const CAMPAIGN: &str = "utm_";

/// Returns the page of a content URL without user info, fragment and click token. The `url` crate has already resolved dot segments,
/// lowercased the host, and removed the scheme's default port.
pub(super) fn page_of_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let mut page = strip_www(host).to_owned();
    // Removes the other scheme's default port.
    if let Some(port) = url.port().filter(|port| !matches!(port, 80 | 443)) {
        let _ = write!(page, ":{port}");
    }
    page.push_str(normalize_escapes(url.path()).trim_end_matches('/'));
    let query = normalize_escapes(url.query().unwrap_or_default());
    let mut parameters: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !is_tracking(name(pair))).collect();
    // Parameters with the same name keep their order, which may matter.
    parameters.sort_by_key(|pair| name(pair));
    if !parameters.is_empty() {
        page.push('?');
        page.push_str(&parameters.join("&"));
    }
    page
}

/// Removes `www.` as [`super::Site::domain`] does: keeps it if the rest would lose another `www.` when parsed again.
fn strip_www(host: &str) -> &str {
    let rest = without_www(host);
    if without_www(rest) == rest { rest } else { host }
}

fn name(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

/// Ignores case, because no page is known to give `GCLID` another meaning.
fn is_tracking(name: &str) -> bool {
    let is_campaign = name.get(..CAMPAIGN.len()).is_some_and(|start| start.eq_ignore_ascii_case(CAMPAIGN));
    is_campaign || TRACKING.iter().any(|tracking| name.eq_ignore_ascii_case(tracking))
}

/// Normalizes percent-escapes (RFC 3986, 6.2.2): upper-case hexadecimal digits, unreserved characters unescaped, and invalid characters
/// escaped. A percent sign that doesn't start an escape is escaped too, because the normalized text after it could turn it into one.
fn normalize_escapes(text: &str) -> String {
    let mut settled = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(&first) = rest.first() {
        let escaped = escaped_byte(rest);
        if escaped.map_or(is_plain(first), is_unreserved) {
            settled.push(escaped.unwrap_or(first).into());
        } else {
            let _ = write!(settled, "%{:02X}", escaped.unwrap_or(first));
        }
        rest = &rest[escaped.map_or(1, |_| 3)..];
    }
    settled
}

fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns whether a byte is unreserved or reserved. Clients differ in whether they escape other bytes.
fn is_plain(byte: u8) -> bool {
    is_unreserved(byte) || b":/?#[]@!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests {
    use crate::site::{ContentUrl, Site};
    use proptest::prelude::*;
    use proptest::sample::Index;

    fn page(url: &str) -> String {
        ContentUrl::parse(url).unwrap().keyed
    }

    #[test]
    fn e11_canonicalization_matches_the_documented_table() {
        let document = include_str!("../../../docs/api/event-keys.md");
        let (_, table) = document.split_once("### Spellings of one page").unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| `")).map_while(|line| {
            let mut cells = line.trim_matches(['|', ' ']).split(" | ").map(|cell| cell.trim_matches('`'));
            Some((cells.next()?, cells.next()?)).filter(|(reported, _)| reported.starts_with("http"))
        });
        let rows: Vec<_> = rows.collect();
        assert!(rows.len() > 25, "the table has more rows than {}", rows.len());
        for (reported, expected) in rows {
            assert_eq!(page(reported), expected, "{reported}");
        }
        // The documented table can't contain these.
        assert_eq!(page("https://a.example/a|b%7cc"), "a.example/a%7Cb%7Cc");
    }

    /// The parts of a page's URL.
    #[derive(Clone, Debug, PartialEq)]
    struct Page {
        host: String,
        segments: Vec<String>,
        parameters: Vec<(String, String)>,
    }

    fn pages() -> impl Strategy<Value = Page> {
        // Names similar to tracking parameters, and lists long enough to detect an unstable sort.
        let names = "([abz]|q|ref|source|utm|utmost|gcli|gclids|ctxt|mc|hsenc)";
        let parameters = prop::collection::vec((names, "[a-c0~é]{0,2}"), 0..40);
        let segments = prop::collection::vec("[a-c~é]{1,2}", 0..3);
        ("(shop\\.)?[ab]\\.(example|co\\.uk)", segments, parameters).prop_map(|(host, segments, mut parameters)| {
            // Parameters with the same name form a list.
            parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
            Page { host, segments, parameters }
        })
    }

    /// Minimal changes that make a different page.
    #[derive(Clone, Debug)]
    enum Step {
        Drop(Index),
        Repeat(Index),
        Rename(Index),
        Revalue(Index),
        Add(String),
        Append(String),
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            any::<Index>().prop_map(Step::Drop),
            any::<Index>().prop_map(Step::Repeat),
            any::<Index>().prop_map(Step::Rename),
            any::<Index>().prop_map(Step::Revalue),
            "(q|ref|source|utm|utmost)".prop_map(Step::Add),
            "(index\\.html|x)".prop_map(Step::Append),
        ]
    }

    impl Step {
        /// Returns the page after this change.
        fn from(&self, page: &Page) -> Page {
            let mut other = page.clone();
            let nth = |index: &Index| (!page.parameters.is_empty()).then(|| index.index(page.parameters.len()));
            let place = match self {
                Self::Drop(index) | Self::Repeat(index) | Self::Rename(index) | Self::Revalue(index) => nth(index),
                Self::Add(_) | Self::Append(_) => None,
            };
            match (self, place) {
                (Self::Drop(_), Some(at)) => drop(other.parameters.remove(at)),
                (Self::Repeat(_), Some(at)) => other.parameters.insert(at, page.parameters[at].clone()),
                (Self::Rename(_), Some(at)) => other.parameters[at].0.push('y'),
                (Self::Revalue(_), Some(at)) => other.parameters[at].1.push('y'),
                (Self::Add(name), _) => other.parameters.push((name.clone(), "1".to_owned())),
                (Self::Append(segment), _) => other.segments.push(segment.clone()),
                (_, None) => other.segments.push("y".to_owned()),
            }
            other.parameters.sort_by(|(one, _), (another, _)| one.cmp(another));
            other
        }
    }

    /// One spelling of a page's URL.
    #[derive(Clone, Debug)]
    struct Spelling {
        start: String,
        port: Index,
        slashes: usize,
        tracking: Vec<(Index, String)>,
        moved: Vec<(Index, Index)>,
        escaped: Vec<bool>,
        end: String,
    }

    fn spellings() -> impl Strategy<Value = Spelling> {
        let names = "(utm_[a-z]{0,3}|UTM_Source|gclid|gclsrc|dclid|fbclid|msclkid|yclid|mc_cid|mc_eid|igshid|_hsenc|_hsmi|ref_src|ctx)(=[a-z]{0,2})?";
        (
            "https?://(u:p@)?(www\\.)?",
            any::<Index>(),
            0..3_usize,
            prop::collection::vec((any::<Index>(), names), 0..3),
            prop::collection::vec((any::<Index>(), any::<Index>()), 0..4),
            prop::collection::vec(any::<bool>(), 12),
            "(#[a-z?/]{0,3})?",
        )
            .prop_map(|(start, port, slashes, tracking, moved, escaped, end)| Spelling {
                start,
                port,
                slashes,
                tracking,
                moved,
                escaped,
                end,
            })
    }

    impl Spelling {
        fn spell(&self, page: &Page) -> String {
            let escaped = |nth: usize, text: &str| -> String {
                match self.escaped[nth % self.escaped.len()] {
                    // Escapes with upper-case and lower-case digits, both required and optional.
                    true => text
                        .bytes()
                        .enumerate()
                        .map(|(at, byte)| if at % 2 == 0 { format!("%{byte:02x}") } else { format!("%{byte:02X}") })
                        .collect(),
                    false => text.to_owned(),
                }
            };
            let port = ["", ":80", ":443", ":"][self.port.index(4)];
            let path: String =
                page.segments.iter().enumerate().map(|(nth, segment)| format!("/{}", escaped(nth, segment))).collect();
            let pair = |(nth, (name, value)): (usize, &(String, String))| {
                format!("{}={}", escaped(nth + 3, name), escaped(nth + 6, value))
            };
            let mut pairs: Vec<String> = page.parameters.iter().enumerate().map(pair).collect();
            let mut names: Vec<&str> = page.parameters.iter().map(|(name, _)| name.as_str()).collect();
            for (one, other) in &self.moved {
                if names.is_empty() {
                    break;
                }
                let (one, other) = (one.index(names.len()), other.index(names.len()));
                // Moving a parameter past others with the same name would change the list.
                let between = &names[one.min(other)..=one.max(other)];
                if between.iter().filter(|name| **name == names[one]).count() == 1 {
                    let (pair, name) = (pairs.remove(one), names.remove(one));
                    pairs.insert(other, pair);
                    names.insert(other, name);
                }
            }
            for (at, tracking) in &self.tracking {
                pairs.insert(at.index(pairs.len() + 1), tracking.clone());
            }
            let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
            format!("{}{}{port}{path}{}{query}{}", self.start, page.host, "/".repeat(self.slashes), self.end)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn e11_all_spellings_of_a_page_have_one_key(
            one in pages(), other in pages(), step in steps(), spelled in prop::collection::vec(spellings(), 3),
        ) {
            let next = step.from(&one);
            prop_assert_ne!(&next, &one);
            let all: Vec<ContentUrl> = spelled.iter().map(|spelling| ContentUrl::parse(&spelling.spell(&one)).unwrap()).collect();
            for (spelling, url) in spelled.iter().zip(&all) {
                prop_assert_eq!(&url.keyed, &all[0].keyed, "{}", spelling.spell(&one));
                prop_assert_eq!(&url.site, &all[0].site, "{}", spelling.spell(&one));
                let others = ContentUrl::parse(&spelling.spell(&other)).unwrap();
                prop_assert_eq!(others.keyed == url.keyed, one == other, "{} {}", spelling.spell(&one), spelling.spell(&other));
                let nexts = ContentUrl::parse(&spelling.spell(&next)).unwrap();
                prop_assert_ne!(&nexts.keyed, &url.keyed, "{} {}", spelling.spell(&one), spelling.spell(&next));
            }
        }

        #[test]
        fn pages_are_canonical(
            host in "(www\\.){0,3}([ab]\\.)?(a\\.example|co\\.uk|a_b\\.test)(:8080)?",
            rest in "(/|%|%2|%4|[a-cA-C0-9é|^?&=+;.#~_-]|utm_|gclid=|%41|%2e|%2F|ctx=){0,16}",
        ) {
            let Ok(url) = ContentUrl::parse(&format!("https://{host}/{rest}")) else { return Ok(()) };
            let again = ContentUrl::parse(&format!("https://{}", url.keyed)).unwrap();
            prop_assert_eq!(&again.keyed, &url.keyed);
            prop_assert_eq!(again.site.as_ref().map(Site::as_str), url.site.as_ref().map(Site::as_str));
        }
    }
}
