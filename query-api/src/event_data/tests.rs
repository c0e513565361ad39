use super::*;
use serde_json::{Value, json};

fn composed(event_type: &str, data: &str, extra: &str, audience: Audience) -> String {
    serde_json::to_string(&compose(StoredEvent { event_type, data, extra }, &[1, 2], audience)).unwrap()
}

fn shown(event_type: &str, data: &Value) -> Value {
    let mut shown: Value = serde_json::from_str(&composed(event_type, &data.to_string(), "", Audience::Owner)).unwrap();
    assert_eq!(shown.as_object_mut().unwrap().remove(OBSERVERS), Some(json!(["agent", "edge"])));
    shown
}

#[test]
fn returns_values_as_reported() {
    let data = r#"{"asn":1.10,"a.big":123456789012345678901234567890,"a.nested":{"b.a":[1e400,{"c.b":null}]}}"#;
    let expected = r#"{"a.big":123456789012345678901234567890,"a.nested":{"b.a":[1e400,{"c.b":null}]},"asn":1.10,"observers":["agent","edge"],"terms_ref":"ä"}"#;
    for audience in [Audience::Owner, Audience::Reporter] {
        assert_eq!(composed("content_retrieved", data, r#"{"terms_ref":"ä","asn":2}"#, audience), expected);
    }
    assert_eq!(composed("content_retrieved", "", "", Audience::Owner), r#"{"observers":["agent","edge"]}"#);
}

#[test]
fn reporters_cannot_set_observers() {
    for audience in [Audience::Owner, Audience::Reporter, Audience::Issuer] {
        let data = r#"{"observers":["origin"]}"#;
        assert_eq!(composed("content_engaged", data, data, audience), r#"{"observers":["agent","edge"]}"#);
    }
}

/// Names that reporters have sent, with values that owners must not see.
fn hostile() -> Value {
    json!({"ip": "203.0.113.7", "ip_hash": "h", "prompt": "p", "queryText": "q", "query_text": "q", "Query_Text": "q", "email": "e",
        "turn": {"query_text": "q"}, "topics": ["t"], "model_id": "m", "": "x", ".": "x", "a.": "x", ".a": "x", "a..b": "x", "a b.c": "x",
        "observers ": "x", "user_id": 7, "User_Agent": "x"})
}

#[test]
fn a13_owners_see_only_listed_members() {
    for (event_type, names) in visible_members::BY_TYPE {
        let standard: Vec<&str> = names
            .iter()
            .chain(visible_members::FOR_ALL_TYPES)
            .copied()
            .filter(|name| *name != visible_members::FINGERPRINT)
            .collect();
        let told: Value = standard
            .iter()
            .map(|name| ((*name).to_owned(), json!(format!("of {name}"))))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let mut data = hostile();
        data.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
        assert_eq!(shown(event_type, &data), told, "{event_type}");
        // Members listed for one type are not shown for another.
        let only = shown("com.example.own", &data);
        let every: Vec<&str> = only.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(every.iter().all(|name| visible_members::FOR_ALL_TYPES.contains(name)), "{every:?}");

        let within: Value = standard.iter().map(|name| ((*name).to_owned(), hostile())).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(shown(event_type, &within), json!({}), "{event_type}: objects are not shown under a listed name");
        let listed: Value =
            standard.iter().map(|name| ((*name).to_owned(), json!([hostile(), "x"]))).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(shown(event_type, &listed), json!({}), "{event_type}: lists are not shown under a listed name");
    }
    let own = json!({"com.example.score": 3, "com.example.deep": {"com.example.x": [hostile(), {"cached": hostile(), "com.example.y": true}, 4], "ip": "i"}});
    let expected = json!({"com.example.score": 3, "com.example.deep": {"com.example.x": [{}, {"com.example.y": true}, 4]}});
    assert_eq!(shown("content_grounded", &own), expected);
    let fingerprint =
        json!({"content_fingerprint": {"scheme": "s", "detected": true, "value": hostile(), "ip": "i", "com.example.z": 1}});
    assert_eq!(shown("content_grounded", &fingerprint), json!({"content_fingerprint": {"scheme": "s", "detected": true}}));
    assert_eq!(shown("content_grounded", &json!({"content_fingerprint": [hostile()]})), json!({}));
}

#[test]
fn omits_deeply_nested_members() {
    let nested = |depth: usize| (0..depth).fold(json!("x"), |value, _| json!({"a.b": value}));
    assert_eq!(shown("content_cited", &nested(MAX_DEPTH + 1)), nested(MAX_DEPTH + 1));
    let cut = (0..=MAX_DEPTH).fold(json!({}), |value, at| if at == 0 { value } else { json!({"a.b": value}) });
    assert_eq!(shown("content_cited", &nested(30)), cut, "the deepest level that is read is empty");
}

#[test]
fn exports_contain_evidence_and_members_by_level() {
    let shown = |event_type: &str, data: &Value, is_full: bool| {
        let stored =
            StoredEvent { event_type, data: &data.to_string(), extra: r#"{"turn":{"x":1},"note":1,"license_ref":"l","a.b":2}"# };
        let (data, others) = exported(stored, is_full);
        assert_eq!(serde_json::to_value(others).unwrap(), json!({"license_ref": "l", "a.b": 2}));
        serde_json::to_value(data).unwrap()
    };
    let by_level = |data: &Value| {
        has_members_by_level(StoredEvent { event_type: "content_grounded", data: &data.to_string(), extra: r#"{"note":1}"# })
    };
    let evidence =
        json!({"scope": "turn", "evidence": {"method": "m", "query_text": "q", "deep": [{"Topics": ["t"], "n": 1.5}]}});
    let public = json!({"scope": "turn", "evidence": {"method": "m", "deep": [{"n": 1.5}]}});
    assert_eq!(shown("content_grounded", &evidence, false), public);
    assert!(!by_level(&evidence));
    assert_eq!(shown("content_cited", &evidence, false), json!({}), "evidence belongs to groundings");

    let mut unknown = evidence.clone();
    unknown.as_object_mut().unwrap().extend(
        json!({"score": {"turn": 1, "x": [2]}, "query_text": "q", "ip_hash": "h", "a.b": {"c": 1}}).as_object().unwrap().clone(),
    );
    let mut full = public.clone();
    full["a.b"] = json!({});
    assert_eq!(shown("content_grounded", &unknown, false), full);
    assert!(by_level(&unknown));
    full["score"] = json!({"x": [2]});
    assert_eq!(shown("content_grounded", &unknown, true), full);
}

#[test]
fn reporters_see_everything_they_sent() {
    let text = composed("content_cited", &hostile().to_string(), r#"{"note":1}"#, Audience::Reporter);
    let mut read: Value = serde_json::from_str(&text).unwrap();
    read.as_object_mut().unwrap().remove(OBSERVERS);
    let mut sent = hostile();
    sent["note"] = json!(1);
    assert_eq!(read, sent);
}

#[test]
fn a16_token_issuers_see_only_type_and_amount() {
    let mut data = hostile();
    let told = json!({"engagement_type": "link_click", "value_amount": 4999, "amount": 49.99, "currency": "EUR", "com.shop.order": "o-1",
        "user_agent": "ua", "scope": "session", "query_tokens": 3, "presentation_id": "p"});
    data.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
    let issuers =
        |event_type: &str, data: &Value| serde_json::to_value(visible_to_issuer(event_type, &data.to_string())).unwrap();
    assert_eq!(issuers("content_engaged", &data), json!({"engagement_type": "link_click"}));
    assert_eq!(issuers("checkout_completed", &data), json!({"value_amount": 4999, "amount": 49.99, "currency": "EUR"}));
    for event_type in ["checkout_started", "com.example.own", "content_retrieved", "turn_started"] {
        assert_eq!(issuers(event_type, &data), json!({}), "{event_type}");
    }
    let hidden = json!({"engagement_type": {"ip": "i"}, "currency": ["x"], "value_amount": "9".repeat(65)});
    assert_eq!(issuers("content_engaged", &hidden), json!({}));
    assert_eq!(issuers("checkout_completed", &hidden), json!({}));
}
