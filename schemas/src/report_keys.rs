//! Keys under which the worker stores a report (docs/api/event-keys.md#keys). Pure.
//!
//! Compute them only after looking up click tokens, because every key contains the host.

use crate::event_key::EventKey;
use crate::ids::{DrainId, OrgId};
use crate::log::LogEvent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportKeys {
    /// The key that all observers of a fetch share; `None` without a correlation id.
    pub shared: Option<EventKey>,
    /// The same for all copies of a report.
    pub identity: EventKey,
}

impl ReportKeys {
    /// Derives the keys of a report by `org` that was received through `drain`.
    pub fn new(org: OrgId, drain: Option<DrainId>, event: &LogEvent) -> Self {
        let shared = event.correlation_key.map(|correlation| EventKey::shared(&event.site, correlation));
        let identity = match shared {
            Some(shared) => EventKey::for_correlated_report(org, event.source_role, drain, shared, event.own_key),
            None => EventKey::for_report(org, &event.site, event.own_key),
        };
        Self { shared, identity }
    }

    /// Returns the key of the report's event, unless an earlier report by the same observer was accepted.
    pub fn event(&self) -> EventKey {
        self.shared.unwrap_or(self.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;
    use uuid::Uuid;

    const REPORTER: OrgId = OrgId(Uuid::from_u128(1));
    const ISSUER: OrgId = OrgId(Uuid::from_u128(2));

    fn event(members: &str) -> LogEvent {
        let text = format!(r#"{{"own_key":"{:032x}","type":"content_retrieved","at_ms":0{members}}}"#, 10);
        serde_json::from_str(&text).unwrap()
    }

    fn drain(n: u128) -> Option<DrainId> {
        Some(DrainId(Uuid::from_u128(n)))
    }

    #[test]
    fn observers_share_a_key_but_not_an_identity() {
        let seen =
            |host: &str, role: &str| event(&format!(r#","correlation_key":"{:032x}","site":"{host}","source_role":"{role}""#, 3));
        let edge = ReportKeys::new(REPORTER, drain(9), &seen("com.example", "edge"));
        for other in [
            ReportKeys::new(REPORTER, drain(8), &seen("com.example", "edge")),
            ReportKeys::new(REPORTER, None, &seen("com.example", "edge")),
            ReportKeys::new(REPORTER, drain(9), &seen("com.example", "origin")),
            ReportKeys::new(ISSUER, drain(9), &seen("com.example", "edge")),
        ] {
            assert_eq!((other.shared, other.event()), (edge.shared, edge.event()));
            assert_ne!(other.identity, edge.identity);
        }
        let elsewhere = ReportKeys::new(REPORTER, drain(9), &seen("com.example.shop", "edge"));
        assert!(elsewhere.shared != edge.shared && elsewhere.identity != edge.identity, "another host is another event");
    }

    #[test]
    fn same_line_from_two_drains_is_one_report() {
        let line = event(r#","site":"com.example","source_role":"edge""#);
        let imported = ReportKeys::new(REPORTER, None, &line);
        assert_eq!(ReportKeys::new(REPORTER, drain(9), &line), imported);
        assert_eq!(imported.event(), imported.identity);
        let elsewhere = event(r#","site":"com.example.shop","source_role":"edge""#);
        assert_ne!(ReportKeys::new(REPORTER, None, &elsewhere), imported, "another host is another event");
    }

    /// The gateway resolved the token of one copy and left the other to the worker.
    #[test]
    fn resolved_and_unresolved_copies_have_one_identity() {
        let token = crate::secrets::PlainClickToken::presented("ctx_secret").hash();
        let hash = serde_json::to_string(&token).unwrap();
        for url in ["", r#","content_url":"https://pay.test/","site":"test.pay""#] {
            let bound = |mut event: LogEvent| {
                event.bind_to_click(REPORTER, ISSUER, SessionId(Uuid::from_u128(3)), "https://www.shop.test/offer");
                ReportKeys::new(REPORTER, None, &event)
            };
            let unresolved = event(&format!(r#"{url},"ctx_hash":{hash}"#));
            assert_eq!(bound(unresolved), bound(event(url)), "{url}");
            let host = if url.is_empty() { "test.shop" } else { "test.pay" };
            assert_eq!(bound(event(url)).identity, EventKey::for_report(REPORTER, host, EventKey(10)));
        }
    }
}
