//! `GET /content-owners/documents`: an owner's events as documents of the public standard, which another service accepts.

mod compose;

use crate::State;
use crate::access::consent::with_deadline;
use crate::access::visibility::Visibility;
use crate::parameters::ReadParameters;
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::read_limiter::AdmittedReader;
use crate::reads::{ExportedReport, ReportPage, Rows};
use crate::respond::page::set_next_page;
use crate::respond::streamed_response::StreamedItems;
use crate::statements::{OpaqueIds, StatementTable};
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use compose::{Composer, session_of};
use schemas::ids::OrgId;
use schemas::paged_responses::MAX_PAGE;
use schemas::session::PrivacyLevel;
use service_kit::http::{ApiError, Parameters};
use sqlx::PgPool;
use std::sync::Arc;
use uuid::Uuid;

/// Maximum number of events per document.
const MAX_EVENTS: usize = 500;
/// A document ends after the event that exceeds this size, in bytes of `data` and unknown members. Services accept 4 MiB.
const MAX_BYTES: usize = 1 << 20;

pub(crate) async fn read_documents(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "after"])?;
    let (filter, after) = (EventFilter::parse(&asked)?, Cursor::parse(asked.get("after"))?);
    let limit = Paging::parse(asked.get("limit"), None, MAX_PAGE)?.limit;
    let period = asked.period()?;
    let seen = Visibility::for_read(&state.directory, &reading.reader, &asked).await?;
    let read = state.reads(&reading.permit).document_page((&seen, &period, &filter), (limit, &after), state.clock.now());
    let reports = read.await?;
    let next = reports.next.clone();
    let owner = seen.organization_id();
    let ids = StatementTable(state.pool.clone()).opaque_ids(owner).await?;
    let found = Documents { reports, following: None, pool: state.pool.clone(), owner, ids };
    let items = StreamedItems { head: Bytes::new(), found, between: "", item: |document| document, tail: Bytes::new() };
    let mut response = items.send(reading.permit).await?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    set_next_page(&mut response, next);
    Ok(response)
}

/// The documents of a page, as lines.
struct Documents {
    reports: ReportPage,
    /// The first report of the next document.
    following: Option<ExportedReport>,
    pool: PgPool,
    owner: OrgId,
    ids: OpaqueIds,
}

impl Documents {
    /// Returns the reports of the next document: those of one observer, agent and session.
    async fn next_group(&mut self) -> Result<Vec<ExportedReport>, ApiError> {
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut next = self.following.take();
        if next.is_none() {
            next = self.reports.next_report().await?;
        }
        while let Some(report) = next {
            let is_same = group.last().is_none_or(|last| is_same_document(last, &report));
            if !is_same || group.len() == MAX_EVENTS || bytes > MAX_BYTES {
                self.following = Some(report);
                break;
            }
            bytes += report.content.data.len() + report.content.extra.len();
            group.push(report);
            next = self.reports.next_report().await?;
        }
        Ok(group)
    }
}

fn is_same_document(one: &ExportedReport, other: &ExportedReport) -> bool {
    let of = |report: &ExportedReport| (report.listed.nth, report.content.organization, report.content.session);
    of(one) == of(other) && one.listed.agent == other.listed.agent && one.listed.shows_agent == other.listed.shows_agent
}

impl Rows for Documents {
    type Row = Vec<u8>;

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let group = self.next_group().await?;
        let Some(first) = group.first() else { return Ok(None) };
        let is_full = match session_of(first).filter(|_| group.iter().any(compose::depends_on_level)) {
            Some(session) => is_full(&self.pool, first.content.organization, session).await?,
            None => false,
        };
        let mut composer = Composer { owner: self.owner, ids: &mut self.ids, is_full };
        Ok(Some(composer.document(&group)))
    }
}

/// Returns whether the session permits showing unknown members.
async fn is_full(pool: &PgPool, organization: Uuid, session: Uuid) -> Result<bool, sqlx::Error> {
    let query = sqlx::query_scalar("SELECT privacy_level FROM sessions WHERE organization_id = $1 AND session_id = $2");
    let level: Option<Option<i16>> = with_deadline(query.bind(organization).bind(session).fetch_optional(pool)).await?;
    Ok(level.flatten().map(PrivacyLevel::from_code) == Some(PrivacyLevel::Full))
}
