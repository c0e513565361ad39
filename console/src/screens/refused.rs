//! The organization's rejected requests in recent days, by reason.

use super::{Pager, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::query::Query;
use crate::session::Member;
use askama::Template;
use axum::extract::State as Shared;
use chrono::{SecondsFormat, TimeDelta};
use serde::Deserialize;
use std::sync::Arc;

const REFUSED: &str = "/api/v1/identity/refused-reports";
const LIMIT: u64 = 50;
/// Periods: value in the address, label, and days.
const CHOICES: [(&str, &str, i64); 3] = [("1d", "24 hours", 1), ("7d", "7 days", 7), ("30d", "30 days", 30)];

#[derive(Deserialize)]
struct Reason {
    route: String,
    status: u16,
    code: String,
    field: String,
    rule: String,
    requests: Count,
    last_at: Time,
    last_request_id: String,
}

impl Reason {
    fn label(&self) -> &str {
        labels::problem(&self.code)
    }

    fn rule_label(&self) -> &str {
        labels::rule(&self.rule)
    }
}

#[derive(Template)]
#[template(path = "refused.html")]
pub(crate) struct Refused {
    frame: Layout,
    home: String,
    choices: [(&'static str, &'static str, i64); 3],
    period: &'static str,
    told: &'static str,
    reasons: Vec<Reason>,
    pager: Pager,
    behind: TableFooter,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct PeriodParameters {
    period: String,
    offset: u64,
}

/// `GET /console/o/{organization}/refused`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Refused>, Failure> {
    let chosen = CHOICES.into_iter().find(|(name, ..)| *name == asked.period);
    let (period, told, days) = chosen.unwrap_or(CHOICES[1]);
    let since = (state.clock.now() - TimeDelta::days(days)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let parameters = vec![("since", since), ("limit", (LIMIT + 1).to_string()), ("offset", asked.offset.to_string())];
    let mut reasons: Vec<Reason> = member.api().get(REFUSED, &parameters).await?;
    let home = member.organization.home();
    Ok(Page(Refused {
        frame: member.frame("Rejected reports", ""),
        choices: CHOICES,
        period,
        told,
        pager: Pager::of_part(format!("{home}/refused?period={period}"), &mut reasons, asked.offset, LIMIT),
        behind: TableFooter::new(&state, &member, "refused", REFUSED, &parameters),
        home,
        reasons,
    }))
}
