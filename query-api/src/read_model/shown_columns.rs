//! What is read of an observation, by who reads it: owners and their partners, or a party to it (its reporter, and the issuer of
//! the click token that bound it).
//!
//! Must give whoever is not the issuer of a click token nothing of the session behind it, but for the owner of the host
//! that the token's link leads to (docs/api/click-tokens.md#what-a-token-tells).

/// No session is stored as all zero; no platform is written likewise.
pub(super) const NONE: &str = "toUUID('00000000-0000-0000-0000-000000000000')";

/// Who observed it, as a number: a role that was left out, on a type that only an agent reports, is the agent's. Decided
/// here and not at acceptance, so that it holds for every row.
pub(super) const ROLE: &str = "if(source_role = '' AND event_type IN ('content_grounded', 'content_cited', 'content_presented', \
                               'content_engaged', 'turn_started', 'turn_completed'), 1, toUInt8(source_role))";

/// The counting key as an id, for events without one.
pub(super) const KEY_AS_ID: &str = "toString(toUUID(leftPad(lower(hex(event_key)), 32, '0')))";

/// Whether another than `{org:UUID}` reported it.
pub(super) const BY_OTHER: &str = "toUInt8(org_id != {org:UUID})";

/// The id of an event as a party to it is shown it: never another reporter's own.
pub(super) fn id() -> String {
    format!("if(event_id != '' AND org_id = {{org:UUID}}, event_id, {KEY_AS_ID})")
}

/// Session, platform, agent, URL and correlation id, and whether another reported it, as `{org:UUID}` is shown them, which
/// reported it or issued the token that bound it.
pub(super) fn columns() -> [(String, &'static str); 6] {
    let is_others = "issuer_id NOT IN ({org:UUID}, toUUID('00000000-0000-0000-0000-000000000000'))";
    [
        (format!("if({is_others}, {NONE}, session_id)"), "session"),
        (format!("if({is_others}, {NONE}, platform_id)"), "platform"),
        (format!("if({is_others}, '', toString(agent_id))"), "agent"),
        (format!("if({is_others} AND link = 'taken', '', content_url)"), "url"),
        ("if(org_id = {org:UUID}, content_telemetry_id, '')".to_owned(), "telemetry_id"),
        (BY_OTHER.to_owned(), "by_other"),
    ]
}

/// The same as an owner is shown them, of whom it `may_tell` whose click it was. A click that was reported for another host than
/// the token's is, to that host's owner, an event of its reporter's without a session.
pub(super) fn owners_columns(may_tell: &str) -> [(String, &'static str); 5] {
    [
        (format!("if({may_tell}, session_id, {NONE})"), "session"),
        (format!("if({may_tell}, platform_id, org_id)"), "platform"),
        (format!("if({may_tell}, toString(agent_id), '')"), "agent"),
        ("content_url".to_owned(), "url"),
        ("content_telemetry_id".to_owned(), "telemetry_id"),
    ]
}

/// The host of the link of a token that another used elsewhere, as `link_site` of the index has it.
pub(super) const LINK_SITE: &str = "if(link != 'other', '', if(link_site = '', '-', link_site))";

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::event::{EventType, SourceRole};
    use schemas::store::CLICKHOUSE_DDL;

    #[test]
    fn a_role_left_out_is_the_agents_on_every_type_that_only_an_agent_reports_and_on_no_other() {
        for event_type in EventType::SPECIFIED {
            let is_agents_alone = SourceRole::ALL.iter().all(|role| event_type.allows(*role) == (*role == SourceRole::Agent));
            assert_eq!(ROLE.contains(&format!("'{event_type}'")), is_agents_alone, "{event_type}");
        }
        // What the index holds was decided when it was stored, by the same words.
        let decides = |expression: &str| CLICKHOUSE_DDL.iter().any(|ddl| ddl.contains(expression));
        assert!(decides(&format!("{ROLE} AS role,")) && decides(&format!("{LINK_SITE} AS link_site\n")));
        assert!(ROLE.ends_with(&format!("{}, toUInt8(source_role))", SourceRole::code(Some(SourceRole::Agent)))));
    }
}
