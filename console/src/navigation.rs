//! Which screens there are, for whom, and in which order: one line a screen.
//!
//! Must hold no logic but who sees a line.

use crate::answers::{Membership, OrgKind, Whoami};

/// Where people sign in.
pub const SIGN_IN: &str = "/sign-in";

/// Lines under one heading.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) links: Vec<Link>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) label: &'static str,
    pub(crate) address: String,
    pub(crate) is_here: bool,
}

/// A screen: heading, label, path beneath the organisation, whether it shows a period.
type Line = (&'static str, &'static str, &'static str, bool);

const OWNER: &[Line] = &[
    ("What happened", "Overview", "overview", true),
    ("What happened", "Events", "events", true),
    ("What happened", "Pages", "pages", true),
    ("What happened", "Corroboration", "corroboration", true),
    ("What happened", "Funnel", "funnel", true),
    ("What happened", "Agents", "agents", true),
    ("What happened", "Crawlers", "crawlers", true),
    ("Set up", "Get started", "start", false),
    ("Set up", "Domains", "domains", false),
];

const AGENT: &[Line] = &[
    ("What you reported", "Reported", "reported", true),
    ("What you reported", "Own events", "reports", true),
    ("What you reported", "Clicks", "clicks", true),
];

/// What every organisation has, whatever its kind, after its own lines.
const EVERY_ORGANIZATION: &[Line] = &[
    ("Set up", "Drains", "drains", false),
    ("Set up", "API keys", "keys", false),
    ("Set up", "Refused reports", "refused", false),
    ("Share", "Partners", "partners", false),
    ("Share", "Webhooks", "webhooks", false),
    ("Organisation", "Members", "members", false),
    ("Organisation", "Settings", "settings", false),
    ("Organisation", "Audit trail", "audit", false),
];

const PERSON: &[(&str, &str, &str)] =
    &[("You", "Organisations", "/console/organizations"), ("You", "Agents and platforms", "/console/requests")];

const OPERATOR: &[(&str, &str, &str)] = &[
    ("Operator", "Requests to review", "/console/operator/requests"),
    ("Operator", "All organisations", "/console/operator/organizations"),
    ("Operator", "Trusted partners", "/console/operator/organizations?trusted_partner=true"),
    ("Operator", "Pipeline", "/console/operator/pipeline"),
    ("Operator", "All webhooks", "/console/operator/webhooks"),
];

/// The screens of an organisation, and those of the person.
pub(crate) fn of_member(who: &Whoami, organization: &Membership, title: &str, query: &str) -> Vec<Group> {
    let lines = if organization.org_type == OrgKind::ContentOwner { OWNER } else { AGENT };
    let mut groups = Vec::new();
    for (heading, label, path, has_period) in lines.iter().chain(EVERY_ORGANIZATION) {
        let kept = if *has_period && !query.is_empty() { format!("?{query}") } else { String::new() };
        let address = format!("{}/{path}{kept}", organization.home());
        add(&mut groups, heading, Link { label, address, is_here: *label == title });
    }
    groups.extend(of_person(who, title));
    groups
}

/// The screens of a person without an organisation.
pub(crate) fn of_person(who: &Whoami, title: &str) -> Vec<Group> {
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
