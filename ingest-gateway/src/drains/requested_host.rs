//! Finds a line's requested host.

use super::line_fields::{Field, Fields};
use schemas::site::Site;
use std::cell::RefCell;
use std::sync::Arc;

/// A public hostname.
#[derive(Debug)]
pub(super) struct RequestedHost {
    pub(super) site: Site,
    /// The host without `www.`, with its port if it has one.
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

/// The possible hosts of lines. Consecutive lines usually have the same host, so the last one is cached.
#[derive(Default)]
pub(super) struct HostFinder {
    /// Host of all lines, if the sender sets it.
    of_all: Option<String>,
    /// Host of lines without a host, if the drain has exactly one.
    only: Option<String>,
    last: RefCell<(String, Option<Arc<RequestedHost>>)>,
}

impl HostFinder {
    /// Creates a finder. The sender's host takes precedence over the drain's.
    pub(super) fn new(of_all: Option<String>, of_drain: &[Site]) -> Self {
        let only = if let [host] = of_drain { Some(host.domain()) } else { None };
        Self { of_all, only, last: RefCell::default() }
    }

    /// Returns a line's possible hosts, most certain first. The sender knows its host, while a host in a line can come from a header.
    pub(super) fn named<'f>(&'f self, fields: &'f Fields<'_>) -> impl Iterator<Item = &'f str> {
        let of_all = self.of_all.as_deref().into_iter();
        of_all.chain(fields.hosts()).chain(self.only.as_deref()).chain(fields.get(Field::UnsureHost))
    }

    /// Returns a line's host.
    pub(super) fn find(&self, fields: &Fields<'_>) -> Option<Arc<RequestedHost>> {
        self.first(self.named(fields))
    }

    /// Returns the first text that is a host.
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
    fn parses_each_text_as_its_own_host() {
        let hosts = HostFinder::default();
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
