//! S5: more than 400 spellings of internal URLs. None of them reaches the canary, whether the URL or its address is rejected.

use crate::egress::CAP;
use service_kit::egress::{Egress, EgressError};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{DnsRecord, TestDns, TestReceiver};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;
use url::Url;

/// Public-looking names that resolve to internal addresses.
const HARMLESS: [&str; 5] =
    ["127.0.0.1.nip.io", "localtest.me", "inside.example.com", "xn--bcher-kva.example", "10-0-0-1.a.test"];

/// Returns every notation of an IPv4 address that some parser accepts.
fn spellings(quad: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = quad.octets();
    let number = u32::from(quad);
    let wide = |zero: u32| -> String {
        quad.to_string().chars().map(|c| c.to_digit(10).map_or(c, |n| char::from_u32(zero + n).unwrap())).collect()
    };
    let (high, low) = (number >> 16, number & 0xffff);
    vec![
        quad.to_string(),
        format!("{quad}."),
        format!("{number}"),
        format!("{number:#x}"),
        format!("{number:#X}"),
        format!("0{number:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("000{a:o}.{b}.{c}.{d}"),
        format!("{a}.{}", number & 0x00ff_ffff),
        format!("{a}.{b}.{low}"),
        format!("{a:#x}.{}", number & 0x00ff_ffff),
        format!("{a}.{b:#x}.0{c:o}.{d}"),
        wide(0xff10),
        wide(0x1d7ce),
        wide(0x1d7f6),
        wide(0xff10).replace('.', "。"),
        quad.to_string().replace('.', "．"),
        quad.to_string().replace('.', "｡"),
        quad.to_string().replace('.', "%2e"),
        quad.to_string().replace('1', "%31"),
        format!("[::ffff:{quad}]"),
        format!("[::FFFF:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{quad}]"),
        format!("[::{quad}]"),
        format!("[64:ff9b::{quad}]"),
        format!("[64:ff9b:1::{high:x}:{low:x}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:{high:x}:{low:x}::1]"),
        format!("[2001::{:x}:{:x}]", !high & 0xffff, !low & 0xffff),
        format!("[fe80::5efe:{quad}]"),
        format!("[::ffff:0:{quad}]"),
        format!("{quad}%00.example.com"),
        format!("user@{quad}"),
        format!("example.com@{quad}"),
        format!("example.com:443@{quad}"),
        format!("{quad}#@example.com"),
        format!("{quad}\\@example.com"),
        format!("{quad}:443"),
        format!("{quad}:22"),
    ]
}

fn corpus() -> BTreeSet<String> {
    let quads = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "8.8.8.8",
    ];
    let mut corpus: BTreeSet<String> =
        quads.iter().flat_map(|quad| spellings(quad.parse().unwrap())).map(|host| format!("https://{host}/")).collect();
    let names = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "ｌｏｃａｌｈｏｓｔ",
        "loc%61lhost",
        "local\u{ad}host",
        "localhost.localdomain",
        "ip6-localhost",
        "metadata",
        "metadata.google.internal",
        "instance-data.ec2.internal",
        "kubernetes.default.svc",
        "kafka.local",
        "db.corp",
        "x.home.arpa",
        "1.0.0.127.in-addr.arpa",
        "x.onion",
        "[::1]",
        "[::]",
        "[fe80::1%25eth0]",
        "[fd00:ec2::254]",
        "[0:0:0:0:0:0:0:1]",
        "[::1]:443",
        "127.1",
        "0",
        "0x0",
        "①②⑦.⓪.⓪.①",
        "*.example.com",
        "_x.example.com",
        "..",
        ".",
        "-",
        "example",
        "com",
        "example..com",
        ".example.com",
    ];
    corpus.extend(names.iter().map(|host| format!("https://{host}/")));
    corpus.extend(HARMLESS.iter().map(|host| format!("https://{host}/")));
    corpus.extend(HARMLESS.iter().map(|host| format!("https://{}./", host.to_uppercase())));
    for scheme in ["http", "ftp", "file", "gopher", "dict", "ws", "wss", "unix", "data", "jar:https", "HTTPS:/\\"] {
        corpus.extend(["127.0.0.1", "localtest.me"].iter().map(|host| format!("{scheme}://{host}/")));
    }
    corpus
}

#[tokio::test]
async fn s5_rejects_every_spelling_of_internal_addresses() {
    let canary = TestReceiver::canary().await;
    let dns = TestDns::start(|_| vec![DnsRecord::Address(Ipv4Addr::LOCALHOST.into())]).await;
    // The canary's port is allowed for public receivers, so an accepted spelling would reach it.
    let port = canary.address.port();
    let settings = WebhookSettings {
        webhook_allow: format!("*:{port}").parse().unwrap(),
        dns_server: Some(dns.address),
        webhook_extra_ca: None,
    };
    let egress = Egress::new(&settings).unwrap();
    let corpus = corpus();
    assert!(corpus.len() >= 400, "{} spellings", corpus.len());
    let mut looked_up = 0;
    for text in &corpus {
        for text in [text.clone(), format!("{}:{port}/", text.trim_end_matches('/'))] {
            let Ok(url) = Url::parse(&text) else { continue };
            let outcome = egress.get(&url, Duration::from_secs(10), CAP).await.expect_err(&text);
            assert!(matches!(outcome, EgressError::RefusedUrl | EgressError::RefusedAddress), "{text}: {outcome:?}");
            looked_up += usize::from(outcome == EgressError::RefusedAddress);
        }
    }
    assert!(looked_up >= 2 * HARMLESS.len(), "public-looking names are checked by their address: {looked_up}");
    assert_eq!(canary.connects(), 0);
}
