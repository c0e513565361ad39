use super::*;
use crate::facts::{Facts, Fetch, ReportFacts};
use crate::merge::{CurrentRows, merge};
use crate::report::{Acceptance, Home, Observer, Report};
use crate::row::{Entry, EventRow, EventWrite};
use crate::row_binary::{Decoder, Encoder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::signature::SignatureResult;
use schemas::site::Site;
use std::sync::Arc;
use uuid::Uuid;

/// Returns the names and types of a table's stored columns, without codecs and comments. A `Nested` column's name is the prefix of its
/// parts.
fn columns_of(ddl: &str) -> Vec<(String, String)> {
    let (_, body) = ddl.split_once("\n(\n").unwrap();
    let (body, _) = body.split_once("\n)\n").unwrap();
    let mut columns = Vec::new();
    let mut nested = None;
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("--") && !line.starts_with("INDEX")) {
        match (line, line.strip_suffix(" Nested")) {
            (_, Some(name)) => nested = Some(name),
            // The previous line's column is an expression.
            (line, _) if line.starts_with("ALIAS ") => drop(columns.pop()),
            (line, _) if line.starts_with("COMMENT ") => {}
            ("(", _) => {}
            ("),", _) => nested = None,
            _ => {
                let (name, rest) = line.split_once(' ').unwrap();
                let rest = rest.split(" COMMENT ").next().unwrap().split(" CODEC").next().unwrap();
                let of = rest.trim().trim_end_matches(',');
                columns.push(match nested {
                    Some(nested) => (format!("{nested}.{name}"), format!("Array({of})")),
                    None => (name.to_owned(), of.to_owned()),
                });
            }
        }
    }
    columns
}

fn owned(columns: &[(&str, &str)]) -> Vec<(String, String)> {
    columns.iter().map(|(name, of)| ((*name).to_owned(), (*of).to_owned())).collect()
}

#[test]
fn column_lists_match_the_ddl() {
    let ddl = |table: &str| DDL.iter().find(|text| text.contains(&format!("EXISTS {table}\n"))).unwrap();
    assert_eq!(columns_of(ddl("events")), owned(EVENT_COLUMNS));
    assert_eq!(columns_of(ddl("reports")), owned(REPORT_COLUMNS));
    assert_eq!(columns_of(ddl("failed_fetches")), owned(FAILED_FETCH_COLUMNS));
    let names: Vec<&str> = EVENT_COLUMNS.iter().map(|(name, _)| *name).collect();
    let positions: Vec<_> = FETCHED_COLUMNS.iter().map(|name| names.iter().position(|of| of == name)).collect();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{positions:?}");
}

/// Reads a value of this type from the body.
fn value<'a>(of: &str, from: &mut Decoder<'a>) -> &'a [u8] {
    let before = from.0;
    match of {
        "String" | "LowCardinality(String)" => drop(from.bytes().unwrap()),
        "UInt8" => drop(from.u8().unwrap()),
        "UInt16" => drop(from.u16().unwrap()),
        "UInt32" | "Int32" => drop(from.u32().unwrap()),
        "UInt64" | "Int64" | "DateTime64(3, 'UTC')" => drop(from.u64().unwrap()),
        "UInt128" | "UUID" => drop(from.u128().unwrap()),
        of if of.starts_with("Enum8") => drop(from.u8().unwrap()),
        of => {
            let element = of.strip_prefix("Array(").unwrap().strip_suffix(')').unwrap();
            drop(from.array(|from| Ok(value(element, from).len())).unwrap());
        }
    }
    &before[..before.len() - from.0.len()]
}

fn values(row: &EventRow<Facts>) -> Vec<(&'static str, Vec<u8>)> {
    let mut body = Encoder::default();
    encode_event(&EventWrite::Row(row.clone()), 7, &mut body);
    let mut from = Decoder(&body.0);
    let values = EVENT_COLUMNS.iter().map(|(name, of)| (*name, value(of, &mut from).to_vec())).collect();
    assert!(from.is_empty());
    values
}

/// Returns the response that contains this row.
fn fetched(row: &EventRow<Facts>) -> Vec<u8> {
    values(row).into_iter().filter(|(name, _)| FETCHED_COLUMNS.contains(name)).flat_map(|(_, bytes)| bytes).collect()
}

fn entry(n: u128, role: SourceRole, fetch: Option<Fetch>) -> Entry<Facts> {
    let facts = ReportFacts {
        event_type: "content_retrieved".to_owned(),
        url: format!("https://example.com/{n}"),
        role: SourceRole::code(Some(role)),
        platform: OrgId(Uuid::from_u128(n + 10)),
        agent: format!("agent {n}"),
        session: n as u64,
        link_site: String::new(),
        fetch,
        is_owners: false,
        signature: SignatureResult::from_code((n % 3) as u8),
    };
    Entry {
        accepted: Acceptance { at_us: 1_790_000_000_000_000 + n as i64, place: n as u16, identity: EventKey(n) },
        observer: Observer { org: OrgId(Uuid::from_u128(n)), role: Some(role), drain: Some(DrainId(Uuid::from_u128(n + 20))) },
        at_ms: 1_790_000_000_000 - n as i64,
        home: Home(202_609 + n as u32),
        facts: Arc::new(facts),
    }
}

fn bot(name: &str) -> Option<Fetch> {
    let (operator, purpose) = ("Example".to_owned(), "training".to_owned());
    Some(Fetch { bot: name.to_owned(), operator, purpose, verified: 2, status: 304, bytes: 5 })
}

fn row(reports: Vec<Entry<Facts>>) -> EventRow<Facts> {
    EventRow { key: EventKey(1), site: Some(Site::from_stored("com.example")), home: Home(202_610), reports }
}

#[test]
fn events_round_trip() {
    let alone = row(vec![entry(1, SourceRole::Edge, bot("GPTBot"))]);
    let unknown = row(vec![entry(1, SourceRole::Agent, None)]);
    let several =
        row(vec![entry(1, SourceRole::Edge, bot("")), entry(2, SourceRole::Agent, None), entry(3, SourceRole::Origin, bot("b"))]);
    let mut equal = several.clone();
    for (entry, url) in equal.reports.iter_mut().zip(["https://example.com/", "https://example.com/", ""]) {
        Arc::make_mut(&mut entry.facts).url = url.to_owned();
    }
    for row in [alone, unknown, several, equal] {
        let found = decode_events(&fetched(&row)).unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", [row]));
    }
}

#[test]
fn stores_the_url_of_an_event_once() {
    let long = format!("https://example.com/{}", "u".repeat(8_000));
    let mut many = row((1..=32).map(|n| entry(n, SourceRole::Edge, bot("GPTBot"))).collect());
    many.reports.iter_mut().for_each(|entry| Arc::make_mut(&mut entry.facts).url.clone_from(&long));
    assert!(fetched(&many).len() < 2 * long.len(), "{} bytes", fetched(&many).len());
}

fn column(row: &EventRow<Facts>, wanted: &str) -> Vec<u8> {
    values(row).into_iter().find(|(name, _)| *name == wanted).unwrap().1
}

#[test]
fn shows_the_agents_report_and_the_first_bot_name() {
    let several = row(vec![
        entry(1, SourceRole::Origin, bot("late")),
        entry(2, SourceRole::Edge, bot("")),
        entry(3, SourceRole::Agent, None),
        entry(4, SourceRole::Index, bot("later")),
    ]);
    assert_eq!(column(&several, "representative"), [3]);
    assert_eq!(column(&several, "bot"), b"\x04late");
    assert_eq!(column(&several, "roles"), [0b1_1110]);
    assert_eq!((column(&several, "is_claimed"), column(&several, "is_seen")), (vec![1], vec![1]));
    // A server of the claiming organization isn't a second observer.
    let mut own = several.clone();
    own.reports.iter_mut().for_each(|entry| entry.observer.org = OrgId(Uuid::from_u128(9)));
    assert_eq!((column(&own, "is_claimed"), column(&own, "is_seen")), (vec![1], vec![0]));
}

/// Generates owners' and others' reports in any role, with and without a fetch.
fn entries() -> impl Strategy<Value = Vec<Entry<Facts>>> {
    let fetches =
        ["", "GPTBot"].into_iter().flat_map(|bot| [0, 200, 404].map(|status| Some(Fetch { status, ..self::bot(bot)? })));
    let fetch = select(fetches.chain([None]).collect::<Vec<_>>());
    vec((any::<bool>(), select(&SourceRole::ALL[..]), fetch), 1..6).prop_map(|reports| {
        let entries = (1..).zip(reports).map(|(n, (is_owners, role, fetch))| {
            // The size identifies the report that the fetch comes from.
            let mut entry = entry(n, role, fetch.map(|fetch| Fetch { bytes: n as u64, ..fetch }));
            Arc::make_mut(&mut entry.facts).is_owners = is_owners;
            entry
        });
        entries.collect()
    })
}

/// Merges each of these reports into the stored row, and returns the event.
fn merged(reports: &[Entry<Facts>]) -> EventRow<Facts> {
    let (shared_key, site) = (Some(EventKey(99)), Some(Site::from_stored("com.example")));
    let mut joined = None;
    for Entry { accepted, observer, at_ms, facts, .. } in reports.iter().cloned() {
        let report = Report { shared_key, accepted, observer, site: site.clone(), at_ms, facts };
        let changes = merge(&CurrentRows { joined, ..CurrentRows::default() }, &[report]);
        let row = changes.events.into_iter().find_map(|write| if let EventWrite::Row(row) = write { Some(row) } else { None });
        joined = decode_events(&fetched(&row.unwrap())).unwrap().pop();
    }
    joined.unwrap()
}

fn names_bot(entry: &Entry<Facts>) -> bool {
    entry.facts.fetch.as_ref().is_some_and(|fetch| !fetch.bot.is_empty())
}

proptest! {
    #[test]
    fn other_tenants_cannot_change_an_owners_fetch(reports in entries().prop_shuffle()) {
        let own: Vec<_> = reports.iter().filter(|entry| entry.facts.is_owners).cloned().collect();
        let event = merged(&reports);
        if own.iter().any(|entry| entry.facts.fetch.is_some()) {
            for name in ["bot", "operator", "purpose", "verified", "status", "bytes"] {
                prop_assert_eq!(column(&event, name), column(&row(own.clone()), name), "{}", name);
            }
        } else if !own.is_empty() {
            let status = column(&event, "status");
            prop_assert!([[0, 0], [200, 0]].contains(&[status[0], status[1]]), "an owner's report without a status is a fetch");
            prop_assert!(column(&event, "bot") == b"\x06GPTBot" || reports.iter().all(|entry| !names_bot(entry)));
        }
        let mut ordered = reports;
        ordered.sort_by_key(|entry| entry.accepted);
        prop_assert_eq!(format!("{event:?}"), format!("{:?}", merged(&ordered)), "any order");
    }
}

#[test]
fn tombstones_have_all_columns() {
    let mut body = Encoder::default();
    encode_event(&EventWrite::Tombstone(row(vec![entry(1, SourceRole::Edge, None)]).place()), 7, &mut body);
    encode_report(&entry(1, SourceRole::Edge, None).place(), None, None, 7, &mut body);
    let mut from = Decoder(&body.0);
    for columns in [EVENT_COLUMNS, REPORT_COLUMNS] {
        let values: Vec<_> = columns.iter().map(|(name, of)| (*name, value(of, &mut from))).collect();
        assert_eq!(values.last().unwrap(), &("is_deleted", &[1_u8][..]));
    }
    assert!(from.is_empty());
}
