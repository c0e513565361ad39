//! The host that a line's request names.

use schemas::site::Site;
use std::cell::RefCell;
use std::sync::Arc;

/// A host whose name somebody can own.
#[derive(Debug)]
pub(super) struct RequestedHost {
    pub(super) site: Site,
    /// The host without `www.`, with its port if there is one.
    pub(super) name: String,
}

impl RequestedHost {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let port = port.parse::<u16>().map(|port| format!(":{port}")).unwrap_or_default();
        let site = Site::from_domain(host).ok()?;
        Some(Self { name: format!("{}{port}", site.domain()), site })
    }
}

/// Parses hosts. Most lines of a log have the host of the line before, so the last one is kept.
#[derive(Default)]
pub(super) struct HostParser {
    last: RefCell<(String, Option<Arc<RequestedHost>>)>,
}

impl HostParser {
    /// Returns the first of these texts that is a host.
    pub(super) fn first<'a>(&self, mut texts: impl Iterator<Item = &'a str>) -> Option<Arc<RequestedHost>> {
        texts.find_map(|text| self.parse(text))
    }

    fn parse(&self, text: &str) -> Option<Arc<RequestedHost>> {
        let (last, host) = &mut *self.last.borrow_mut();
        if last != text {
            *host = RequestedHost::parse(text).map(Arc::new);
            text.clone_into(last);
        }
        host.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_parsed_as_its_own_host() {
        let hosts = HostParser::default();
        let name = |text: &str| hosts.parse(text).map(|host| host.name.clone());
        for _ in 0..2 {
            for (text, expected) in [
                ("", None),
                ("www.a.test", Some("a.test")),
                ("A.test.", Some("a.test")),
                ("203.0.113.5", None),
                ("a.test:8080", Some("a.test:8080")),
                ("b.test:x", Some("b.test")),
                ("b.test:x", Some("b.test")),
            ] {
                assert_eq!(name(text).as_deref(), expected, "{text}");
            }
        }
    }
}
