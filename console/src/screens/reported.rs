//! Events reported by an agent or platform, others' events with its click tokens, and how its sessions ended.

use super::{Filters, Pager, TableFooter};
use crate::State;
use crate::api::Parameters;
use crate::chart::Chart;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::numbers::Count;
use crate::query::Query;
use crate::responses::{ALL_OTHERS, Clicks, Outcomes, Series, SourceCount, TypeCount};
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::cmp::Reverse;
use std::sync::Arc;

pub(super) const SUMMARY: &str = "/agent/summary";
/// Agents per page. An organization can name any number of agents.
const LIMIT: u64 = 50;

/// Footers of the tables of session outcomes and their values.
pub(super) fn behind_outcomes(state: &State, member: &Member, window: &Parameters) -> [TableFooter; 2] {
    ["outcomes", "outcome-values"].map(|list| TableFooter::new(state, member, list, SUMMARY, window))
}

/// `GET /agent/summary`
#[derive(Deserialize)]
struct Summary {
    total_events: Count,
    total_sessions: Count,
    events_by_type: Vec<TypeCount>,
    events_by_source: Vec<SourceCount>,
    agents: Vec<OwnAgent>,
    clicks: Clicks,
    outcomes: Outcomes,
}

#[derive(Deserialize)]
struct OwnAgent {
    agent_id: String,
    event_count: Count,
    session_count: Count,
    #[serde(default)]
    other: bool,
}

impl SourceCount {
    fn role(&self) -> &str {
        super::reporter(&self.source_role)
    }
}

impl OwnAgent {
    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "agent" => Some(Key::text(&self.agent_id)),
            "events" => Some(Key::number(self.event_count.0)),
            "sessions" => Some(Key::number(self.session_count.0)),
            _ => None,
        }
    }
}

/// Number of events of one type.
struct TypeRow {
    counted: TypeCount,
    is_of_others: bool,
}

impl TypeRow {
    fn label(&self) -> &str {
        match self.is_of_others {
            true => self.counted.token_label(),
            false if self.counted.other => ALL_OTHERS,
            false => labels::events(&self.counted.event_type),
        }
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "type" => Some(Key::text(self.label())),
            "events" => Some(Key::number(self.counted.count.0)),
            _ => None,
        }
    }
}

impl Summary {
    /// Returns the types that the organization reported and others reported with its tokens, most events first.
    fn types(&mut self) -> Vec<TypeRow> {
        let counted = |is_of_others: bool| move |counted: TypeCount| TypeRow { counted, is_of_others };
        let own = std::mem::take(&mut self.events_by_type).into_iter().map(counted(false));
        let of_others = std::mem::take(&mut self.clicks.events_by_type).into_iter().map(counted(true));
        let mut types: Vec<TypeRow> = own.chain(of_others).collect();
        types.sort_by_key(|of| Reverse(of.counted.count));
        types
    }

    fn is_empty(&self) -> bool {
        self.total_events.0 + self.clicks.total_events.0 + self.outcomes.total.0 == 0
    }
}

#[derive(Template)]
#[template(path = "reported.html")]
pub(crate) struct Reported {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    summary: Summary,
    pager: Pager,
    types: Vec<TypeRow>,
    chart: Chart,
    behind: TableFooter,
    behind_agents: TableFooter,
    behind_types: TableFooter,
    behind_outcomes: [TableFooter; 2],
}

/// `GET /console/o/{organization}/reported`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Reported>, Failure> {
    let filters = Filters::period_only(&state, &member, "reported", &asked)?;
    let (api, window) = (member.api(), &filters.window);
    let split = window.parameters_and(&[("by", window.bucket()), ("split", "type")]);
    let whole = window.parameters();
    let (mut summary, series) =
        tokio::try_join!(api.get::<Summary>(SUMMARY, &whole), api.get::<Series>("/agent/series", &split))?;
    let headings = filters.headings(&asked, &[], "-events");
    headings.sort(&mut summary.agents, OwnAgent::key);
    let address = format!("{}?{}", filters.here, window.query_and(&[("sort", &asked.sort)]));
    let pager = Pager::of_all(address, &mut summary.agents, asked.offset, LIMIT);
    let mut types = summary.types();
    headings.sort(&mut types, TypeRow::key);
    summary.outcomes.sort(&headings);
    Ok(Page(Reported {
        headings,
        frame: member.frame("Overview", &window.query()),
        home: member.organization.home(),
        summary,
        pager,
        types,
        chart: Chart::new("Events by type", &series.items, window.bucket() == "hour", |item| {
            if item.other { ALL_OTHERS.to_owned() } else { labels::events(&item.event_type).to_owned() }
        })
        .until(state.clock.now()),
        behind: TableFooter::new(&state, &member, "own-series", "/agent/series", &split),
        behind_agents: TableFooter::new(&state, &member, "own-agents", SUMMARY, &whole),
        behind_types: TableFooter::new(&state, &member, "own-types", SUMMARY, &whole),
        behind_outcomes: behind_outcomes(&state, &member, &whole),
        filters,
    }))
}
