//! Statements of an owner (docs/api/statements.md): closing months, reading statements and their evidence, and the manifest with the
//! keys that sign them.

use crate::State;
use crate::access::closer::Closer;
use crate::access::visibility::Visibility;
use crate::parameters::paging::Paging;
use crate::parameters::{ReadParameters, invalid};
use crate::read_limiter::AdmittedReader;
use crate::reads::{BACKGROUND, Rows};
use crate::respond::streamed_response::{self, StreamedItems};
use crate::statements::{By, Closing, EvidenceParts, FileParts, Format, MonthClosed, Sources, StatementRow, StatementTable};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State as Shared};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures::FutureExt;
use schemas::ids::StatementId;
use schemas::paged_responses::{MAX_PAGE, Page};
use schemas::problem::Code;
use schemas::statement_responses::{ClosedMonth, STATEMENT_NOTE, StatementItem};
use serde::Deserialize;
use service_kit::http::{ApiError, Parameters, parse_object, quality_values};
use std::sync::Arc;
use std::time::Duration;

/// Shorter than the time limit for a request (`service_kit::http`), and than the console's.
const PATIENCE: Duration = Duration::from_secs(15);
const RETRY_AFTER: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    period: String,
    operator: Option<String>,
    by: Option<By>,
}

/// `POST /content-owners/statements`: 201 for a new statement, 200 if nothing has changed.
pub(crate) async fn close_month(
    Shared(state): Shared<Arc<State>>,
    Closer(closer): Closer,
    Parameters(parameters): Parameters<ReadParameters>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    parameters.reject_unsupported(&["organization_id"])?;
    let owner = closer.org_id;
    let seen = Visibility::for_all_domains(owner, &state.directory.owned_sites(owner).await?);
    if seen.domains().is_empty() {
        return Err(ApiError::new(Code::Forbidden, "Your organization has no verified domain."));
    }
    let asked: Asked = parse_object(&state.bodies.read(request).await?)?;
    let query = sqlx::query_scalar("SELECT name FROM organizations WHERE id = $1");
    let month = Closing {
        seen,
        owner_name: query.bind(owner.0).fetch_one(&state.pool).await?,
        author: closer.credential,
        tenant: closer.tenant,
        period: asked.period,
        operator: asked.operator,
        by: asked.by.unwrap_or(By::Url),
    };
    let key = (owner, (month.period.clone(), month.operator.clone(), month.by));
    let now = state.clock.now();
    let closed = state.statements.running.join(key, (now, PATIENCE), || close(Arc::clone(&state), month, now).boxed()).await;
    let closed = closed.ok_or_else(|| {
        let detail = "The month is still being closed. Send the request again to get its statement.";
        ApiError::new(Code::Unavailable, detail).retry_after(RETRY_AFTER)
    })??;
    let status = if closed.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/content-owners/statements/{}", closed.row.id);
    let body = ClosedMonth { created: closed.is_new, statement: closed.row.item(), note: STATEMENT_NOTE.to_owned() };
    Ok((status, [(header::LOCATION, location)], Json(body)).into_response())
}

async fn close(state: Arc<State>, month: Closing, now: DateTime<Utc>) -> Result<MonthClosed, ApiError> {
    let table = table(&state);
    let reads = state.telemetry.with_priority(BACKGROUND);
    let sources = Sources { reads: &reads, bots: &state.bots, table: &table };
    state.statements.close(&sources, &month, now).await
}

/// `GET /content-owners/statements`: latest first.
pub(crate) async fn list_statements(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported(&["organization_id", "delegated_from", "limit", "offset"])?;
    let at = Paging::parse(asked.get("limit"), asked.get("offset"), MAX_PAGE)?;
    let seen = Visibility::for_read(&state.directory, &reading.reader, &asked).await?;
    let rows = table(&state).list(seen.organization_id()).await?;
    let total = rows.len() as u64;
    let (limit, offset) = (at.limit, at.offset);
    let on_page = |position: u64| (offset..offset.saturating_add(limit)).contains(&position);
    let items = (0..).zip(rows).filter(|(position, _)| on_page(*position)).map(|(_, row)| row.item()).collect();
    let page = serde_json::to_vec(&Page::<StatementItem> { items, total, limit, offset }).map_err(ApiError::internal)?;
    streamed_response::whole(page, reading.permit)
}

/// `GET /content-owners/statements/{id}`: the canonical JSON, or the format in `format` or `Accept`.
pub(crate) async fn read_statement(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Path(id): Path<String>,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported(&["organization_id", "delegated_from", "format"])?;
    let format = match asked.get("format") {
        Some(name) => Format::named(name).ok_or_else(|| invalid("format must be one of: json, csv, xlsx, counter."))?,
        None => accepted(&headers),
    };
    let row = find(&state, &reading, &asked, &id).await?;
    let (id, bytes) = (StatementId(row.id), usize::try_from(row.document_bytes).unwrap_or(0));
    let response = if format == Format::Json {
        let memory = reading.permit.reserve(bytes)?;
        let document = table(&state).compressed_document(id).await?;
        parts(FileParts::decompressing(document, memory)?).send(reading.permit).await?
    } else {
        let slot = state.statements.conversion(reading.permit.tenant()).await?;
        let document = table(&state).document(id).await?;
        let convert = move || (format.convert(&document), slot).0;
        let file = tokio::task::spawn_blocking(convert).await.map_err(ApiError::internal)??;
        parts(FileParts::new(file)).send(reading.permit).await?
    };
    Ok(as_file(response, format.content_type(), &file_name(&row.item(), format.extension())))
}

/// `GET /content-owners/statements/{id}/evidence`: the evidence file.
pub(crate) async fn read_evidence(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedReader,
    Path(id): Path<String>,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported(&["organization_id", "delegated_from"])?;
    let item = find(&state, &reading, &asked, &id).await?.item();
    let response = parts(EvidenceParts::new(state.pool.clone(), item.id)).send(reading.permit).await?;
    Ok(as_file(response, "application/x-ndjson", &file_name(&item, ".evidence.ndjson")))
}

/// `GET /.well-known/content-telemetry.json`: the keys that sign statements.
pub(crate) async fn read_manifest(
    Shared(state): Shared<Arc<State>>,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Json<serde_json::Value>, ApiError> {
    asked.reject_unsupported(&[])?;
    Ok(Json(state.statements.manifest()))
}

/// Returns a response of these parts.
fn parts<R: Rows<Row = Vec<u8>>>(found: R) -> StreamedItems<R, impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static> {
    StreamedItems { head: Bytes::new(), found, between: "", item: |part| part, tail: Bytes::new() }
}

fn table(state: &State) -> StatementTable {
    StatementTable(state.pool.clone())
}

/// Returns a statement that the reader may see. The error is the same for an unknown ID and for another organization's statement.
async fn find(state: &State, reading: &AdmittedReader, asked: &ReadParameters, id: &str) -> Result<StatementRow, ApiError> {
    let seen = Visibility::for_read(&state.directory, &reading.reader, asked).await?;
    let unknown = || ApiError::new(Code::NotFound, "Statement not found.");
    let id = id.parse().map_err(|_| unknown())?;
    table(state).find(seen.organization_id(), id).await?.ok_or_else(unknown)
}

/// Returns the supported format with the highest weight.
fn accepted(headers: &HeaderMap) -> Format {
    let mut best = (0, Format::Json);
    for (range, weight) in quality_values(headers, &header::ACCEPT) {
        if let Some(format) = Format::accepted(range)
            && weight > best.0
        {
            best = (weight, format);
        }
    }
    best.1
}

fn file_name(item: &StatementItem, extension: &str) -> String {
    format!("statement-{}-{}-revision-{}{extension}", item.period, item.number, item.revision)
}

fn as_file(mut response: Response, content_type: &'static str, name: &str) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Ok(disposition) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}
