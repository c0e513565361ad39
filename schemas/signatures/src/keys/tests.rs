use super::*;
use crate::testing::{RFC_KEY, RFC_THUMBPRINT, rfc_key};

fn multibase(bytes: &[u8]) -> String {
    format!("z{}", bs58::encode(bytes).into_string())
}

fn manifest(entries: &str) -> Result<Vec<Key>, String> {
    manifest_keys(format!(r#"{{"version":"1.0","keys":[{entries}]}}"#).as_bytes()).map_err(|error| error.to_string())
}

fn entry(id: &str, key: &PublicKey) -> String {
    format!(r#"{{"id":"{id}","type":"Ed25519","publicKey":"{}"}}"#, key.to_multibase())
}

#[test]
fn public_keys_round_trip_as_multibase() {
    let key = rfc_key().public();
    assert!(key.to_multibase().starts_with("z6Mk"), "{}", key.to_multibase());
    assert_eq!(PublicKey::from_multibase(&key.to_multibase()), Ok(key));
    assert_eq!(key.thumbprint(), RFC_THUMBPRINT);
}

#[test]
fn rejects_malformed_multibase_with_the_reason() {
    let key = *rfc_key().public().as_bytes();
    let with = |prefix: &[u8], key: &[u8]| multibase(&[prefix, key].concat());
    let mut cases = vec![
        (String::new(), KeyError::NotBase58),
        (with(&ED25519, &key).replacen('z', "Z", 1), KeyError::NotBase58),
        (format!("u{}", BASE64URL_NOPAD.encode(&[&ED25519[..], &key].concat())), KeyError::NotBase58),
        (format!("m{}", data_encoding::BASE64.encode(&key)), KeyError::NotBase58),
        (format!("z{}", data_encoding::BASE64.encode(&[0xff; 34])), KeyError::BadBase58),
        ("z0OIl".to_owned(), KeyError::BadBase58),
        ("z6Mk ".to_owned(), KeyError::BadBase58),
        (with(&[], &key), KeyError::OtherType),
        (with(&[0xe7, 0x01], &key), KeyError::OtherType),
        (with(&[0xed], &key), KeyError::OtherType),
        ("z".to_owned(), KeyError::OtherType),
        (with(&ED25519, &key[..31]), KeyError::BadLength),
        (with(&ED25519, &[&key[..], &[0]].concat()), KeyError::BadLength),
        (with(&ED25519, &[]), KeyError::BadLength),
        (format!("z{}", "2".repeat(100_000)), KeyError::BadLength),
    ];
    // Low-order points, for which one signature matches every message.
    let small_order = [[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }];
    cases.extend(small_order.map(|bytes| (with(&ED25519, &bytes), KeyError::BadPoint)));
    for (text, error) in cases {
        assert_eq!(PublicKey::from_multibase(&text), Err(error), "{text:.60}");
    }
}

#[test]
fn reads_keys_from_a_manifest() {
    let (old, new) = (rfc_key().public(), PrivateKey::generate().public());
    let with_end = entry("2025", &old).replace('}', r#","expires":"2026-11-01T11:00:00+01:00","other":1}"#);
    let keys = manifest(&format!("{with_end},{}", entry("2026", &new))).unwrap();
    assert_eq!(keys[0], Key { id: Some("2025".into()), public: old, not_before: None, expires: Some(1_793_527_200) });
    assert_eq!(keys[1], Key { id: Some("2026".into()), public: new, not_before: None, expires: None });
    assert_eq!(manifest_keys(b"{}").unwrap(), []);
    assert_eq!(manifest(&entry(RFC_THUMBPRINT, &old)).unwrap().len(), 1);
}

#[test]
fn rejects_invalid_manifests_with_the_reason() {
    let (own, other) = (rfc_key().public(), PrivateKey::generate().public());
    let valid = entry("a", &own);
    let cases = [
        (format!("{valid},{}", entry("a", &other)), "keys[1].id is the id or thumbprint of another key"),
        (format!("{valid},{}", entry("b", &own)), "keys[1].id is the id or thumbprint of another key"),
        (format!("{valid},{}", entry(RFC_THUMBPRINT, &other)), "keys[1].id is the id or thumbprint of another key"),
        (entry("", &own), "keys[0].id must be 1 to 256 printable ASCII characters"),
        (entry("schlüssel", &own), "keys[0].id must be 1 to 256 printable ASCII characters"),
        (valid.replace("\"Ed25519\"", "\"RSA\""), "keys[0].type must be Ed25519"),
        (valid.replace("\"z6", "\"Z6"), "keys[0].publicKey must start with z (base58btc)"),
        (valid.replace('}', r#","expires":"tomorrow"}"#), "keys[0].expires must be an RFC 3339 time"),
        (vec![valid.as_str(); 101].join(","), "a manifest may contain at most 100 keys"),
    ];
    for (entries, error) in cases {
        assert_eq!(manifest(&entries).unwrap_err(), error);
    }
    for entries in [r#"{"id":"a"}"#, "1", &valid.replace('}', r#","id":"b"}"#), &valid.replace('}', r#","expires":1}"#)] {
        assert!(manifest(entries).unwrap_err().starts_with("the manifest is not valid: "), "{entries}");
    }
}

#[test]
fn reads_only_usable_keys_from_a_key_set() {
    let public = r#"{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs""#;
    let read = |entries: &str| key_set(format!(r#"{{"keys":[{entries}]}}"#).as_bytes()).unwrap();
    let keys = read(&format!(r#"{public},"use":"sig","alg":"EdDSA","kid":"any","nbf":1735689600,"exp":1735693200000}}"#));
    let expected = Key { id: None, public: rfc_key().public(), not_before: Some(1_735_689_600), expires: Some(1_735_693_200) };
    assert_eq!(keys, [expected]);
    let ignored = [
        RFC_KEY.to_owned(),
        format!(r#"{public},"use":"enc"}}"#),
        format!(r#"{public},"alg":"ES256"}}"#),
        format!("{}}}", public.replace("Ed25519", "X25519")),
        format!("{}}}", public.replace("0bs", "0b")),
        r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#.to_owned(),
        "7".to_owned(),
    ];
    assert_eq!(read(&ignored.join(",")), []);
    assert_eq!(read(&format!("{},{public}}}", ignored.join(","))).len(), 1);
    for text in ["", "[]", "{}", r#"{"keys":{}}"#] {
        assert!(key_set(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn private_keys_round_trip_as_jwk() {
    let key = PrivateKey::generate();
    assert_eq!(PrivateKey::from_jwk(&key.to_jwk()).map(|read| read.public()), Some(key.public()));
    assert_ne!(PrivateKey::generate().public(), key.public());
    let x = BASE64URL_NOPAD.encode(key.public().as_bytes());
    for invalid in [RFC_KEY.replace("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", &x), RFC_KEY.replace("OKP", "EC"), "{}".into()]
    {
        assert!(PrivateKey::from_jwk(&invalid).is_none(), "{invalid}");
    }
}
