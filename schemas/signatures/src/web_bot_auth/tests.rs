use super::*;
use crate::Verdict;
use crate::testing::{Change, NOW, RFC_THUMBPRINT, Sent, rfc_key};
use proptest::prelude::*;

const AGENT: &str = r#"agent2="https://signature-agent.test""#;
const NONCE: &str = "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";

fn input() -> String {
    format!(
        r#"sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="{RFC_THUMBPRINT}";alg="ed25519";expires=4889289600;nonce="{NONCE}";tag="web-bot-auth""#
    )
}

/// A fetch with `Signature-Agent`, signed with this `Signature-Input`.
fn signed(agent: &str, input: &str) -> Sent {
    let mut sent = Sent::new("GET", "https://example.com/a?b=1", &[("signature-agent", agent)], b"");
    sent.sign(&rfc_key(), input);
    sent
}

fn keys() -> Vec<Key> {
    vec![Key { id: None, public: rfc_key().public(), not_before: None, expires: None }]
}

fn read(sent: &Sent) -> Result<Option<SignedAgent>, Reason> {
    sent.read(SignedAgent::read)
}

fn check_at(sent: &Sent, keys: &[Key], now: i64) -> Verdict {
    match read(sent) {
        Ok(Some(agent)) => agent.verify(keys, now, |_, _, _| true).verdict,
        Ok(None) => Verdict::None,
        Err(reason) => Verdict::Invalid(reason),
    }
}

fn check(sent: &Sent) -> Verdict {
    check_at(sent, &keys(), NOW)
}

#[test]
fn verifies_the_drafts_vectors() {
    let mut sent = signed(AGENT, &input());
    let published = "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:";
    assert_eq!(sent.header("signature"), published);
    assert_eq!(check(&sent), Verdict::Valid);
    assert_eq!(read(&sent).unwrap().unwrap().signed_by(), "https://signature-agent.test");

    let legacy = format!(
        r#"sig2=("@authority" "signature-agent");created=1735689600;keyid="{RFC_THUMBPRINT}";alg="ed25519";expires=1735693200;nonce="e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==";tag="web-bot-auth""#
    );
    let mut sent = signed(r#""https://signature-agent.test""#, &legacy);
    let published = "sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:";
    assert_eq!(sent.header("signature"), published);
    assert_eq!(check_at(&sent, &keys(), 1_735_693_200), Verdict::Valid);
    assert_eq!(check_at(&sent, &keys(), 1_735_693_201), Verdict::Invalid(Reason::Stale));
}

#[test]
fn reads_all_three_forms_of_signature_agent() {
    let directory = "https://agent.test/.well-known/http-message-signatures-directory";
    let (keyed, whole) = (input(), input().replace(r#";key="agent2""#, ""));
    let cases = [
        (r#"agent2="https://agent.test/keys.json?v=1""#, &keyed, "https://agent.test/keys.json?v=1"),
        (r#"other="https://b.test", agent2="https://agent.test/keys""#, &keyed, "https://agent.test/keys"),
        (r#"agent2="https://AGENT.test:443/""#, &keyed, directory),
        (r#"agent2="https://agent.test";type=directory"#, &keyed, directory),
        (r#"agent2="https://agent.test";type=jwks_uri"#, &keyed, "https://agent.test/"),
        (r#"agent2="https://agent.test/keys";type=jwks_uri"#, &whole, "https://agent.test/keys"),
        (r#""https://agent.test""#, &whole, directory),
        (r#""https://agent.test/keys""#, &whole, "https://agent.test/keys"),
    ];
    for (header, input, key_set) in cases {
        let sent = signed(header, input);
        assert_eq!(read(&sent).unwrap().unwrap().key_set.as_str(), key_set, "{header}");
        assert_eq!(check(&sent), Verdict::Valid, "{header}");
    }
}

#[test]
fn returns_the_reason_for_unusual_signature_agents() {
    let (keyed, whole) = (input(), input().replace(r#";key="agent2""#, ""));
    let cases = [
        (r#"agent1="https://agent.test""#, &keyed, Reason::Incomplete),
        (r#""https://agent.test""#, &keyed, Reason::Malformed),
        (r#"agent2="https://a.test", agent2="https://b.test""#, &keyed, Reason::Malformed),
        (r#"agent2=("https://a.test")"#, &keyed, Reason::Malformed),
        (r"agent2=token", &keyed, Reason::Malformed),
        (r#"agent2="agent.test""#, &keyed, Reason::Malformed),
        (r#"agent2="http://agent.test""#, &keyed, Reason::Unsupported),
        (r#"agent2="data:application/json,{}""#, &keyed, Reason::Unsupported),
        (r#"agent2="https://user:password@agent.test""#, &keyed, Reason::Unsupported),
        (r#"agent2="https://agent.test/#a""#, &keyed, Reason::Unsupported),
        (r#"agent2="https://agent.test/card";type=cimd"#, &keyed, Reason::Unsupported),
        (r#"agent2="https://agent.test";type="directory""#, &keyed, Reason::Unsupported),
        (r#"agent2="https://agent.test/keys";type=directory"#, &keyed, Reason::Unsupported),
        (r#"a="https://a.test", b="https://b.test""#, &whole, Reason::Unsupported),
        (r#""https://agent.test", "https://b.test""#, &whole, Reason::Malformed),
        (r#""https://agent.test"#, &whole, Reason::Malformed),
    ];
    for (header, input, reason) in cases {
        assert_eq!(check(&signed(header, input)), Verdict::Invalid(reason), "{header}");
    }
}

/// These requests are signed as they are, so each breaks only one rule.
#[test]
fn returns_the_reason_for_unusual_signature_inputs() {
    let cases = [
        ("no authority", r#""@authority" "#, "", Reason::Incomplete),
        ("method only", "@authority", "@method", Reason::Incomplete),
        ("no agent", r#" "signature-agent";key="agent2""#, "", Reason::Incomplete),
        ("two agents", r#""@authority""#, r#""@authority" "signature-agent""#, Reason::Unsupported),
        ("unknown member", r#"key="agent2""#, r#"key="agent3""#, Reason::Incomplete),
        ("a member as token", r#"key="agent2""#, "key=agent2", Reason::Malformed),
        ("of another request", r#""@authority""#, r#""@authority";req"#, Reason::Unsupported),
        ("a component twice", r#""@authority""#, r#""@authority" "@authority""#, Reason::Malformed),
        ("a query parameter", r#""@authority""#, r#""@authority" "@query-param";name="b""#, Reason::Unsupported),
        ("a missing header", r#""@authority""#, r#""@authority" "user-agent""#, Reason::Incomplete),
        ("no begin", "created=1735689600;", "", Reason::Incomplete),
        ("no end", "expires=4889289600;", "", Reason::Incomplete),
        ("an end as text", "expires=4889289600", r#"expires="4889289600""#, Reason::Malformed),
        ("expired", "expires=4889289600", "expires=1793527199", Reason::Stale),
        ("from the future", "created=1735689600", "created=1793527261", Reason::Stale),
        ("ends before it begins", "created=1735689600", "created=4889289601", Reason::Stale),
        ("no key id", "keyid=", "key=", Reason::Incomplete),
        ("a name as key id", RFC_THUMBPRINT, "test-key-ed25519", Reason::NoKey),
        ("RSA", r#""ed25519""#, r#""rsa-pss-sha512""#, Reason::Unsupported),
        ("two nonces", ";nonce", r#";nonce="x";nonce"#, Reason::Malformed),
        ("a nonce as token", &format!("\"{NONCE}\""), "nonce", Reason::Malformed),
    ];
    for (name, from, to, reason) in cases {
        assert!(input().contains(from), "{name}");
        assert_eq!(check(&signed(AGENT, &input().replacen(from, to, 1))), Verdict::Invalid(reason), "{name}");
    }
}

#[test]
fn accepts_optional_components_and_parameters() {
    for (from, to) in [
        (r#""@authority""#, r#""@target-uri""#),
        (r#""@authority""#, r#""@method" "@authority" "@path" "@query" "@scheme" "@request-target""#),
        (";alg=\"ed25519\"", ""),
        (&format!(";nonce=\"{NONCE}\""), ""),
    ] {
        assert_eq!(check(&signed(AGENT, &input().replacen(from, to, 1))), Verdict::Valid, "{to}");
    }
    assert_eq!(check(&signed(AGENT, &input().replace(TAG, "other"))), Verdict::None);
}

#[test]
fn rejects_changes_after_signing() {
    let all = input().replacen(r#""@authority""#, r#""@method" "@authority" "@path""#, 1);
    let cases: [(&str, Change, Reason); 8] = [
        ("method", |sent| sent.method = "POST".to_owned(), Reason::BadSignature),
        ("host", |sent| sent.uri = sent.uri.replace("example.com", "example.org"), Reason::BadSignature),
        ("port", |sent| sent.uri = sent.uri.replace(".com", ".com:8443"), Reason::BadSignature),
        ("path", |sent| sent.uri = sent.uri.replace("/a", "/b"), Reason::BadSignature),
        ("agent", |sent| sent.replace("signature-agent", "agent.test", "agent2.test"), Reason::BadSignature),
        ("discovery", |sent| sent.header("signature-agent").push_str(";type=jwks_uri"), Reason::BadSignature),
        ("no agent", |sent| sent.remove("signature-agent"), Reason::Incomplete),
        ("no signature", |sent| sent.remove("signature"), Reason::Incomplete),
    ];
    for (name, change, reason) in cases {
        let mut sent = signed(AGENT, &all);
        change(&mut sent);
        assert_eq!(check(&sent), Verdict::Invalid(reason), "{name}");
    }
}

#[test]
fn checks_keys_from_the_key_set() {
    let sent = signed(AGENT, &input());
    let other = Key { public: crate::PrivateKey::generate().public(), ..keys()[0].clone() };
    let expired = Key { expires: Some(NOW), ..keys()[0].clone() };
    assert_eq!(check_at(&sent, std::slice::from_ref(&other), NOW), Verdict::Invalid(Reason::NoKey));
    assert_eq!(check_at(&sent, &[other.clone(), expired], NOW), Verdict::Invalid(Reason::ExpiredKey));
    assert_eq!(check_at(&sent, &[other, keys()[0].clone()], NOW), Verdict::Valid);
    let replayed = read(&sent).unwrap().unwrap().verify(&keys(), NOW, |_, _, _| false);
    assert_eq!(replayed.verdict, Verdict::Invalid(Reason::Replayed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rejects_every_bit_flip(part in 0..5_usize, at in any::<usize>(), bit in 0..8_u8) {
        let part = ["method", "uri", "signature-agent", "signature-input", "signature"][part];
        let mut sent = signed(AGENT, &input().replacen(r#""@authority""#, r#""@method" "@authority" "@target-uri""#, 1));
        if sent.flip(part, at, bit) {
            prop_assert_ne!(check(&sent), Verdict::Valid, "{} {:?}", part, sent);
        }
    }

    #[test]
    fn arbitrary_headers_do_not_panic(agent in ".{0,100}", address in "[ -~]{0,60}") {
        check(&signed(&agent, &input()));
        check(&signed(&format!("agent2=\"{address}\""), &input()));
    }
}
