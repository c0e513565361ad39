//! For operators: what each organization reports, and how much of its limits it uses.

use super::operator::organizations_named;
use super::{Pager, TableFooter};
use crate::State;
use crate::api::Parameters;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::query::{Query, path_segment};
use crate::responses::OrgType;
use crate::session::SignedIn;
use crate::sort::Headings;
use askama::Template;
use axum::extract::State as Shared;
use chrono::TimeDelta;
use serde::Deserialize;
use std::sync::Arc;

const USAGE: &str = "/operator/usage";
const HERE: &str = "/console/operator/usage";
const LIMIT: u64 = 50;

#[derive(Deserialize)]
struct Usage {
    organization_name: String,
    org_type: OrgType,
    events: Count,
    last_event_at: Option<Time>,
    keys: Count,
    drains: Count,
    silent_drains: Count,
    members: Count,
    limited_requests: Count,
    near_limits: Vec<String>,
}

impl Usage {
    fn organization(&self) -> String {
        organizations_named(&self.organization_name)
    }

    fn is_near(&self, limit: &str) -> bool {
        self.near_limits.iter().any(|near| near == limit)
    }
}

#[derive(Template)]
#[template(path = "usage.html")]
pub(crate) struct UsagePage {
    frame: Layout,
    headings: Headings,
    organizations: Vec<Usage>,
    pager: Pager,
    behind: TableFooter,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsageParameters {
    sort: String,
    offset: u64,
}

/// `GET /console/operator/usage`: the last 30 days.
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Query(asked): Query<UsageParameters>,
) -> Result<Page<UsagePage>, Failure> {
    let since = (state.clock.now() - TimeDelta::days(30)).format("%F").to_string();
    let sort = (!asked.sort.is_empty()).then(|| ("sort", asked.sort.clone()));
    let narrowing: Parameters = sort.into_iter().chain([("since", since)]).collect();
    let page = [("limit", (LIMIT + 1).to_string()), ("offset", asked.offset.to_string())];
    let mut organizations = person.api.get(USAGE, &page.into_iter().chain(narrowing.clone()).collect()).await?;
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&narrowing).finish();
    let address = if asked.sort.is_empty() { HERE.to_owned() } else { format!("{HERE}?sort={}", path_segment(&asked.sort)) };
    let pager = Pager::of_part(address, &mut organizations, asked.offset, LIMIT);
    let headings = Headings::new(HERE.to_owned(), &asked.sort, "-events");
    let behind = TableFooter::of_operator(&state, "usage", USAGE, &query);
    Ok(Page(UsagePage { frame: person.frame("Usage"), headings, organizations, pager, behind }))
}
