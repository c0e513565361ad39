//! The navigation for each type of organization, one line per screen.
//!
//! A label equals its screen's title, so that the current one is marked.

use crate::responses::{Membership, OrgType, SessionInfo};

pub const SIGN_IN: &str = "/sign-in";

/// Lines below one heading.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) links: Vec<Link>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) label: &'static str,
    pub(crate) address: String,
    pub(crate) is_here: bool,
}

/// Heading, label, path below the organization, and whether the screen shows a period.
type NavigationLine = (&'static str, &'static str, &'static str, bool);

const OWNER: &[NavigationLine] = &[
    ("Analytics", "Overview", "overview", true),
    ("Analytics", "Assistants & crawlers", "assistants", true),
    ("Analytics", "Pages", "pages", true),
    ("Analytics", "Events", "events", true),
    ("Analytics", "Confirmed claims", "corroboration", true),
    ("Analytics", "Reconciliation", "reconciliation", true),
    ("Analytics", "Funnel", "funnel", true),
    ("Analytics", "robots.txt", "robots", true),
    ("Analytics", "Statements", "statements", false),
    ("Setup", "Get started", "start", false),
    ("Setup", "Domains", "domains", false),
];

const AGENT: &[NavigationLine] = &[
    ("Analytics", "Overview", "reported", true),
    ("Analytics", "Events", "reports", true),
    ("Analytics", "Click token events", "clicks", true),
    ("Setup", "Get started", "start", false),
];

/// The screens that every organization has, after those of its type.
const EVERY_ORGANIZATION: &[NavigationLine] = &[
    ("Setup", "Log drains", "drains", false),
    ("Setup", "API keys", "keys", false),
    ("Setup", "Rejected reports", "refused", false),
    ("Sharing", "Partners", "partners", false),
    ("Sharing", "Webhooks", "webhooks", false),
    ("Organization", "Members", "members", false),
    ("Organization", "Settings", "settings", false),
    ("Organization", "Audit trail", "audit", false),
];

const PERSON: &[(&str, &str, &str)] =
    &[("Account", "Organizations", "/console/organizations"), ("Account", "Agents and platforms", "/console/requests")];

const OPERATOR: &[(&str, &str, &str)] = &[
    ("Operator", "Requests to review", "/console/operator/requests"),
    ("Operator", "All organizations", "/console/operator/organizations"),
    ("Operator", "Usage", "/console/operator/usage"),
    ("Operator", "Trusted partners", "/console/operator/organizations?trusted_partner=true"),
    ("Operator", "All webhooks", "/console/operator/webhooks"),
    ("Operator", "Dead letters", "/console/operator/dead-letters"),
];

/// Returns the screens of an organization and the person.
pub(crate) fn of_member(who: &SessionInfo, organization: &Membership, title: &str, query: &str) -> Vec<Group> {
    let lines = if organization.org_type == OrgType::ContentOwner { OWNER } else { AGENT };
    let mut groups = Vec::new();
    for (heading, label, path, has_period) in lines.iter().chain(EVERY_ORGANIZATION) {
        let kept = if *has_period && !query.is_empty() { format!("?{query}") } else { String::new() };
        let address = format!("{}/{path}{kept}", organization.home());
        add(&mut groups, heading, Link { label, address, is_here: *label == title });
    }
    groups.extend(of_person(who, title));
    groups
}

/// Returns the screens of a person without an organization.
pub(crate) fn of_person(who: &SessionInfo, title: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    let operator = if who.is_operator { OPERATOR } else { &[] };
    for (heading, label, address) in PERSON.iter().chain(operator) {
        add(&mut groups, heading, Link { label, address: (*address).to_owned(), is_here: *label == title });
    }
    groups
}

fn add(groups: &mut Vec<Group>, heading: &'static str, link: Link) {
    match groups.last_mut().filter(|group| group.heading == heading) {
        Some(group) => group.links.push(link),
        None => groups.push(Group { heading, links: vec![link] }),
    }
}
