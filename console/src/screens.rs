//! The screens: one file each, with a template of the same name, and the code that several of them share.

mod agent_start;
pub(crate) mod all_webhooks;
pub(crate) mod assistants;
pub(crate) mod audit;
pub(crate) mod clicks;
pub(crate) mod corroboration;
pub(crate) mod dead_letters;
pub(crate) mod domains;
pub(crate) mod drain;
pub(crate) mod drains;
pub(crate) mod event;
pub(crate) mod events;
mod filters;
pub(crate) mod funnel;
pub(crate) mod home;
pub(crate) mod invite;
pub(crate) mod keys;
pub(crate) mod measures;
pub(crate) mod members;
pub(crate) mod operator;
pub(crate) mod organizations;
pub(crate) mod overview;
pub(crate) mod pages;
pub(crate) mod partners;
pub(crate) mod reconciliation;
pub(crate) mod refused;
pub(crate) mod reported;
pub(crate) mod reports;
pub(crate) mod requests;
pub(crate) mod robots;
pub(crate) mod saved_views;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod start;
pub(crate) mod statements;
pub(crate) mod usage;
pub(crate) mod webhooks;

use crate::State;
use crate::api::{Parameters, SessionClient};
use crate::failure::Failure;
use crate::labels::UNKNOWN;
use crate::responses::{ALL_OTHERS, Domain, SeriesItem};
use crate::session::Member;
use askama::Template;
pub(crate) use filters::{Filters, PartnerView};
use schemas::problem::Problem;

/// Roles that can report a fetch, in order of precedence.
pub(crate) const ROLES: [&str; 4] = ["agent", "edge", "origin", "index"];

/// Returns a role's label, for content owners.
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

/// Restricts a read to fetches, which are requests that returned content.
pub(crate) const FETCHES: (&str, &str) = ("outcome", "fetch");

/// Returns the label of a bot in a series or an event.
pub(crate) fn bot_name(bot: &str) -> &str {
    match bot {
        "" => UNKNOWN,
        schemas::bots::OTHER => "Other bots",
        name => name,
    }
}

/// Returns the label of an item in a series by agent or bot.
pub(crate) fn agent_or_bot(item: &SeriesItem) -> String {
    if item.other { ALL_OTHERS.to_owned() } else { bot_name(&item.agent_or_bot).to_owned() }
}

/// The label for events without an agent.
pub(crate) const UNDECLARED: &str = "Crawlers (undeclared)";

/// Returns the organization's verified domains.
pub(crate) async fn proved_domains(api: &SessionClient) -> Result<Vec<String>, Failure> {
    let all: Vec<Domain> = api.get("/api/v1/identity/domains", &Vec::new()).await?;
    Ok(all.into_iter().filter(|domain| domain.verified).map(|domain| domain.domain).collect())
}

/// Returns a curl command that reads the header from standard input, because every account on a machine can list process arguments.
fn pasted_call(base: &str, address: &str, header: &str) -> String {
    format!("curl -sS '{base}{address}' -H @- <<<\"{header}\"")
}

/// Footer of a table: downloads, and the API request behind it.
#[derive(Template)]
#[template(path = "parts/behind.html")]
pub(crate) struct TableFooter {
    /// The list's name in `export`; empty without downloads.
    list: String,
    home: String,
    query: String,
    call: String,
}

impl askama::filters::HtmlSafe for TableFooter {}

impl TableFooter {
    /// `list` is a name in `export`; empty without downloads.
    pub(crate) fn new(state: &State, member: &Member, list: &str, path: &str, parameters: &Parameters) -> Self {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let address = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let call = pasted_call(state.public_base(), &address, "X-API-Key: $KEY");
        Self { list: list.to_owned(), home: member.organization.home(), query, call }
    }

    /// Footer of a table for operators.
    pub(crate) fn of_operator(state: &State, list: &str, path: &str, query: &str) -> Self {
        Self::by_session(state, ("/console/operator", list), path, query)
    }

    /// Footer of a table about the person.
    pub(crate) fn of_person(state: &State, list: &str, path: &str) -> Self {
        Self::by_session(state, ("/console", list), path, "")
    }

    fn by_session(state: &State, (home, list): (&str, &str), path: &str, query: &str) -> Self {
        let address = asked_of_api(path, query);
        let call = pasted_call(state.public_base(), &address, "Authorization: Bearer $SESSION");
        Self { list: list.to_owned(), home: home.to_owned(), query: query.to_owned(), call }
    }

    /// Footer of a list in a response about one object, which downloads identify by `named`.
    pub(crate) fn within(
        state: &State,
        member: &Member,
        list: &str,
        (name, id): (&str, &str),
        path: &str,
        parameters: &Parameters,
    ) -> Self {
        let behind = Self::new(state, member, list, path, parameters);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, id).extend_pairs(parameters);
        Self { query: query.finish(), ..behind }
    }

    /// Footer of an identity API list. `query` is its downloads' query and may be empty.
    pub(crate) fn identity(member: &Member, list: &str, path: &str, query: &str) -> Self {
        let address = asked_of_api(path, query);
        // Only people can list members; API keys can't.
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

/// Returns the path with a query. Parameters that the path contains are not repeated.
fn asked_of_api(path: &str, query: &str) -> String {
    let is_named = ["webhook=", "drain="].iter().any(|name| query.starts_with(name));
    let asked = if is_named { query.split_once('&').map_or("", |(_, asked)| asked) } else { query };
    if asked.is_empty() { path.to_owned() } else { format!("{path}?{asked}") }
}

/// Links to the previous and next page of a list.
pub(crate) struct Pager {
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) limit: u64,
    /// The list's address without offset or cursor.
    pub(crate) address: String,
    pub(crate) back_label: &'static str,
    /// Cursor of the next page.
    pub(crate) after: Option<String>,
    /// Whether this isn't the first page, in a list with cursors.
    pub(crate) is_later: bool,
    /// Whether `total` is exact.
    pub(crate) is_whole: bool,
}

impl Pager {
    /// Creates links for a list with offsets.
    pub(crate) fn numbered(address: String, total: u64, offset: u64, limit: u64) -> Self {
        Self { total, offset, limit, address, back_label: "Previous", after: None, is_later: false, is_whole: true }
    }

    /// Creates links for a list with cursors.
    pub(crate) fn by_cursor(address: String, total: u64, limit: u64, after: Option<String>, is_later: bool) -> Self {
        Self { back_label: "Newest", after, is_later, ..Self::numbered(address, total, 0, limit) }
    }

    /// Creates links for a list of unknown length. Requires one item more than a page shows.
    pub(crate) fn of_part<T>(address: String, items: &mut Vec<T>, offset: u64, limit: u64) -> Self {
        let total = offset.saturating_add(items.len() as u64);
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Self { is_whole: false, ..Self::numbered(address, total, offset, limit) }
    }

    /// Creates links for a complete list, and truncates `items` to the page.
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

    pub(crate) fn describe(&self) -> String {
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

/// Returns a list next to a secret. If the secret is new, the list may be missing, because the secret can't be shown again.
pub(crate) fn beside_secret<T>(is_new: bool, asked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match asked {
        Err(failure) if is_new => {
            tracing::warn!("failed to load the list next to a new secret: {failure:?}");
            Ok(None)
        }
        asked => asked.map(Some),
    }
}

/// The error that a form shows, if any.
pub(crate) type FormError = Option<Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_last_page_has_no_next_link() {
        let next = |total, offset| Pager::numbered("/list".to_owned(), total, offset, 50).older();
        assert_eq!((next(50, 0), next(100, 50)), (None, None));
        assert_eq!((next(51, 0), next(101, 50)), (Some("/list?offset=50".to_owned()), Some("/list?offset=100".to_owned())));
    }

    /// Every account on a machine can list process arguments.
    #[test]
    fn pasted_curl_commands_read_the_key_from_stdin() {
        let call = pasted_call("https://a.example", "/list?a=b", "X-API-Key: $KEY");
        assert_eq!(call, "curl -sS 'https://a.example/list?a=b' -H @- <<<\"X-API-Key: $KEY\"");
    }

    #[test]
    fn shows_a_new_secret_without_the_list() {
        let away = || Err::<u8, _>(Failure::away(anyhow::anyhow!("no answer")));
        assert!(matches!(beside_secret(true, away()), Ok(None)));
        assert!(matches!(beside_secret(true, Ok(1)), Ok(Some(1))));
        assert!(beside_secret(false, away()).is_err());
    }
}
