//! The filter bar of screens with a period: period, comparison, domain and filters.

use super::saved_views::{self, SavedView};
use super::{ROLES, partners, proved_domains, reporter};
use crate::State;
use crate::api::SessionClient;
use crate::failure::Failure;
use crate::labels::{self, FETCH_OUTCOMES, UNKNOWN};
use crate::responses::Delegation;
use crate::session::Member;
use crate::sort::Headings;
use crate::window::{COMPARISONS, DateProblem, PeriodParameters, Window};

/// A property of events that screens can be filtered by.
pub(crate) struct Dimension {
    /// Name in addresses and in the API.
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// Values and their labels. If empty, any text is accepted.
    choices: &'static [(&'static str, &'static str)],
}

const fn dimension(name: &'static str, label: &'static str, choices: &'static [(&'static str, &'static str)]) -> Dimension {
    Dimension { name, label, choices }
}

/// The filters supported by all reads of content owners.
pub(crate) const DIMENSIONS: [Dimension; 12] = [
    dimension("operator", "Operator", &[]),
    dimension("agent_or_bot", "Agent or bot", &[]),
    dimension("bot", "Bot", &[]),
    dimension("agent_id", "Agent", &[]),
    dimension("platform_id", "Organization", &[]),
    dimension(
        "purpose",
        "Purpose",
        &[("training", "Training"), ("search", "Search index"), ("user", "User request"), ("unknown", UNKNOWN)],
    ),
    dimension("verified", "IP check", &[("true", "Verified"), ("false", "Mismatch"), ("unknown", UNKNOWN)]),
    dimension(
        "evidence",
        "Evidence",
        &[
            ("corroborated", "Confirmed claims"),
            ("claimed", "Claimed only"),
            ("observed", "Server only"),
            ("unknown", "Neither"),
            ("signed", "Signed"),
        ],
    ),
    dimension("signature", "Signature", &[("valid", "Valid"), ("invalid", "Invalid"), ("none", "Unsigned")]),
    dimension("status", "Status code", &[("2xx", "2xx"), ("3xx", "3xx"), ("4xx", "4xx"), ("5xx", "5xx"), ("0", UNKNOWN)]),
    dimension("source_role", "Reported by", &[("agent", ""), ("edge", ""), ("origin", ""), ("index", "")]),
    dimension("path", "Path", &[]),
];

/// Filters without a field of their own: one field finds agents and bots.
const LINKED: [&str; 3] = ["agent_id", "bot", "platform_id"];

impl Dimension {
    fn named(name: &str) -> Option<&'static Self> {
        DIMENSIONS.iter().find(|dimension| dimension.name == name)
    }

    /// Returns a value's label.
    fn label_of<'a>(&self, value: &'a str) -> &'a str {
        let label = self.choices.iter().find(|(known, _)| *known == value).map(|(_, label)| *label);
        if ROLES.contains(&value) && self.name == "source_role" { reporter(value) } else { label.unwrap_or(value) }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.choices.is_empty()
    }

    /// Returns the values to choose from, including the current one.
    pub(crate) fn values<'a>(&self, current: &'a str) -> Vec<Choice<'a>> {
        let is_other = !current.is_empty() && self.choices.iter().all(|(value, _)| *value != current);
        let values = self.choices.iter().map(|(value, _)| *value).chain(is_other.then_some(current));
        values.map(|value| (value, self.label_of(value), value == current)).collect()
    }
}

/// A value of a filter, its label, and whether it is chosen.
type Choice<'a> = (&'a str, &'a str, bool);

/// A filter in the address, and the address without it.
pub(crate) struct Chip {
    pub(crate) label: &'static str,
    pub(crate) value: String,
    pub(crate) without: String,
}

/// Filters above a screen that has a period.
pub(crate) struct Filters {
    pub(crate) window: Window,
    /// Why the dates in the address were not used.
    pub(crate) date_problem: Option<DateProblem>,
    pub(crate) domains: Vec<String>,
    /// Path of the screen.
    pub(crate) here: String,
    /// Other parameters in the address, which links keep.
    pub(crate) kept: Vec<(&'static str, String)>,
    /// The partner whose view an owner sees.
    pub(crate) seen_as: Option<PartnerView>,
    /// Event type or outcome in an event list; empty for all.
    pub(crate) event_type: Option<String>,
    /// Whether the data belongs to a content owner, so that it can be filtered.
    pub(crate) is_of_owner: bool,
    /// The organization's saved views of the screen, if the data belongs to a content owner.
    pub(crate) views: Vec<SavedView>,
}

/// The partner whose view is shown, and the address of the owner's own view.
pub(crate) struct PartnerView {
    pub(crate) name: String,
    pub(crate) back: String,
}

impl PartnerView {
    /// Returns the partner with this id. If no partner has the id, the following read returns the error.
    pub(crate) async fn find(api: &SessionClient, seen_by: &str, back: String) -> Result<Option<Self>, Failure> {
        if seen_by.is_empty() {
            return Ok(None);
        }
        let partners: Vec<Delegation> = api.get(partners::DELEGATIONS, &vec![("role", "grantor".to_owned())]).await?;
        let partner = partners.into_iter().find(|partner| Ok(partner.grantee_org_id) == seen_by.parse());
        Ok(partner.map(|partner| Self { name: partner.grantee_name, back }))
    }
}

/// Event types to choose from, after the request outcomes.
const TYPES: [&str; 5] = ["content_grounded", "content_cited", "content_presented", "content_engaged", "checkout_completed"];

impl Filters {
    /// Reads the filters of a content owner's screen.
    pub(crate) async fn read(state: &State, member: &Member, screen: &str, asked: &PeriodParameters) -> Result<Self, Failure> {
        let filters = Self::new(state, member, screen, asked)?;
        let (api, back) = (member.api(), format!("{}?{}", filters.here, filters.window.own().query()));
        let seen_as = PartnerView::find(&api, &filters.window.seen_by, back);
        let (domains, seen_as, views) = tokio::try_join!(proved_domains(&api), seen_as, saved_views::of_page(&api, screen))?;
        Ok(Self { domains, seen_as, is_of_owner: true, views, ..filters })
    }

    /// Reads the period of an organization without domains, whose data can't be filtered.
    pub(crate) fn period_only(state: &State, member: &Member, screen: &str, asked: &PeriodParameters) -> Result<Self, Failure> {
        let filters = Self::new(state, member, screen, asked)?;
        Ok(Self { window: filters.window.unfiltered(), ..filters })
    }

    fn new(state: &State, member: &Member, screen: &str, asked: &PeriodParameters) -> Result<Self, Failure> {
        let (window, date_problem) = Window::read(asked, state.clock.now())?;
        let kept = [("by", &asked.by), ("split", &asked.split), ("sort", &asked.sort), ("finding", &asked.finding)];
        let kept = kept.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect();
        let here = format!("{}/{screen}", member.organization.home());
        let (domains, views) = (Vec::new(), Vec::new());
        Ok(Self { window, date_problem, domains, here, kept, seen_as: None, event_type: None, is_of_owner: false, views })
    }

    /// Adds an event list's type filter.
    pub(crate) fn of_events(self, asked: &PeriodParameters) -> Self {
        Self { event_type: Some(asked.kind().to_owned()), ..self }
    }

    /// Returns whether the start date or the end date is invalid.
    pub(crate) fn is_invalid(&self, is_since: bool) -> bool {
        let of = |problem: &DateProblem| if is_since { problem.is_of_since } else { problem.is_of_until };
        self.date_problem.as_ref().is_some_and(of)
    }

    /// Returns the domain in the address if it isn't in the list, such as a subdomain.
    pub(crate) fn other_domain(&self) -> Option<&str> {
        let domain = self.window.domain.as_str();
        let is_other = !domain.is_empty() && self.domains.iter().all(|choice| choice != domain);
        is_other.then_some(domain)
    }

    /// Returns the event types to choose from, including the current one.
    pub(crate) fn types<'a>(&self, current: &'a str) -> Vec<Choice<'a>> {
        let known = FETCH_OUTCOMES.into_iter().chain(TYPES.into_iter().map(|name| (name, labels::event(name))));
        let is_other = !current.is_empty() && known.clone().all(|(name, _)| name != current);
        let all = known.chain(is_other.then(|| (current, labels::event(current))));
        all.map(|(name, label)| (name, label, name == current)).collect()
    }

    /// Returns the comparisons to choose from.
    pub(crate) fn comparisons(&self) -> [Choice<'static>; 3] {
        COMPARISONS.map(|(name, label)| (name, label, name == self.window.compare))
    }

    /// Returns whether the screen shows changes.
    pub(crate) fn has_comparison(&self) -> bool {
        ["/overview", "/assistants"].iter().any(|screen| self.here.ends_with(screen))
    }

    /// Returns the dimensions that the screen shows next to the period, or all others.
    pub(crate) fn dimensions(&self, is_first: bool) -> Vec<&'static Dimension> {
        let first = [("/events", "agent_or_bot"), ("/pages", "path")];
        let of = |name: &str| first.iter().any(|(screen, dimension)| self.here.ends_with(screen) && *dimension == name);
        DIMENSIONS.iter().filter(|known| of(known.name) == is_first && !LINKED.contains(&known.name)).collect()
    }

    /// Returns the filters that only links add, with their values.
    pub(crate) fn linked(&self) -> Vec<(&'static str, &str)> {
        let of = |name| (name, self.window.filter(name));
        LINKED.into_iter().map(of).filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Returns whether some events are filtered out.
    pub(crate) fn is_narrowed(&self) -> bool {
        !self.window.filters.is_empty() || self.event_type.as_ref().is_some_and(|name| !name.is_empty())
    }

    /// Returns the address of the screen without filters.
    pub(crate) fn everything(&self) -> String {
        format!("{}?{}", self.here, self.window.unfiltered().query())
    }

    /// Returns the domain, the type and the filters in the address.
    pub(crate) fn chips(&self) -> Vec<Chip> {
        let chip = |label, value: &str, without| Chip { label, value: value.to_owned(), without };
        let domain = Some(&self.window.domain).filter(|domain| self.is_of_owner && !domain.is_empty());
        let domain = domain.map(|domain| chip("Domain", domain, self.address(&self.window.on_domain(""))));
        let event_type = self.event_type.as_ref().filter(|name| !name.is_empty()).map(|name| {
            let outcome = FETCH_OUTCOMES.iter().find(|(outcome, _)| outcome == name).map(|(_, label)| *label);
            chip("Type", outcome.unwrap_or(labels::event(name)), format!("{}?{}", self.here, self.window.query()))
        });
        let has_agent = ["agent_id", "agent_or_bot"].iter().any(|name| !self.window.filter(name).is_empty());
        // An agent belongs to an organization, so one chip removes both.
        let shown = self.window.filters.iter().filter(|(name, _)| *name != "platform_id" || !has_agent);
        let filters = shown.filter_map(|(name, value)| {
            let dimension = Dimension::named(name)?;
            let without = self.window.with(name, "");
            let without = if name.starts_with("agent") { without.with("platform_id", "") } else { without };
            Some(chip(dimension.label, dimension.label_of(value), self.address(&without)))
        });
        domain.into_iter().chain(event_type).chain(filters).collect()
    }

    /// Returns the address of the screen with this filter added.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> String {
        self.address(&self.window.with(name, value))
    }

    /// Returns the screen's address with the filters for a platform's agent added.
    pub(crate) fn with_agent(&self, agent_id: &str, platform_id: &str) -> String {
        self.address(&self.window.with("agent_or_bot", agent_id).with("platform_id", platform_id))
    }

    /// Like [`Self::with_agent`], or without an agent, for a bot; `None` if both are unknown.
    pub(crate) fn of_agent_or_bot(&self, agent_id: &str, platform_id: &str, bot: &str) -> Option<String> {
        match (agent_id, bot) {
            ("", "") => None,
            ("", bot) => Some(self.with("agent_or_bot", bot)),
            (agent, _) => Some(self.with_agent(agent, platform_id)),
        }
    }

    /// Returns the address of the screen for one day.
    pub(crate) fn on_day(&self, day: &str) -> Option<String> {
        Some(self.address(&self.window.on(day.parse().ok()?)))
    }

    /// Returns the screen's address for a page or section; `None` for a URL that the API can't filter by.
    pub(crate) fn within(&self, content_url: &str) -> Option<String> {
        let (host, path) = host_and_path(content_url)?;
        let window = self.window.on_domain(host).with("path", path);
        // Selecting a section shows its pages.
        Some(if path.ends_with("/*") { format!("{}?{}", self.here, window.query()) } else { self.address(&window) })
    }

    /// Returns the screen's address with a chart line's value as filter; `None` for sums and unknown values.
    pub(crate) fn with_line(&self, split: &str, line: &str) -> Option<String> {
        let dimension = Dimension::named(split)?;
        let value = if dimension.is_text() || line.bytes().all(|byte| byte.is_ascii_digit()) {
            let is_sum = line.ends_with(" others") || [UNKNOWN, super::bot_name(schemas::bots::OTHER)].contains(&line);
            Some(line).filter(|line| !is_sum && *line != crate::responses::ALL_OTHERS)
        } else {
            dimension.choices.iter().find(|(_, label)| *label == line).map(|(value, _)| *value)
        };
        Some(self.with(dimension.name, value?))
    }

    fn address(&self, window: &Window) -> String {
        format!("{}?{}{}", self.here, window.query(), self.kept_query())
    }

    /// Returns the headings of the screen's tables. `more` contains other parameters of the address.
    pub(crate) fn headings(&self, asked: &PeriodParameters, more: &[(&str, &str)], usual: &'static str) -> Headings {
        Headings::new(format!("{}?{}", self.here, self.window.query_and(more)), &asked.sort, usual)
    }

    /// Returns the address of the organization's first page.
    pub(crate) fn home(&self) -> &str {
        self.here.rsplit_once('/').map_or("", |(home, _)| home)
    }

    /// Returns the address of the form that saves the current view.
    pub(crate) fn save_address(&self) -> String {
        let page = self.here.rsplit('/').next().unwrap_or_default();
        let query = format!("{}{}", self.window.query(), self.kept_query());
        let named =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs([("page", page), ("query", &query)]).finish();
        format!("{}/views?{named}", self.home())
    }

    /// Returns the kept parameters, to append to others.
    pub(crate) fn kept_query(&self) -> String {
        let event_type = self.event_type.as_deref().filter(|name| !name.is_empty()).map(|name| ("event_type", name));
        let kept = self.kept.iter().map(|(name, value)| (*name, value.as_str()));
        let pairs = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(kept.chain(event_type)).finish();
        if pairs.is_empty() { pairs } else { format!("&{pairs}") }
    }
}

/// Returns the host and path of a page, or of a section with a trailing asterisk, as the API filters by them.
pub(super) fn host_and_path(content_url: &str) -> Option<(&str, &str)> {
    let (_, beyond) = content_url.split_once("://")?;
    let (host, path) = beyond.split_at(beyond.find('/')?);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let start = path.strip_suffix("/*").unwrap_or(path);
    (!start.contains('*')).then_some((host, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_sections_are_a_host_and_a_path() {
        for (url, expected) in [
            ("https://example.com/blog/*", Some(("example.com", "/blog/*"))),
            ("https://example.com/b%2Fc/a?q=1#x", Some(("example.com", "/b%2Fc/a"))),
            ("https://example.com/", Some(("example.com", "/"))),
            ("https://example.com/a*b/*", None),
            ("https://example.com/a*", None),
            ("https://example.com/*/*", None),
            ("nothing/*", None),
            ("https://example.com", None),
        ] {
            assert_eq!(host_and_path(url), expected, "{url}");
        }
    }

    #[test]
    fn every_parsed_filter_is_a_dimension() {
        let query = DIMENSIONS.map(|dimension| format!("{}=x", dimension.name)).join("&");
        let asked = axum::extract::Query::<PeriodParameters>::try_from_uri(&format!("/?{query}").parse().unwrap()).unwrap();
        let window = Window::new(&asked, "2026-03-01T12:00:00Z".parse().unwrap()).unwrap_or_else(|_| panic!());
        let names: Vec<_> = window.filters.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, DIMENSIONS.map(|dimension| dimension.name));
    }
}
