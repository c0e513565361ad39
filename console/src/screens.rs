//! The screens: one file each, with a template of the same name. What several of them need stands here.
//!
//! Must ask the API only through the reader's own [`crate::api::Asker`].

pub(crate) mod agents;
pub(crate) mod all_webhooks;
pub(crate) mod audit;
pub(crate) mod clicks;
pub(crate) mod corroboration;
pub(crate) mod crawlers;
pub(crate) mod domains;
pub(crate) mod drain;
pub(crate) mod drains;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod funnel;
pub(crate) mod home;
pub(crate) mod invite;
pub(crate) mod keys;
pub(crate) mod members;
pub(crate) mod operator;
pub(crate) mod organizations;
pub(crate) mod overview;
pub(crate) mod pages;
pub(crate) mod partners;
pub(crate) mod refused;
pub(crate) mod reported;
pub(crate) mod reports;
pub(crate) mod requests;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod start;
pub(crate) mod webhooks;

use crate::State;
use crate::answers::{Delegation, Domain};
use crate::api::{Asker, Parameters};
use crate::failure::Failure;
use crate::labels;
use crate::session::Member;
use crate::sort::Headings;
use crate::window::{PeriodParameters, Window};
use askama::Template;
use schemas::problem::Problem;

/// The bar above a screen that shows a period.
pub(crate) struct Filters {
    pub(crate) window: Window,
    pub(crate) domains: Vec<String>,
    /// The path of the screen.
    pub(crate) here: String,
    /// What the address says besides, and keeps.
    pub(crate) kept: Vec<(&'static str, String)>,
    /// As whom an owner looks.
    pub(crate) seen_as: Option<SeenAs>,
    /// Of a list of events: what it is narrowed to.
    pub(crate) narrowed: Option<Narrowed>,
    /// Of a list of pages: their path, or what it begins with; empty: all of them.
    pub(crate) path: Option<String>,
}

/// A partner whose view is shown, and the address of one's own.
pub(crate) struct SeenAs {
    name: String,
    back: String,
}

impl SeenAs {
    /// The partner of this id, by the name that the API tells. Who is none is refused by the read that follows.
    pub(crate) async fn find(api: &Asker, seen_by: &str, back: String) -> Result<Option<Self>, Failure> {
        if seen_by.is_empty() {
            return Ok(None);
        }
        let partners: Vec<Delegation> = api.get(partners::DELEGATIONS, &vec![("role", "grantor".to_owned())]).await?;
        let partner = partners.into_iter().find(|partner| Ok(partner.grantee_org_id) == seen_by.parse());
        Ok(partner.map(|partner| Self { name: partner.grantee_name, back }))
    }
}

/// A type and an agent, or all of them.
pub(crate) struct Narrowed {
    pub(crate) event_type: String,
    pub(crate) agent_id: String,
}

/// Event types to choose among.
const TYPES: [&str; 6] =
    ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged", "checkout_completed"];

/// The roles in which a fetch may be reported, in the order of precedence.
pub(crate) const ROLES: [&str; 4] = ["agent", "edge", "origin", "index"];

/// The label of the role in which an event was reported, for the owner of the content.
pub(crate) fn reporter(source_role: &str) -> &str {
    match source_role {
        "agent" => "AI agent",
        "edge" => "CDN",
        "origin" => "Your server",
        "index" => "Marketplace",
        "" => UNKNOWN,
        other => other,
    }
}

/// The label of a missing value.
pub(crate) const UNKNOWN: &str = "Unknown";
/// The label of events without an agent.
pub(crate) const UNDECLARED: &str = "Crawlers (undeclared)";

/// The label of an agent, which may have reported without a name.
pub(crate) fn agent_name(agent_id: &str) -> String {
    if agent_id.is_empty() { UNKNOWN.to_owned() } else { agent_id.to_owned() }
}

impl Narrowed {
    pub(crate) fn is_of_type(&self, name: &str) -> bool {
        self.event_type == name
    }

    /// The types to choose among, with the one that was chosen.
    pub(crate) fn types(&self) -> Vec<(&str, &str)> {
        let is_other = !self.event_type.is_empty() && TYPES.iter().all(|name| *name != self.event_type);
        let other = is_other.then_some(self.event_type.as_str());
        TYPES.into_iter().chain(other).map(|name| (name, labels::event(name))).collect()
    }
}

impl Filters {
    /// The bar of a screen of an organisation.
    pub(crate) async fn read(state: &State, member: &Member, screen: &str, asked: &PeriodParameters) -> Result<Self, Failure> {
        let filters = Self::without_domains(state, member, screen, asked)?;
        let (api, back) = (member.api(), format!("{}?{}", filters.here, filters.window.own().query()));
        let (domains, seen_as) = tokio::try_join!(proved_domains(&api), SeenAs::find(&api, &filters.window.seen_by, back))?;
        Ok(Self { domains, seen_as, ..filters })
    }

    /// The same for an organisation that has no domains.
    pub(crate) fn without_domains(
        state: &State,
        member: &Member,
        screen: &str,
        asked: &PeriodParameters,
    ) -> Result<Self, Failure> {
        let window = Window::of(asked, state.clock.now())?;
        let kept = [("by", &asked.by), ("split", &asked.split), ("sort", &asked.sort)];
        let kept = kept.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect();
        let here = format!("{}/{screen}", member.organization.home());
        Ok(Self { window, domains: Vec::new(), here, kept, seen_as: None, narrowed: None, path: None })
    }

    /// The bar of a list of events, with what it is narrowed to.
    pub(crate) fn narrowing(self, asked: &PeriodParameters) -> Self {
        let mut kept = self.kept;
        kept.extend((!asked.platform_id.is_empty()).then(|| ("platform_id", asked.platform_id.clone())));
        let narrowed = Narrowed { event_type: asked.event_type.clone(), agent_id: asked.agent_id.clone() };
        Self { kept, narrowed: Some(narrowed), ..self }
    }

    /// The bar of a list of pages, with their path.
    pub(crate) fn on_path(self, asked: &PeriodParameters) -> Self {
        Self { path: Some(asked.path.clone()), ..self }
    }

    /// The domain of the address where it is none to choose, as a host beneath one is.
    pub(crate) fn other_domain(&self) -> Option<&str> {
        let domain = self.window.domain.as_str();
        let is_other = !domain.is_empty() && self.domains.iter().all(|choice| choice != domain);
        is_other.then_some(domain)
    }

    /// The path that a list of pages is narrowed to; empty where it is not.
    pub(crate) fn path_told(&self) -> &str {
        self.path.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_path(&self) -> bool {
        !self.path_told().is_empty()
    }

    /// The headings of the screen's tables; `more` is what its address says besides.
    pub(crate) fn headings(&self, asked: &PeriodParameters, more: &[(&str, &str)], usual: &'static str) -> Headings {
        Headings::of(format!("{}?{}", self.here, self.window.query_and(more)), &asked.sort, usual)
    }

    /// What is kept, behind other parameters.
    pub(crate) fn kept_query(&self) -> String {
        let narrowed = self.narrowed.iter().flat_map(|narrowed| {
            let chosen = [("event_type", narrowed.event_type.as_str()), ("agent_id", &narrowed.agent_id)];
            chosen.into_iter().filter(|(_, value)| !value.is_empty())
        });
        let kept = self.kept.iter().map(|(name, value)| (*name, value.as_str()));
        let path = self.has_path().then(|| ("path", self.path_told()));
        let pairs = kept.chain(narrowed).chain(path);
        let pairs = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        if pairs.is_empty() { pairs } else { format!("&{pairs}") }
    }
}

/// The domains of the organisation that show anything.
pub(crate) async fn proved_domains(api: &Asker) -> Result<Vec<String>, Failure> {
    let all: Vec<Domain> = api.get("/api/v1/identity/domains", &Vec::new()).await?;
    Ok(all.into_iter().filter(|domain| domain.verified).map(|domain| domain.domain).collect())
}

/// A command to paste. Curl reads the header from its input, because every account of a machine can list arguments.
fn pasted_call(base: &str, address: &str, header: &str) -> String {
    format!("curl -sS '{base}{address}' -H @- <<< \"{header}\"")
}

/// The foot of a table: its files, and how a program asks for the same.
#[derive(Template)]
#[template(path = "parts/behind.html")]
pub(crate) struct Behind {
    /// The list in `export`, or none.
    list: String,
    home: String,
    query: String,
    call: String,
}

impl askama::filters::HtmlSafe for Behind {}

impl Behind {
    /// `list` is a name of `export`'s, empty for what has no files.
    pub(crate) fn of(state: &State, member: &Member, list: &str, path: &str, parameters: &Parameters) -> Self {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let address = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let call = pasted_call(state.public_base(), &address, "X-API-Key: $KEY");
        Self { list: list.to_owned(), home: member.organization.home(), query, call }
    }

    /// What an operator asks, and a list of `export`'s for operators.
    pub(crate) fn of_operator(state: &State, list: &str, path: &str, query: &str) -> Self {
        Self::by_session(state, ("/console/operator", list), path, query)
    }

    /// What a person asks about nothing but themselves, and a list of `export`'s for people.
    pub(crate) fn of_person(state: &State, list: &str, path: &str) -> Self {
        Self::by_session(state, ("/console", list), path, "")
    }

    fn by_session(state: &State, (home, list): (&str, &str), path: &str, query: &str) -> Self {
        let address = asked_of_api(path, query);
        let call = pasted_call(state.public_base(), &address, "Authorization: Bearer $SESSION");
        Self { list: list.to_owned(), home: home.to_owned(), query: query.to_owned(), call }
    }

    /// A list within an answer about one thing, which the files name by `named`.
    pub(crate) fn within(
        state: &State,
        member: &Member,
        list: &str,
        (name, id): (&str, &str),
        path: &str,
        parameters: &Parameters,
    ) -> Self {
        let behind = Self::of(state, member, list, path, parameters);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, id).extend_pairs(parameters);
        Self { query: query.finish(), ..behind }
    }

    /// A list of identity; its files are asked for by `query`, which may be empty.
    pub(crate) fn identity(member: &Member, list: &str, path: &str, query: &str) -> Self {
        let address = asked_of_api(path, query);
        // Of members only a person is told.
        let credential = if path.contains("/organizations/") { "Authorization: Bearer $SESSION" } else { "X-API-Key: $KEY" };
        let call = pasted_call(&member.public_base, &address, credential);
        Self { list: list.to_owned(), home: member.organization.home(), query: query.to_owned(), call }
    }

    fn csv(&self) -> String {
        self.file("csv")
    }

    fn ndjson(&self) -> String {
        self.file("ndjson")
    }

    fn file(&self, format: &str) -> String {
        format!("{}/export/{}.{format}?{}", self.home, self.list, self.query)
    }
}

/// A path and what a query asks of it: what names a thing first is in the path.
fn asked_of_api(path: &str, query: &str) -> String {
    let is_named = ["webhook=", "drain="].iter().any(|name| query.starts_with(name));
    let asked = if is_named { query.split_once('&').map_or("", |(_, asked)| asked) } else { query };
    if asked.is_empty() { path.to_owned() } else { format!("{path}?{asked}") }
}

/// The way from one page of a list to the next.
pub(crate) struct Pager {
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    /// The address of the list without its place.
    pub(crate) address: String,
    pub(crate) back_label: &'static str,
    /// Of lists that go on by a cursor: where.
    pub(crate) after: Option<String>,
    /// Whether such a list is not at its beginning.
    pub(crate) is_later: bool,
    /// Whether `total` is all of the list, and not as far as it was looked at.
    pub(crate) is_whole: bool,
}

impl Pager {
    /// A list that is paged by numbers.
    pub(crate) fn numbered(address: String, total: u64, offset: u64, limit: u64) -> Self {
        Self { total, offset, limit, address, back_label: "Previous", after: None, is_later: false, is_whole: true }
    }

    /// A list that goes on by a cursor.
    pub(crate) fn by_cursor(address: String, total: u64, limit: u64, after: Option<String>, is_later: bool) -> Self {
        Self { back_label: "Newest", after, is_later, ..Self::numbered(address, total, 0, limit) }
    }

    /// A list that does not say how long it is, asked for with one item more than a page shows.
    pub(crate) fn of_part<T>(address: String, items: &mut Vec<T>, offset: u64, limit: u64) -> Self {
        let total = offset.saturating_add(items.len() as u64);
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Self { is_whole: false, ..Self::numbered(address, total, offset, limit) }
    }

    /// A list of which all items are there, and a page stays.
    pub(crate) fn of_all<T>(address: String, items: &mut Vec<T>, offset: u64, limit: u64) -> Self {
        let pager = Self::numbered(address, items.len() as u64, offset, limit);
        items.drain(..items.len().min(usize::try_from(offset).unwrap_or(usize::MAX)));
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        pager
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.newer().is_some() || self.older().is_some()
    }

    pub(crate) fn newer(&self) -> Option<String> {
        if self.is_later {
            return Some(self.address.clone());
        }
        (self.offset > 0).then(|| self.at("offset", &self.offset.saturating_sub(self.limit).to_string()))
    }

    pub(crate) fn older(&self) -> Option<String> {
        if let Some(after) = &self.after {
            return Some(self.at("after", after));
        }
        let next = self.offset.saturating_add(self.limit);
        (!self.is_later && self.back_label == "Previous" && next < self.total).then(|| self.at("offset", &next.to_string()))
    }

    pub(crate) fn told(&self) -> String {
        let total = crate::numbers::grouped(self.total);
        if self.after.is_some() || self.is_later {
            return format!("{total} total");
        }
        let last = self.offset.saturating_add(self.limit).min(self.total);
        let shown =
            format!("{}\u{2013}{}", crate::numbers::grouped(self.offset.saturating_add(1)), crate::numbers::grouped(last));
        if self.is_whole { format!("{shown} of {total}") } else { shown }
    }

    fn at(&self, name: &str, value: &str) -> String {
        let value: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let sign = if self.address.contains('?') { '&' } else { '?' };
        format!("{}{sign}{name}={value}", self.address)
    }
}

/// A list that stands beside a secret: where the secret was made just now, the list may be missing, because nobody can show the secret
/// again.
pub(crate) fn beside_secret<T>(is_new: bool, asked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match asked {
        Err(failure) if is_new => {
            tracing::warn!("showing a new secret without the list beside it: {failure:?}");
            Ok(None)
        }
        asked => asked.map(Some),
    }
}

/// What a form is told: nothing, or why it was refused.
pub(crate) type Outcome = Option<Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_last_page_has_no_next_page() {
        let next = |total, offset| Pager::numbered("/list".to_owned(), total, offset, 50).older();
        assert_eq!((next(50, 0), next(100, 50)), (None, None));
        assert_eq!((next(51, 0), next(101, 50)), (Some("/list?offset=50".to_owned()), Some("/list?offset=100".to_owned())));
    }

    #[test]
    fn a_new_secret_is_shown_even_when_the_list_beside_it_is_away() {
        let away = || Err::<u8, _>(Failure::away(anyhow::anyhow!("no answer")));
        assert!(matches!(beside_secret(true, away()), Ok(None)));
        assert!(matches!(beside_secret(true, Ok(1)), Ok(Some(1))));
        assert!(beside_secret(false, away()).is_err());
    }
}
