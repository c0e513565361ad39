use super::*;
use uuid::Uuid;

fn org(n: u128) -> OrgId {
    OrgId(Uuid::from_u128(n))
}

fn of_every_kind(org: OrgId) -> [(&'static str, OwnId<'static>); 5] {
    let (idempotency_key, canonical_subject, canonical_event) = ("k1", b"{\"a\":1}".as_slice(), b"{\"b\":2}".as_slice());
    [
        ("reported", OwnId::Reported { org, id: "e1" }),
        ("idempotent", OwnId::Idempotent { org, idempotency_key, canonical_subject, index: 3 }),
        ("started", OwnId::Started { org, idempotency_key }),
        ("uploaded", OwnId::Uploaded { org, body: b"{}" }),
        ("content", OwnId::Content { org, canonical_event, index: 3 }),
    ]
}

fn shared(host: &str, telemetry_id: &str, page: &str) -> EventKey {
    EventKey::shared(host, EventKey::correlation(telemetry_id, FetchedContent::Page(page)))
}

#[test]
fn e11_stored_keys_never_change() {
    let own = of_every_kind(org(1)).map(|(kind, id)| (kind, EventKey::own(&id)));
    let page = EventKey::correlation("t1", FetchedContent::Page("example.com/a"));
    let shared = EventKey::shared("com.example", page);
    let drain = Some(DrainId(Uuid::from_u128(9)));
    let of_reports = [
        ("page", page),
        ("content id", EventKey::correlation("t1", FetchedContent::Id("https://doi.org/10.1000/A"))),
        ("shared", shared),
        ("observer", EventKey::for_correlated_report(org(1), Some(SourceRole::Edge), drain, shared, own[0].1)),
        ("report", EventKey::for_report(org(1), "com.example", own[0].1)),
    ];
    let golden = [
        ("reported", "749fc4a0e83c14bd6af287cde6279ebd"),
        ("idempotent", "dee284e9db87866b9dd03a38154a8bd0"),
        ("started", "3d95dc6a5b4dc91c444c444fa9c0e140"),
        ("uploaded", "d456dd54a6d1e5421e2098b2e62641ce"),
        ("content", "1e632364fe24d10667c79c3cd53c10fc"),
        ("page", "b9a8298af1ba2e455eb49c0ca145ffc5"),
        ("content id", "3d93257b820168b5f0f08b698682f54e"),
        ("shared", "855ff3698ac1b675eb5af8430afe36a6"),
        ("observer", "2ecbabc83449137cf8d6f380ffa17b24"),
        ("report", "9bb61ba1fc5a476568bbe7ab3c9fc673"),
    ];
    let found: Vec<(&str, String)> =
        own.into_iter().chain(of_reports).map(|(kind, key)| (kind, format!("{:032x}", key.0))).collect();
    assert_eq!(found, golden.map(|(kind, key)| (kind, key.to_owned())));
}

#[test]
fn e11_own_keys_are_unique_per_organization() {
    for ((kind, mine), (_, theirs)) in of_every_kind(org(1)).iter().zip(&of_every_kind(org(2))) {
        assert_ne!(EventKey::own(mine), EventKey::own(theirs), "{kind}");
    }
}

#[test]
fn own_key_depends_on_every_part_of_the_id() {
    let (org, subject, body) = (org(1), b"{}".as_slice(), b"[]".as_slice());
    let idempotent = |idempotency_key, canonical_subject, index| {
        EventKey::own(&OwnId::Idempotent { org, idempotency_key, canonical_subject, index })
    };
    let content = |canonical_event, index| EventKey::own(&OwnId::Content { org, canonical_event, index });
    let started = |idempotency_key| EventKey::own(&OwnId::Started { org, idempotency_key });
    let uploaded = |body| EventKey::own(&OwnId::Uploaded { org, body });
    all_differ(&[
        idempotent("k", subject, 0),
        idempotent("l", subject, 0),
        idempotent("k", body, 0),
        idempotent("k", subject, 1),
        content(subject, 0),
        content(body, 0),
        content(subject, 1),
        started("k"),
        started("l"),
        uploaded(subject),
        uploaded(body),
        EventKey::own(&OwnId::Reported { org, id: "k" }),
        EventKey::own(&OwnId::Reported { org, id: "l" }),
    ]);
}

fn all_differ(keys: &[EventKey]) {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
}

#[test]
fn correlation_ids_do_not_match_on_another_host_or_page() {
    all_differ(&[
        shared("test.a", "t1", "a.test/x"),
        shared("test.evil", "t1", "a.test/x"),
        shared("test.a", "t1", "a.test/y"),
        shared("test.a", "t2", "a.test/x"),
    ]);
}

#[test]
fn content_ids_never_match_pages_with_the_same_spelling() {
    let (page, id) = (FetchedContent::Page("localhost/x/y"), FetchedContent::Id("localhost/x/y"));
    assert_ne!(EventKey::correlation("t1", page), EventKey::correlation("t1", id));
}

#[test]
fn all_spellings_of_a_doi_share_a_key() {
    let key = |id| EventKey::correlation("t1", FetchedContent::Id(id));
    assert_eq!(key("doi:10.1000/a"), key("http://dx.doi.org/10.1000/A"));
    assert_ne!(key("doi:10.1000/a"), key("doi:10.1000/b"));
    assert_ne!(key("Article-7"), key("article-7"), "only DOIs ignore case");
}

#[test]
fn identity_depends_on_every_part_of_the_observer() {
    let drain = |n| Some(DrainId(Uuid::from_u128(n)));
    let (edge, origin) = (Some(SourceRole::Edge), Some(SourceRole::Origin));
    let of = |org, role, drain, shared, own| EventKey::for_correlated_report(org, role, drain, EventKey(shared), EventKey(own));
    all_differ(&[
        of(org(1), edge, drain(9), 3, 4),
        of(org(2), edge, drain(9), 3, 4),
        of(org(1), origin, drain(9), 3, 4),
        of(org(1), None, drain(9), 3, 4),
        of(org(1), edge, drain(8), 3, 4),
        of(org(1), edge, None, 3, 4),
        of(org(1), edge, drain(9), 4, 4),
        of(org(1), edge, drain(9), 4, 3),
        EventKey::for_report(org(1), "test.a", EventKey(4)),
        EventKey::for_report(org(2), "test.a", EventKey(4)),
        EventKey::for_report(org(1), "test.b", EventKey(4)),
        EventKey::for_report(org(1), "", EventKey(4)),
        EventKey::for_report(org(1), "test.a", EventKey(5)),
    ]);
}

#[test]
fn parts_cannot_be_shifted_into_each_other() {
    assert_ne!(hash("x", &[b"ab", b"c"]), hash("x", &[b"a", b"bc"]));
    assert_ne!(hash("x", &[b"a"]), hash("y", &[b"a"]));
}

#[test]
fn keys_round_trip_through_json() {
    let key = shared("test.a", "t1", "a.test/x");
    assert_eq!(serde_json::from_str::<EventKey>(&serde_json::to_string(&key).unwrap()).unwrap(), key);
    assert_eq!(serde_json::from_str::<EventKey>("\"00000000000000000000000000000001\"").unwrap(), EventKey(1));
}
