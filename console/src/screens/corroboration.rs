//! Corroboration: fetches claimed by agents compared with fetches seen by servers, by agent and day.
//!
//! Totals are sums of all rows that the API returns for the period.

use super::{FETCHES, Filters, Pager, TableFooter, overview};
use crate::State;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Share};
use crate::query::Query;
use crate::responses::{Corroborated, List};
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State as Shared;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

const LIMIT: u64 = 50;

#[derive(Template)]
#[template(path = "corroboration.html")]
pub(crate) struct CorroborationPage {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    claims: Share,
    rows: Vec<Corroborated>,
    pager: Pager,
    behind: TableFooter,
}

impl CorroborationPage {
    fn claimed(&self) -> Count {
        Count(self.claims.whole)
    }

    fn corroborated(&self) -> Count {
        Count(self.claims.part)
    }

    /// Returns the address of the row's fetches. Fetches without a claim are listed for the whole day.
    fn events_of(&self, row: &Corroborated) -> String {
        let window = self.filters.window.on(row.day).with("agent_or_bot", &row.agent_id).with("platform_id", &row.platform_id);
        format!("{}/events?{}", self.home, window.query_and(&[FETCHES]))
    }
}

impl Corroborated {
    fn both(&self) -> Share {
        Share::new(self.seen_by_both, self.retrievals)
    }

    fn bar(&self) -> Bar {
        let parts = [
            ("both", self.seen_by_both.0),
            ("claimed", self.claimed_by_agent_only.0),
            ("seen", self.seen_by_server_only.0),
            ("neither", self.seen_by_neither.0),
        ];
        Bar { parts, whole: self.retrievals.0 }
    }
}

/// Segments of a row's bar. The row contains the figures.
struct Bar {
    parts: [(&'static str, u64); 4],
    whole: u64,
}

impl HtmlSafe for Bar {}

impl Display for Bar {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "<svg class=\"bar\" viewBox=\"0 0 1000 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">",
        )?;
        let mut before = 0_u128;
        for (class, part) in self.parts {
            let at = |sum: u128| sum * 1_000 / u128::from(self.whole.max(1));
            let (left, right) = (at(before), at(before + u128::from(part)));
            before += u128::from(part);
            write!(f, "<rect class=\"{class}\" x=\"{left}\" y=\"0\" width=\"{}\" height=\"8\"/>", right - left)?;
        }
        f.write_str("</svg>")
    }
}

/// `GET /console/o/{organization}/corroboration`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<CorroborationPage>, Failure> {
    let filters = Filters::read(&state, &member, "corroboration", &asked).await?;
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let parameters = filters.window.parameters_and(&[("sort", &asked.sort), ("limit", &limit), ("offset", &offset)]);
    let (api, whole) = (member.api(), filters.window.parameters());
    let (page, days) = tokio::try_join!(
        api.get::<List<Corroborated>>("/content-owners/corroboration", &parameters),
        overview::corroboration(&api, &whole),
    )?;
    let claims = overview::claims(&days);
    let address = format!("{}?{}", filters.here, filters.window.query_and(&[("sort", &asked.sort)]));
    Ok(Page(CorroborationPage {
        headings: filters.headings(&asked, &[], "-day"),
        frame: member.frame("Confirmed claims", &filters.window.query()),
        home: member.organization.home(),
        claims,
        rows: page.items,
        pager: Pager::numbered(address, page.total, asked.offset, LIMIT),
        behind: TableFooter::new(&state, &member, "corroboration", "/content-owners/corroboration", &parameters),
        filters,
    }))
}
