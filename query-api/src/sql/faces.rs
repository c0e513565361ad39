//! What is read of an observation, by who reads it: owners and their partners, or who took part in it (the reporter, and the
//! issuer of the click token that bound it).
//!
//! Must give whoever is not the issuer of a click token nothing of the session behind it, but for the owner of the host
//! that the token's link leads to (docs/api/click-tokens.md#what-a-token-tells).

/// No session is stored as all zero; no platform is written likewise.
pub(super) const NONE: &str = "toUUID('00000000-0000-0000-0000-000000000000')";

/// Who observed it, as a number: a role that was left out, on a type that only an agent reports, is the agent's. Decided
/// here and not at acceptance, so that it holds for every row.
pub(super) const ROLE: &str = "if(source_role = '' AND event_type IN ('content_grounded', 'content_cited', 'content_presented', \
                               'content_engaged', 'turn_started', 'turn_completed'), 1, toUInt8(source_role))";

/// Whose session an owner is shown. A click that was reported for another host than the token's is, to that host's owner, an
/// event of its reporter's without a session.
pub(super) const PLATFORM: &str = "if(link = 'other', org_id, platform_id)";
/// Which session an owner is shown.
pub(super) const SESSION: &str = "if(link = 'other', toUUID('00000000-0000-0000-0000-000000000000'), session_id)";
/// Which agent an owner is shown.
pub(super) const AGENT: &str = "if(link = 'other', '', toString(agent_id))";

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    /// Whose content it is about.
    Owner,
    /// `{org:UUID}`, which reported it or issued the token that bound it.
    Party,
}

/// The counting key as an id, for events without one.
const KEY_AS_ID: &str = "toString(toUUID(leftPad(lower(hex(event_key)), 32, '0')))";

impl Face {
    /// The id of an event: never another reporter's own.
    pub(super) fn id(self) -> String {
        let is_told = match self {
            Self::Owner => "event_id != ''",
            Self::Party => "event_id != '' AND org_id = {org:UUID}",
        };
        format!("if({is_told}, event_id, {KEY_AS_ID})")
    }

    /// Session, platform, agent, URL and correlation id, and whether another reported it.
    pub(super) fn columns(self) -> [(String, &'static str); 6] {
        let [session, platform, agent, url, telemetry_id, by_other] = match self {
            Self::Owner => [SESSION, PLATFORM, AGENT, "content_url", "content_telemetry_id", "toUInt8(0)"].map(str::to_owned),
            Self::Party => {
                let is_others = "issuer_id NOT IN ({org:UUID}, toUUID('00000000-0000-0000-0000-000000000000'))";
                [
                    format!("if({is_others}, {NONE}, session_id)"),
                    format!("if({is_others}, {NONE}, platform_id)"),
                    format!("if({is_others}, '', toString(agent_id))"),
                    format!("if({is_others} AND link = 'taken', '', content_url)"),
                    "if(org_id = {org:UUID}, content_telemetry_id, '')".to_owned(),
                    "toUInt8(org_id != {org:UUID})".to_owned(),
                ]
            }
        };
        [
            (session, "session"),
            (platform, "platform"),
            (agent, "agent"),
            (url, "url"),
            (telemetry_id, "telemetry_id"),
            (by_other, "by_other"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::event::{EventType, SourceRole};

    #[test]
    fn a_role_left_out_is_the_agents_on_every_type_that_only_an_agent_reports_and_on_no_other() {
        for event_type in EventType::SPECIFIED {
            let is_agents_alone = SourceRole::ALL.iter().all(|role| event_type.allows(*role) == (*role == SourceRole::Agent));
            assert_eq!(ROLE.contains(&format!("'{event_type}'")), is_agents_alone, "{event_type}");
        }
        assert!(ROLE.ends_with(&format!("{}, toUInt8(source_role))", SourceRole::code(Some(SourceRole::Agent)))));
    }
}
