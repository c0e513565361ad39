use super::*;
use axum::http::Request as HttpRequest;
use signatures::PrivateKey;
use uuid::Uuid;

fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let request = headers.iter().fold(HttpRequest::post(uri), |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

#[test]
fn accepts_signatures_over_http_and_https_urls() {
    let host = [("host", "telemetry.example:8443")];
    for (uri, headers, expected) in [
        ("/events?a=1", &host[..], "telemetry.example:8443/events?a=1"),
        ("https://other.example/events", &host, "other.example/events"),
        ("/", &[], "/"),
    ] {
        let sent = SentRequest::new(&parts(uri, headers));
        assert_eq!(sent.uris, ["https", "http"].map(|scheme| format!("{scheme}://{expected}")), "{uri}");
    }
}

#[test]
fn signatures_cannot_cover_secrets() {
    let headers =
        [("x-api-key", "secret"), ("authorization", "secret"), ("cookie", "secret"), ("signature", "a"), ("signature", "b")];
    let sent = SentRequest::new(&parts("/events", &headers));
    assert_eq!(sent.headers, [("signature", "a".to_owned()), ("signature", "b".to_owned())]);
}

#[test]
fn nonces_belong_to_an_organization_and_a_key() {
    let [one, other] = [1, 2].map(|n| OrgId(Uuid::from_u128(n)));
    let thumbprint = PrivateKey::generate().public().thumbprint();
    let hash = nonce_hash(one, &thumbprint, "nonce");
    assert_eq!(hash, nonce_hash(one, &thumbprint, "nonce"));
    assert_ne!(hash, nonce_hash(other, &thumbprint, "nonce"));
    assert_ne!(hash, nonce_hash(one, &PrivateKey::generate().public().thumbprint(), "nonce"));
}

#[test]
fn records_the_key_version_with_the_signature() {
    let (key, version) = (PrivateKey::generate().public(), Uuid::from_u128(7));
    let listed = ListedKey { version, key_id: "k".to_owned(), public_key: *key.as_bytes(), expires: None };
    let base = "\"@method\": POST".to_owned();
    let claim =
        RequestSignature { base: base.clone(), signature: [1; 64], key_id: "k".to_owned(), created: 0, expires: 9, nonce: None };
    let checked = |verdict, key| CheckedSignature { verdict, claim: Some(claim.clone()), key };
    let valid = recorded(checked(Verdict::Valid, Some(key)), std::slice::from_ref(&listed)).unwrap();
    let proof = valid.proof.unwrap();
    assert_eq!((valid.result, valid.reason.as_str()), (SignatureResult::Valid, ""));
    assert_eq!((proof.base, proof.key_version, proof.public_key), (base, Some(version), key.to_multibase()));
    for reason in Reason::ALL {
        let invalid = recorded(checked(Verdict::Invalid(reason), None), &[]).unwrap();
        assert_eq!((invalid.result, invalid.reason.as_str(), invalid.proof), (SignatureResult::Invalid, reason.as_str(), None));
    }
    assert_eq!(recorded(checked(Verdict::None, None), &[]), None);
}
