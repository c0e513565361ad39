//! How content is used, step by step: by agent or bot, page or day.
//!
//! Every figure comes unchanged from the API.

use super::{Filters, Pager, TableFooter, UNKNOWN, bot_name};
use crate::State;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::{FunnelItem, List};
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use std::sync::Arc;

pub(super) const FUNNEL: &str = "/content-owners/funnel";
const LIMIT: u64 = 50;
const BY: [(&str, &str); 3] = [("agent", "By agent or bot"), ("url", "By page"), ("day", "By day")];

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
            _ => self.filters.of_agent_or_bot(&row.agent_id, &row.platform_id, &row.bot),
        }
    }
}

impl FunnelItem {
    pub(super) fn label(&self) -> &str {
        let names = [self.day.as_str(), &self.content_url, &self.agent_id, &self.bot];
        names.into_iter().find(|name| !name.is_empty()).map_or(UNKNOWN, bot_name)
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
    let page: List<FunnelItem> = member.api().get(FUNNEL, &parameters).await?;
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
