//! The use of content, step by step: by agent, page or day. The agents screen shows the agents alone.
//!
//! Every figure is taken from the API as it is.

use super::{Behind, Filters, Pager, UNDECLARED, UNKNOWN};
use crate::State;
use crate::answers::{FunnelItem, List};
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::query::Query;
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use std::sync::Arc;

const LIMIT: u64 = 50;
const BY: [(&str, &str); 3] = [("agent", "By agent"), ("url", "By page"), ("day", "By day")];

#[derive(Template)]
#[template(path = "funnel.html")]
pub(crate) struct Funnel {
    frame: Frame,
    filters: Filters,
    headings: Headings,
    home: String,
    ways: [(&'static str, &'static str); 3],
    by: &'static str,
    rows: Vec<FunnelItem>,
    pager: Pager,
    behind: Behind,
}

impl FunnelItem {
    fn label(&self) -> &str {
        let unnamed = if self.platform_id.is_empty() { UNDECLARED } else { UNKNOWN };
        [&self.day, &self.content_url, &self.agent_id].into_iter().find(|label| !label.is_empty()).map_or(unnamed, String::as_str)
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
    let page: List<FunnelItem> = member.api().get("/content-owners/funnel", &parameters).await?;
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
        behind: Behind::of(&state, &member, "funnel", "/content-owners/funnel", &parameters),
        filters,
    }))
}
