//! V1, V2, V6: a name that changes its mind between two looks never leads inside.

use crate::egress::CAP;
use service_kit::egress::{Egress, Failure};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{DnsRecord, TestDns, TestReceiver};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use url::Url;

/// S5 asks for so many.
const FLIPS: usize = 1_000;
/// Within what is global unicast, and handed out to nobody.
const NOBODYS: &str = "2d00::1";

fn record(address: &str) -> DnsRecord {
    DnsRecord::Address(address.parse::<IpAddr>().unwrap())
}

fn guard(dns: &TestDns, allow: &str) -> Egress {
    let webhook_allow = allow.parse().unwrap();
    Egress::new(&WebhookSettings { webhook_allow, webhook_extra_ca: None, dns_server: Some(dns.address) }).unwrap()
}

/// Of seven questions two are answered with the outside. A look-up is two questions (A and AAAA), so one attempt of
/// seven sees the outside only, and whoever looked again to connect would be led to the canary.
#[tokio::test]
async fn s5_v1_of_a_thousand_flips_between_outside_and_inside_none_gets_in() {
    let (asked, canary) = (Arc::new(AtomicUsize::new(0)), TestReceiver::canary().await);
    let counted = Arc::clone(&asked);
    let dns = TestDns::start(move |_| {
        let is_inside = counted.fetch_add(1, Ordering::Relaxed) % 7 >= 2;
        // Public, but nobody's: connecting there fails or takes longer than the deadline.
        if is_inside { vec![record("127.0.0.1"), record("::1")] } else { vec![record(NOBODYS)] }
    })
    .await;
    // Any public host at the canary's port: addresses are looked at as they are for port 443.
    let port = canary.address.port();
    let egress = guard(&dns, &format!("*:{port}"));
    let url = Url::parse(&format!("https://flip.test:{port}/")).unwrap();
    let mut outcomes: HashMap<Failure, usize> = HashMap::new();
    for flip in 0..FLIPS {
        let outcome = egress.get(&url, Duration::from_millis(100), CAP).await;
        *outcomes.entry(outcome.expect_err(&format!("flip {flip}"))).or_default() += 1;
    }
    let refused = outcomes.remove(&Failure::RefusedAddress).unwrap_or_default();
    let let_through: usize = [Failure::Unreachable, Failure::Timeout].iter().filter_map(|failure| outcomes.remove(failure)).sum();
    assert!(outcomes.is_empty(), "{outcomes:?}");
    assert!(refused > FLIPS / 4 && let_through > FLIPS / 20, "{refused} refused, {let_through} let through");
    assert!(asked.load(Ordering::Relaxed) >= 2 * FLIPS, "every attempt asks anew");
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn v1_one_inside_address_among_public_ones_refuses_them_all() {
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
        assert_eq!(outcome, Err(Failure::RefusedAddress), "{inside}");
    }
}

/// The answer changes with every question: were the name looked up again to connect, the second address would be called.
#[tokio::test]
async fn v1_what_was_looked_at_is_what_is_connected_to() {
    let (asked, canary) = (Arc::new(AtomicUsize::new(0)), TestReceiver::canary().await);
    let counted = Arc::clone(&asked);
    let dns = TestDns::start(move |_| {
        // A and AAAA of one look-up are two questions: the first look-up sees nobody's loopback address.
        let is_first = counted.fetch_add(1, Ordering::Relaxed) < 2;
        vec![record(if is_first { "127.9.9.9" } else { "127.0.0.1" })]
    })
    .await;
    let port = canary.address.port();
    let url = Url::parse(&format!("https://flip.test:{port}/")).unwrap();
    let outcome = guard(&dns, &format!("flip.test:{port}")).get(&url, Duration::from_secs(10), CAP).await;
    assert_eq!(outcome, Err(Failure::Unreachable), "127.9.9.9 has nobody at this port");
    assert_eq!((asked.load(Ordering::Relaxed), canary.connects()), (2, 0));
}

#[tokio::test]
async fn a_name_without_an_address_and_a_server_that_is_silent_are_not_called() {
    let dns = TestDns::start(|_| Vec::new()).await;
    let url = Url::parse("https://nothing.test/").unwrap();
    assert_eq!(guard(&dns, "").get(&url, Duration::from_secs(10), CAP).await, Err(Failure::NoAddress));
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let settings = WebhookSettings { dns_server: Some(silent.local_addr().unwrap()), ..WebhookSettings::default() };
    let outcome = Egress::new(&settings).unwrap().get(&url, Duration::from_millis(300), CAP).await;
    assert_eq!(outcome, Err(Failure::Timeout), "asking belongs to the attempt");
}

#[tokio::test]
async fn an_allowed_receiver_is_allowed_at_its_port_only() {
    let dns = TestDns::start(|_| vec![record("127.0.0.1")]).await;
    let canary = TestReceiver::canary().await;
    let egress = guard(&dns, "hooks.test:1");
    for (url, expected) in [
        (format!("https://hooks.test:{}/", canary.address.port()), Failure::RefusedUrl),
        ("https://hooks.test/".to_owned(), Failure::RefusedAddress),
        ("https://other.test/".to_owned(), Failure::RefusedAddress),
        ("https://hooks.test:1/".to_owned(), Failure::Unreachable),
        ("http://hooks.test:1/".to_owned(), Failure::RefusedUrl),
    ] {
        assert_eq!(egress.get(&Url::parse(&url).unwrap(), Duration::from_secs(10), CAP).await, Err(expected), "{url}");
    }
    assert_eq!(canary.connects(), 0);
}
