use super::*;
use crate::testing::{Change, NOW, Sent, named, rfc_key};
use crate::verify_base;
use proptest::prelude::*;
use std::collections::HashSet;

const ID: &str = "agent-2026";
const NONCE: &str = "bm9uY2Utb2YtYS10ZXN0";
const BODY: &[u8] = br#"{"events":[]}"#;

fn input() -> String {
    format!(
        r#"ct=("@method" "@target-uri" "content-type" "content-digest" "content-encoding");created={NOW};expires={};keyid="{ID}";alg="ed25519";nonce="{NONCE}";tag="content-telemetry""#,
        NOW + 300
    )
}

fn signed() -> Sent {
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip"), ("x-api-key", "secret")];
    let mut sent = Sent::new("POST", "https://telemetry.example/events?a=1", &headers, BODY);
    let signer = Signer { key: &rfc_key(), key_id: ID, created: NOW, nonce: NONCE };
    for (name, value) in sent.read(|request| sign_request(request, BODY, &signer)).unwrap() {
        sent.set(name, &value);
    }
    sent
}

fn check_at(sent: &Sent, keys: &[Key], now: i64) -> Verdict {
    sent.read(|request| verify(request, &sent.body, keys, now, |_, _, _| true)).verdict
}

fn check(sent: &Sent) -> Verdict {
    check_at(sent, &[named(ID, &rfc_key())], NOW)
}

#[test]
fn verifies_its_own_signatures() {
    let mut sent = signed();
    assert_eq!(*sent.header("signature-input"), input());
    let checked = sent.read(|request| verify(request, BODY, &[named(ID, &rfc_key())], NOW, |_, _, _| true));
    let (claim, key) = (checked.claim.unwrap(), checked.key.unwrap());
    assert_eq!(checked.verdict, Verdict::Valid);
    assert!(verify_base(&claim.base, &claim.signature, &key));
    assert!(!verify_base(&claim.base.replace("gzip", "br"), &claim.signature, &key));
    assert!(!claim.base.contains("secret"), "{}", claim.base);
}

/// These requests are signed as they are, so each breaks only one rule.
#[test]
fn returns_the_reason_for_unusual_signature_inputs() {
    let (last, later) = (format!("expires={}", NOW + 300), format!("expires={}", NOW + 301));
    let created = format!("created={NOW}");
    let cases: [(&str, &str, &str, Reason); 32] = [
        ("no method", r#""@method" "#, "", Reason::Incomplete),
        ("no target", r#""@target-uri" "#, "", Reason::Incomplete),
        ("no content type", r#""content-type" "#, "", Reason::Incomplete),
        ("no digest", r#""content-digest" "#, "", Reason::Incomplete),
        ("no content encoding", r#" "content-encoding""#, "", Reason::Incomplete),
        ("authority instead of target", "@target-uri", "@authority", Reason::Incomplete),
        ("more than the profile", r#""@method""#, r#""@method" "@authority""#, Reason::Unsupported),
        ("a secret header", r#""@method""#, r#""@method" "x-api-key""#, Reason::Unsupported),
        ("a missing header", r#""@method""#, r#""@method" "date""#, Reason::Incomplete),
        ("a component twice", r#""@method""#, r#""@method" "@method""#, Reason::Malformed),
        ("of another request", r#""@method""#, r#""@method";req"#, Reason::Unsupported),
        ("of a response", "@method", "@status", Reason::Unsupported),
        ("upper case", "content-type", "Content-Type", Reason::Malformed),
        ("structured", r#""content-type""#, r#""content-type";sf"#, Reason::Unsupported),
        ("as bytes", r#""content-type""#, r#""content-type";bs"#, Reason::Unsupported),
        ("a token as component", r#""content-type""#, "content-type", Reason::Malformed),
        ("301 seconds", &last, &later, Reason::Stale),
        ("expires before it begins", &last, "expires=1", Reason::Stale),
        ("no end", &format!(";{last}"), "", Reason::Incomplete),
        ("no begin", &format!(";{created}"), "", Reason::Incomplete),
        ("a begin with fractions", &created, &format!("{created}.5"), Reason::Malformed),
        ("a begin as text", &created, &format!("created=\"{NOW}\""), Reason::Malformed),
        ("no key id", &format!(";keyid=\"{ID}\""), "", Reason::Incomplete),
        ("a key id as token", &format!("\"{ID}\""), ID, Reason::Malformed),
        ("an unknown key id", ID, "agent-2025", Reason::NoKey),
        ("two key ids", ";keyid", r#";keyid="other";keyid"#, Reason::Malformed),
        ("no algorithm", r#";alg="ed25519""#, "", Reason::Incomplete),
        ("another algorithm", r#""ed25519""#, r#""hmac-sha256""#, Reason::Unsupported),
        ("an algorithm as token", r#""ed25519""#, "ed25519", Reason::Malformed),
        ("no nonce", &format!(";nonce=\"{NONCE}\""), "", Reason::Incomplete),
        ("a short nonce", NONCE, "0123456789abcde", Reason::Malformed),
        ("a long nonce", NONCE, &"n".repeat(129), Reason::Malformed),
    ];
    for (name, from, to, reason) in cases {
        let (mut sent, input) = (signed(), input());
        assert!(input.contains(from), "{name}");
        sent.sign(&rfc_key(), &input.replacen(from, to, 1));
        assert_eq!(check(&sent), Verdict::Invalid(reason), "{name}");
    }
}

#[test]
fn returns_the_reason_for_changes_after_signing() {
    let cases: [(&str, Change, Reason); 29] = [
        ("method", |sent| sent.method = "PUT".to_owned(), Reason::BadSignature),
        ("scheme", |sent| sent.uri = sent.uri.replace("https", "http"), Reason::BadSignature),
        ("host", |sent| sent.uri = sent.uri.replace("telemetry.", "telemetry2."), Reason::BadSignature),
        ("path", |sent| sent.uri = sent.uri.replace("/events", "/sessions"), Reason::BadSignature),
        ("query", |sent| sent.uri.push_str("&b=2"), Reason::BadSignature),
        ("no absolute target", |sent| sent.uri = "/events".to_owned(), Reason::Malformed),
        ("content type", |sent| sent.set("content-type", "text/plain"), Reason::BadSignature),
        ("a second content type", |sent| sent.headers.push(("Content-Type".into(), "text/plain".into())), Reason::BadSignature),
        ("no content type", |sent| sent.remove("content-type"), Reason::Incomplete),
        ("content encoding", |sent| sent.set("content-encoding", "br"), Reason::BadSignature),
        ("no content encoding", |sent| sent.remove("content-encoding"), Reason::Incomplete),
        ("a line break in a header", |sent| sent.header("content-type").push_str("\n\"x\": y"), Reason::Malformed),
        ("a letter that is not ASCII", |sent| sent.header("content-type").push('ü'), Reason::Malformed),
        ("body", |sent| sent.body.push(b' '), Reason::DigestMismatch),
        ("empty body", |sent| sent.body.clear(), Reason::DigestMismatch),
        (
            "body and digest",
            |sent| {
                sent.body.push(b' ');
                let digest = format!("sha-256=:{}:", BASE64.encode(&Sha256::digest(&sent.body)));
                sent.set("content-digest", &digest);
            },
            Reason::BadSignature,
        ),
        ("no digest", |sent| sent.remove("content-digest"), Reason::Incomplete),
        ("another digest", |sent| sent.replace("content-digest", "sha-256", "sha-512"), Reason::Unsupported),
        ("a digest as text", |sent| sent.set("content-digest", "sha-256=\"x\""), Reason::Malformed),
        ("two digests", |sent| sent.headers.push(("content-digest".into(), "sha-256=:AAAA:".into())), Reason::Malformed),
        ("no signature", |sent| sent.remove("signature"), Reason::Incomplete),
        ("another label", |sent| sent.replace("signature", "ct=", "cd="), Reason::Incomplete),
        ("two signatures", |sent| sent.headers.push(("signature".into(), "ct=:AAAA:".into())), Reason::Malformed),
        ("a short signature", |sent| sent.set("signature", "ct=:AAAA:"), Reason::Malformed),
        ("a signature as text", |sent| sent.set("signature", "ct=\"AAAA\""), Reason::Malformed),
        ("unusual base64", |sent| sent.replace("signature", "==:", ":"), Reason::Malformed),
        ("no list", |sent| sent.set("signature-input", "ct=1;tag=\"content-telemetry\""), Reason::Malformed),
        ("an open list", |sent| sent.set("signature-input", "ct=(\"@method\""), Reason::Malformed),
        ("the label twice", |sent| sent.headers.push(("signature-input".into(), input())), Reason::Malformed),
    ];
    for (name, change, reason) in cases {
        let mut sent = signed();
        change(&mut sent);
        assert_eq!(check(&sent), Verdict::Invalid(reason), "{name}");
    }
}

#[test]
fn ignores_signatures_with_other_tags() {
    let mut sent = signed();
    sent.headers.push(("signature-input".into(), r#"sig1=("@method");created=1;tag="other""#.into()));
    sent.headers.push(("signature".into(), "sig1=:AAAA:".into()));
    assert_eq!(check(&sent), Verdict::Valid);
    let other = input().replace("tag=\"content-telemetry\"", "tag=\"web-bot-auth\"");
    for unsigned in ["", &other, &other.replace("tag=\"web-bot-auth\"", "x=1")] {
        sent.sign(&rfc_key(), unsigned);
        assert_eq!(check(&sent), Verdict::None, "{unsigned}");
    }
    sent.remove("signature-input");
    assert_eq!(check(&sent), Verdict::None);
}

#[test]
fn rejects_two_signatures_with_the_tag() {
    let mut sent = signed();
    sent.headers.push(("signature-input".into(), input().replacen("ct=", "second=", 1)));
    assert_eq!(check(&sent), Verdict::Invalid(Reason::Unsupported));
}

#[test]
fn rejects_content_encoding_added_after_signing() {
    let mut sent = signed();
    sent.remove("content-encoding");
    sent.sign(&rfc_key(), &input().replace(r#" "content-encoding""#, ""));
    assert_eq!(check(&sent), Verdict::Valid);
    sent.set("content-encoding", "gzip");
    assert_eq!(check(&sent), Verdict::Invalid(Reason::Incomplete));
}

#[test]
fn limits_clock_skew() {
    let stale = Verdict::Invalid(Reason::Stale);
    for (after, verdict) in [(-61, stale), (-60, Verdict::Valid), (300, Verdict::Valid), (301, stale), (i64::MAX - NOW, stale)] {
        assert_eq!(check_at(&signed(), &[named(ID, &rfc_key())], NOW + after), verdict, "{after}");
    }
}

#[test]
fn rejects_replays_and_remembers_only_valid_nonces() {
    let mut seen = HashSet::new();
    let mut check = |sent: &Sent, now| {
        let is_first_use = |key: &str, nonce: &str, expires| seen.insert((key.to_owned(), nonce.to_owned(), expires));
        sent.read(|request| verify(request, &sent.body, &[named(ID, &rfc_key())], now, is_first_use)).verdict
    };
    let (sent, mut changed) = (signed(), signed());
    changed.method = "PUT".to_owned();
    assert_eq!(check(&changed, NOW), Verdict::Invalid(Reason::BadSignature));
    assert_eq!(check(&sent, NOW), Verdict::Valid);
    assert_eq!(check(&sent, NOW + 300), Verdict::Invalid(Reason::Replayed));
    assert_eq!(check(&changed, NOW), Verdict::Invalid(Reason::BadSignature));
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(rfc_key().public().thumbprint(), NONCE.to_owned(), NOW + 300)]);
}

#[test]
fn checks_keys_at_acceptance_time() {
    let (own, other) = (named(ID, &rfc_key()), PrivateKey::generate());
    let until = |expires| Key { expires: Some(expires), ..own.clone() };
    let invalid = Verdict::Invalid;
    let cases = [
        ("no keys", vec![], invalid(Reason::NoKey)),
        ("other id", vec![named("agent-2027", &other)], invalid(Reason::NoKey)),
        ("key of another organization with the id", vec![named(ID, &other)], invalid(Reason::BadSignature)),
        ("expired now", vec![until(NOW)], invalid(Reason::ExpiredKey)),
        ("expires later", vec![until(NOW + 1)], Verdict::Valid),
        ("not yet valid", vec![Key { not_before: Some(NOW + 1), ..own.clone() }], invalid(Reason::ExpiredKey)),
        ("rotated, both published", vec![named("agent-2027", &other), until(NOW + 1)], Verdict::Valid),
        ("rotated, old expired", vec![named("agent-2027", &other), until(NOW)], invalid(Reason::ExpiredKey)),
    ];
    for (name, keys, verdict) in cases {
        assert_eq!(check_at(&signed(), &keys, NOW), verdict, "{name}");
    }
    let mut sent = signed();
    sent.sign(&rfc_key(), &input().replace(ID, &rfc_key().public().thumbprint()));
    assert_eq!(check(&sent), Verdict::Valid);
}

#[test]
fn does_not_sign_requests_outside_the_profile() {
    let key = rfc_key();
    let signer = Signer { key: &key, key_id: ID, created: NOW, nonce: NONCE };
    let sent = Sent::new("POST", "https://telemetry.example/events", &[], BODY);
    let sign = |signer: &Signer<'_>| sent.read(|request| sign_request(request, BODY, signer)).unwrap_err();
    assert_eq!(sign(&signer), Reason::Incomplete);
    assert_eq!(sign(&Signer { key_id: "schlüssel", ..signer }), Reason::Malformed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rejects_every_bit_flip(part in 0..7_usize, at in any::<usize>(), bit in 0..8_u8) {
        let part = ["method", "uri", "content-type", "content-encoding", "content-digest", "signature-input", "signature"][part];
        let mut sent = signed();
        if sent.flip(part, at, bit) {
            prop_assert_ne!(check(&sent), Verdict::Valid, "{} {:?}", part, sent);
        }
    }

    #[test]
    fn rejects_every_changed_body(at in 0..BODY.len(), bit in 0..8_u8) {
        let mut sent = signed();
        sent.body[at] ^= 1 << bit;
        prop_assert_eq!(check(&sent), Verdict::Invalid(Reason::DigestMismatch));
    }

    #[test]
    fn arbitrary_headers_do_not_panic(input in ".{0,200}", signature in ".{0,100}") {
        let mut sent = signed();
        sent.set("signature-input", &input);
        sent.set("signature", &signature);
        prop_assert_ne!(check(&sent), Verdict::Valid);
    }
}
