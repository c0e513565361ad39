//! Golden tests of the rules: URLs with their pages, every tracking parameter, every ASCII character.

use super::{CAMPAIGN, TRACKING};
use crate::log::RECORD_VERSION;
use crate::site::ContentUrl;

/// Parameters that are removed, in addition to those with the prefix `utm_`.
const DROPPED: [&str; 13] =
    ["ctx", "gclid", "gclsrc", "dclid", "fbclid", "msclkid", "yclid", "mc_cid", "mc_eid", "igshid", "_hsenc", "_hsmi", "ref_src"];

/// URLs with their pages, as in the keys of stored rows.
const PAGES: [(&str, &str); 54] = [
    ("https://example.com", "example.com"),
    ("http://www.example.com/", "example.com"),
    ("https://WWW.Example.COM./News/", "example.com/News"),
    ("https://blog.example.co.uk/a", "blog.example.co.uk/a"),
    ("https://www.example.co.uk:443/a", "example.co.uk/a"),
    ("https://www.co.uk/a", "www.co.uk/a"),
    ("https://www.github.io/", "www.github.io"),
    ("https://www.me.github.io/", "me.github.io"),
    ("https://www.mythic-beasts.com/", "mythic-beasts.com"),
    ("https://b\u{fc}cher.example/\u{fc}", "xn--bcher-kva.example/%C3%BC"),
    ("https://a.example:8080/x/", "a.example:8080/x"),
    ("http://a.example:443/x", "a.example/x"),
    ("http://192.0.2.1:80/x", "192.0.2.1/x"),
    ("http://[2001:DB8::1]/x", "[2001:db8::1]/x"),
    ("http://localhost/x/y", "localhost/x/y"),
    ("https://u:p@a.example/x", "a.example/x"),
    ("https://a.example/x#part?x", "a.example/x"),
    ("https://a.example/a//b///", "a.example/a//b"),
    ("https://a.example/a/./b/../c", "a.example/a/c"),
    ("https://a.example/a/%2e%2E/c", "a.example/c"),
    ("https://a.example/../..", "a.example"),
    ("https://a.example/a%2Fb", "a.example/a%2Fb"),
    ("https://a.example/a%2fb", "a.example/a%2Fb"),
    ("https://a.example/%41%7a%2D", "a.example/Az-"),
    ("https://a.example/caf\u{e9}", "a.example/caf%C3%A9"),
    ("https://a.example/cafe\u{301}", "a.example/cafe%CC%81"),
    ("https://a.example/a b|c\"d", "a.example/a%20b%7Cc%22d"),
    ("https://a.example/50%", "a.example/50%25"),
    ("https://a.example/%2541", "a.example/%2541"),
    ("https://a.example/x.html", "a.example/x.html"),
    ("https://www.www.a.example/x", "www.www.a.example/x"),
    ("https://a.example/x?a=1%262", "a.example/x?a=1%262"),
    ("https://a.example/%zz", "a.example/%25zz"),
    ("https://a.example/:@!$&'()*+,;=", "a.example/:@!$&'()*+,;="),
    ("https://a.example/x?", "a.example/x"),
    ("https://a.example/?q=1", "a.example?q=1"),
    ("https://a.example/x/?q=1", "a.example/x?q=1"),
    ("https://a.example/x?b=1&a=2", "a.example/x?a=2&b=1"),
    ("https://a.example/x?a=2&a=1", "a.example/x?a=2&a=1"),
    ("https://a.example/x?a&a=", "a.example/x?a&a="),
    ("https://a.example/x?&&a=1&", "a.example/x?a=1"),
    ("https://a.example/x?=1", "a.example/x?=1"),
    ("https://a.example/x?a=%20+%2B", "a.example/x?a=%20+%2B"),
    ("https://a.example/x?q='", "a.example/x?q=%27"),
    ("https://a.example/x?q=2&Q=1", "a.example/x?Q=1&q=2"),
    ("https://a.example/x?%71=2&p=1", "a.example/x?p=1&q=2"),
    ("https://a.example/x?utm_source=a&q=1&utm_=b", "a.example/x?q=1"),
    ("https://a.example/x?utm=1", "a.example/x?utm=1"),
    ("https://a.example/x?fbclid=1&GCLID=2&gclid", "a.example/x"),
    ("https://a.example/x?ref=1&_ga=2&src=3", "a.example/x?_ga=2&ref=1&src=3"),
    ("https://a.example/x?ctx=ctx_1&CTX=1", "a.example/x?CTX=1"),
    ("https://a.example/x?%63tx=1", "a.example/x"),
    ("https://a.example/x?a[]=1&a[]=2", "a.example/x?a[]=1&a[]=2"),
    ("https://a.example/x;v=1?q=a/b?c", "a.example/x;v=1?q=a/b?c"),
];

fn page(url: &str) -> String {
    ContentUrl::parse(url).unwrap().keyed
}

fn is_kept(name: &str) -> bool {
    match page(&format!("https://a.example/x?{name}=1")) {
        page if page == format!("a.example/x?{name}=1") => true,
        page if page == "a.example/x" => false,
        page => panic!("{name}: {page}"),
    }
}

fn names_a_page(name: &str) -> bool {
    !name.starts_with("utm_") && !DROPPED.contains(&name)
}

#[test]
fn e11_stored_pages_never_change() {
    assert_eq!(RECORD_VERSION, 1, "a new version can change these pages");
    for (reported, expected) in PAGES {
        assert_eq!(page(reported), expected, "{reported}");
    }
}

#[test]
fn documents_every_tracking_parameter() {
    let document = include_str!("../../../../docs/api/event-keys.md");
    let (_, after) = document.split_once("Tracking parameters are ").unwrap();
    let (sentence, _) = after.split_once(".\n").unwrap();
    let named: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    let campaign = format!("{CAMPAIGN}*");
    let dropped: Vec<&str> = std::iter::once(campaign.as_str()).chain(TRACKING).collect();
    assert_eq!(named, dropped);
}

#[test]
fn keeps_parameters_with_similar_names() {
    let letters = || ('a'..='z').chain(['_']);
    let longer = |name: &str| letters().map(|letter| format!("{name}{letter}")).collect::<Vec<_>>();
    let one: Vec<String> = longer("");
    let two: Vec<String> = one.iter().flat_map(|name| longer(name)).collect();
    let three: Vec<String> = two.iter().flat_map(|name| longer(name)).collect();
    let neighbours = DROPPED.into_iter().chain(["utm_", "utm_source"]).flat_map(|name| {
        let before = letters().map(move |letter| format!("{letter}{name}"));
        let cut = [name.to_owned(), name[1..].to_owned(), name[..name.len() - 1].to_owned()];
        before.chain(longer(name)).chain(cut)
    });
    for name in one.into_iter().chain(two).chain(three).chain(neighbours) {
        assert_eq!(is_kept(&name), names_a_page(&name), "{name}");
    }
}

#[test]
fn normalizes_escaped_unreserved_characters() {
    const RESERVED: &[u8] = b":/?#[]@!$&'()*+,;=";
    // Characters that the URL standard removes from URLs.
    const REMOVED: &[u8] = b"\t\n\r";
    for byte in 0..128_u8 {
        let (plain, escaped) = (char::from(byte), format!("%{byte:02x}"));
        let is_one = |before: &str| page(&format!("{before}x{plain}x")) == page(&format!("{before}x{escaped}x"));
        let is_other = RESERVED.contains(&byte) || REMOVED.contains(&byte);
        // In a path, a backslash is a slash. In a query, an apostrophe is always escaped.
        assert_eq!(is_one("https://a.example/"), !is_other && byte != b'\\', "{plain:?} in a path");
        assert_eq!(is_one("https://a.example/?q="), !is_other || byte == b'\'', "{plain:?} in a query");
    }
}
