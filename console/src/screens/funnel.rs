//! The use of content, step by step: by agent, page or day. The agents screen shows only agents.
//!
//! Every figure comes unchanged from the API.

use super::{FETCHES, Filters, LARGEST, Pager, TableFooter, UNDECLARED, UNKNOWN};
use crate::State;
use crate::api::{Parameters, SessionClient};
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::Count;
use crate::query::Query;
use crate::responses::{FunnelItem, List};
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) const FUNNEL: &str = "/content-owners/funnel";
const LIMIT: u64 = 50;
const BY: [(&str, &str); 3] = [("agent", "By agent"), ("url", "By page"), ("day", "By day")];

#[derive(Template)]
#[template(path = "funnel.html")]
pub(crate) struct Funnel {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    ways: [(&'static str, &'static str); 3],
    by: &'static str,
    rows: Vec<FunnelItem>,
    pager: Pager,
    behind: TableFooter,
}

impl Funnel {
    /// Returns the address of the funnel for a single row.
    fn filtered(&self, row: &FunnelItem) -> Option<String> {
        match self.by {
            "day" => self.filters.on_day(&row.day),
            "url" => self.filters.within(&row.content_url),
            _ => (!row.agent_id.is_empty()).then(|| self.filters.with_agent(&row.agent_id, &row.platform_id)),
        }
    }
}

impl FunnelItem {
    fn key(&self) -> [String; 4] {
        [&self.day, &self.content_url, &self.platform_id, &self.agent_id].map(String::clone)
    }

    fn label(&self) -> &str {
        let unnamed = if self.platform_id.is_empty() { UNDECLARED } else { UNKNOWN };
        [&self.day, &self.content_url, &self.agent_id].into_iter().find(|label| !label.is_empty()).map_or(unnamed, String::as_str)
    }
}

/// The number of fetches of each row in a funnel.
pub(super) struct Fetches {
    of: HashMap<[String; 4], Count>,
    is_whole: bool,
}

impl Fetches {
    /// Reads a funnel of only fetches.
    pub(super) async fn read(api: &SessionClient, parameters: &Parameters) -> Result<Self, Failure> {
        let page: List<FunnelItem> = api.get(FUNNEL, parameters).await?;
        let is_whole = page.items.len() as u64 >= page.total;
        Ok(Self { of: page.items.into_iter().map(|item| (item.key(), item.retrieved)).collect(), is_whole })
    }

    /// Adds the fetches to rows of the same grouping. A row that a long list may omit stays unknown.
    pub(super) fn fill(&self, rows: &mut [FunnelItem]) {
        for row in rows {
            row.fetches = self.of.get(&row.key()).copied().or(self.is_whole.then_some(Count(0)));
        }
    }
}

/// `GET /console/o/{organization}/funnel`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Funnel>, Failure> {
    let filters = Filters::read(&state, &member, "funnel", &asked).await?;
    let by = BY.iter().map(|(name, _)| *name).find(|name| *name == asked.by).unwrap_or("agent");
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let parameters = filters.window.parameters_and(&[("by", by), ("sort", &asked.sort), ("limit", &limit), ("offset", &offset)]);
    let api = member.api();
    let of_fetches = filters.window.parameters_and(&[("by", by), FETCHES, LARGEST]);
    let (mut page, fetches) =
        tokio::try_join!(api.get::<List<FunnelItem>>(FUNNEL, &parameters), Fetches::read(&api, &of_fetches))?;
    fetches.fill(&mut page.items);
    let address = format!("{}?{}", filters.here, filters.window.query_and(&[("by", by), ("sort", &asked.sort)]));
    let headings = filters.headings(&asked, &[("by", by)], if by == "day" { "-day" } else { "" });
    Ok(Page(Funnel {
        headings,
        frame: member.frame("Funnel", &filters.window.query()),
        home: member.organization.home(),
        ways: BY,
        by,
        rows: page.items,
        pager: Pager::numbered(address, page.total, asked.offset, LIMIT),
        behind: TableFooter::new(&state, &member, "funnel", FUNNEL, &parameters),
        filters,
    }))
}
