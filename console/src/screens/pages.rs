//! Pages: each URL with how often it was used, and when last.
//!
//! Must keep the order of the API: most events first, or by the column that was chosen.

use super::{Behind, Filters, Pager};
use crate::State;
use crate::answers::{List, UrlMetric};
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::numbers::Count;
use crate::query::Query;
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use std::sync::Arc;

const LIMIT: u64 = 50;

#[derive(Template)]
#[template(path = "pages.html")]
pub(crate) struct Pages {
    frame: Frame,
    filters: Filters,
    headings: Headings,
    home: String,
    pages: Vec<UrlMetric>,
    pager: Pager,
    behind: Behind,
}

impl UrlMetric {
    /// How many events of a type the URL has.
    pub(crate) fn of_type(&self, event_type: &str) -> Count {
        self.event_types.iter().find(|counted| counted.event_type == event_type).map_or(Count(0), |counted| counted.count)
    }
}

/// `GET /console/o/{organization}/pages`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Pages>, Failure> {
    let filters = Filters::read(&state, &member, "pages", &asked).await?;
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let parameters = filters.window.parameters_and(&[("sort", &asked.sort), ("limit", &limit), ("offset", &offset)]);
    let page: List<UrlMetric> = member.api().get("/content-owners/urls", &parameters).await?;
    let address = format!("{}?{}", filters.here, filters.window.query_and(&[("sort", &asked.sort)]));
    Ok(Page(Pages {
        headings: Headings::over(&filters, &asked, &[], "-total_events"),
        frame: member.frame("Pages", &filters.window.query()),
        home: member.organization.home(),
        pager: Pager::numbered(address, page.total, asked.offset, LIMIT),
        pages: page.items,
        behind: Behind::of(&state, &member, "pages", "/content-owners/urls", &parameters),
        filters,
    }))
}
