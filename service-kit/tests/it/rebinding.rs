//! V1, V2, V6: DNS records that change between two lookups never lead to internal addresses.

use crate::egress::CAP;
use service_kit::egress::{Egress, EgressError};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{DnsRecord, TestDns, TestReceiver};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use url::Url;

/// Number of address changes that S5 requires.
const FLIPS: usize = 1_000;
/// Global unicast, but not assigned to anyone.
const NOBODYS: &str = "2d00::1";

fn record(address: &str) -> DnsRecord {
    DnsRecord::Address(address.parse::<IpAddr>().unwrap())
}

fn guard(dns: &TestDns, allow: &str) -> Egress {
    let webhook_allow = allow.parse().unwrap();
    Egress::new(&WebhookSettings { webhook_allow, webhook_extra_ca: None, dns_server: Some(dns.address) }).unwrap()
}

/// Two of seven queries return a public address. A lookup consists of two queries (A and AAAA), so one attempt in seven sees only public
/// addresses. If connecting used a second lookup, it would reach the canary.
#[tokio::test]
async fn s5_v1_rebinding_never_reaches_internal_addresses() {
    let (asked, canary) = (Arc::new(AtomicUsize::new(0)), TestReceiver::canary().await);
    let counted = Arc::clone(&asked);
    let dns = TestDns::start(move |_| {
        let is_inside = counted.fetch_add(1, Ordering::Relaxed) % 7 >= 2;
        // Unassigned, so connecting fails or exceeds the deadline.
        if is_inside { vec![record("127.0.0.1"), record("::1")] } else { vec![record(NOBODYS)] }
    })
    .await;
    // Allow any public host on the canary's port, with the same address checks as on port 443.
    let port = canary.address.port();
    let egress = guard(&dns, &format!("*:{port}"));
    let url = Url::parse(&format!("https://flip.test:{port}/")).unwrap();
    let mut outcomes: HashMap<EgressError, usize> = HashMap::new();
    for flip in 0..FLIPS {
        let outcome = egress.get(&url, Duration::from_millis(100), CAP).await;
        *outcomes.entry(outcome.expect_err(&format!("flip {flip}"))).or_default() += 1;
    }
    let refused = outcomes.remove(&EgressError::RefusedAddress).unwrap_or_default();
    let let_through: usize =
        [EgressError::Unreachable, EgressError::Timeout].iter().filter_map(|failure| outcomes.remove(failure)).sum();
    assert!(outcomes.is_empty(), "{outcomes:?}");
    assert!(refused > FLIPS / 4 && let_through > FLIPS / 20, "{refused} refused, {let_through} let through");
    assert!(asked.load(Ordering::Relaxed) >= 2 * FLIPS, "every attempt looks up the name");
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn rejects_names_with_any_internal_address() {
    for inside in [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fd00:ec2::254",
        "2002:7f00:1::",
    ] {
        let dns = TestDns::start(move |_| vec![record("9.9.9.9"), record("2620:fe::9"), record(inside), record("8.8.8.8")]).await;
        let outcome = guard(&dns, "").get(&Url::parse("https://mixed.test/").unwrap(), Duration::from_secs(10), CAP).await;
        assert_eq!(outcome, Err(EgressError::RefusedAddress), "{inside}");
    }
}

/// The DNS response changes with every query. If connecting used a second lookup, it would reach the canary.
#[tokio::test]
async fn connects_only_to_checked_addresses() {
    let (asked, canary) = (Arc::new(AtomicUsize::new(0)), TestReceiver::canary().await);
    let counted = Arc::clone(&asked);
    let dns = TestDns::start(move |_| {
        // The two queries of the first lookup return an unused loopback address.
        let is_first = counted.fetch_add(1, Ordering::Relaxed) < 2;
        vec![record(if is_first { "127.9.9.9" } else { "127.0.0.1" })]
    })
    .await;
    let port = canary.address.port();
    let url = Url::parse(&format!("https://flip.test:{port}/")).unwrap();
    let outcome = guard(&dns, &format!("flip.test:{port}")).get(&url, Duration::from_secs(10), CAP).await;
    assert_eq!(outcome, Err(EgressError::Unreachable), "nothing listens on 127.9.9.9");
    assert_eq!((asked.load(Ordering::Relaxed), canary.connects()), (2, 0));
}

#[tokio::test]
async fn fails_if_dns_is_missing_or_silent() {
    let dns = TestDns::start(|_| Vec::new()).await;
    let url = Url::parse("https://nothing.test/").unwrap();
    assert_eq!(guard(&dns, "").get(&url, Duration::from_secs(10), CAP).await, Err(EgressError::NoAddress));
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let settings = WebhookSettings { dns_server: Some(silent.local_addr().unwrap()), ..WebhookSettings::default() };
    let outcome = Egress::new(&settings).unwrap().get(&url, Duration::from_millis(300), CAP).await;
    assert_eq!(outcome, Err(EgressError::Timeout), "the deadline includes the lookup");
}

#[tokio::test]
async fn allows_a_receiver_only_on_its_port() {
    let dns = TestDns::start(|_| vec![record("127.0.0.1")]).await;
    let canary = TestReceiver::canary().await;
    let egress = guard(&dns, "hooks.test:1");
    for (url, expected) in [
        (format!("https://hooks.test:{}/", canary.address.port()), EgressError::RefusedUrl),
        ("https://hooks.test/".to_owned(), EgressError::RefusedAddress),
        ("https://other.test/".to_owned(), EgressError::RefusedAddress),
        ("https://hooks.test:1/".to_owned(), EgressError::Unreachable),
        ("http://hooks.test:1/".to_owned(), EgressError::RefusedUrl),
    ] {
        assert_eq!(egress.get(&Url::parse(&url).unwrap(), Duration::from_secs(10), CAP).await, Err(expected), "{url}");
    }
    assert_eq!(canary.connects(), 0);
}
