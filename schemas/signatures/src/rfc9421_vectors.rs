//! The Ed25519 vectors of RFC 9421, appendix B, and the signature bases of the vectors with other algorithms.

use crate::structured_fields::dictionary;
use crate::testing::{Sent, rfc_key};
use crate::{Reason, verify_base};
use data_encoding::BASE64;
use sfv::ListEntry;

fn base(sent: &Sent, input: &str) -> Result<String, Reason> {
    let inputs = dictionary(&format!("sig={input}"))?;
    let Some(ListEntry::InnerList(list)) = inputs.get("sig") else { panic!("{input}") };
    sent.read(|request| request.signature_base(list))
}

fn test_request() -> Sent {
    let headers = [
        ("Host", "example.com"),
        ("Date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("Content-Type", "application/json"),
        ("Content-Digest", "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"),
        ("Content-Length", "18"),
    ];
    Sent::new("POST", "https://example.com/foo?param=Value&Pet=dog", &headers, br#"{"hello": "world"}"#)
}

#[test]
fn builds_the_signature_bases_of_appendix_b2() {
    let cases = [
        ("B.2.1", r#"();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd""#, ""),
        (
            "B.2.3",
            r#"("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss""#,
            "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\"@query\": ?param=Value&Pet=dog\n\"@authority\": example.com\n\"content-type\": application/json\n\"content-digest\": sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:\n\"content-length\": 18\n",
        ),
        (
            "B.2.5",
            r#"("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#,
            "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@authority\": example.com\n\"content-type\": application/json\n",
        ),
    ];
    for (name, input, components) in cases {
        let expected = format!("{components}\"@signature-params\": {input}");
        assert_eq!(base(&test_request(), input), Ok(expected), "{name}");
    }
    let with_query_param = r#"("@authority" "content-digest" "@query-param";name="Pet")"#;
    assert_eq!(base(&test_request(), with_query_param), Err(Reason::Unsupported), "B.2.2");
}

#[test]
fn signs_and_verifies_the_ed25519_vector_b26() {
    let input =
        r#"("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519""#;
    let base = base(&test_request(), input).unwrap();
    let signature = rfc_key().sign(base.as_bytes());
    let published = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==";
    assert_eq!(BASE64.encode(&signature), published);
    assert!(verify_base(&base, &signature, &rfc_key().public()));
    assert!(!verify_base(&base.replace("POST", "GET"), &signature, &rfc_key().public()));
}

#[test]
fn verifies_the_transformed_messages_of_appendix_b4() {
    let input = r#"("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519""#;
    let signature = b"ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==";
    let signature: [u8; 64] = BASE64.decode(signature).unwrap().try_into().unwrap();
    let json = [("Accept", "application/json"), ("Accept", "*/*")];
    let cases = [
        ("original", "GET", "https://example.org/demo?name1=Value1&Name2=value2", &json[..], true),
        ("other query", "GET", "https://example.org/demo?name1=Value1&Name2=value2&param=added", &json, true),
        ("one line", "GET", "https://example.org/demo?name1=Value1", &[("accept", "application/json, */*")], true),
        ("spaces", "GET", "https://EXAMPLE.org:443/demo", &[("Accept", " application/json "), ("accept", "*/*\t")], true),
        ("other method", "POST", "https://example.org/demo?name1=Value1&Name2=value2", &json, false),
        ("other authority", "GET", "https://example.com/demo?name1=Value1&Name2=value2", &json, false),
        ("other order", "GET", "https://example.org/demo", &[("Accept", "*/*"), ("Accept", "application/json")], false),
    ];
    for (name, method, uri, headers, is_valid) in cases {
        let base = base(&Sent::new(method, uri, headers, b""), input).unwrap();
        assert_eq!(verify_base(&base, &signature, &rfc_key().public()), is_valid, "{name}: {base}");
    }
}
