//! A page as JSON, CSV or newline-delimited JSON, depending on `Accept`.
//!
//! Large pages are streamed item by item and are never in memory as a whole.

use super::accept_header::Format;
use super::streamed_response::StreamedItems;
use crate::parameters::paging::Paging;
use crate::read_limiter::ReadPermit;
use crate::reads::{ListPage, Rows};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemas::paged_responses::Page;
use serde::Serialize;
use service_kit::http::{ApiError, TOTAL_COUNT, csv};
use std::iter::{Skip, Take};
use std::vec;

/// Header with the cursor of the next page.
const NEXT: HeaderName = HeaderName::from_static("x-next-after");

pub(crate) struct ResponseOptions {
    pub(crate) format: Format,
    columns: &'static [&'static str],
    permit: ReadPermit,
    /// Text before a CSV file's first line.
    mark: &'static str,
}

impl ResponseOptions {
    /// Chooses the format by `Accept`. `columns` are those of CSV.
    pub(crate) fn new(headers: &HeaderMap, columns: &'static [&'static str], permit: ReadPermit) -> Self {
        let mark = if Format::has_mark(headers) { csv::BYTE_ORDER_MARK } else { "" };
        Self { format: Format::accepted(headers), columns, permit, mark }
    }
}

/// Returns a page of a list that is in memory.
pub(crate) fn in_memory<R: Send + 'static>(items: Vec<R>, at: Paging) -> impl Rows<Row = R> {
    let clamped = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    InMemoryRows(items.into_iter().skip(clamped(at.offset)).take(clamped(at.limit)))
}

struct InMemoryRows<R>(Take<Skip<vec::IntoIter<R>>>);

impl<R: Send + 'static> Rows for InMemoryRows<R> {
    type Row = R;

    async fn next(&mut self) -> Result<Option<R>, ApiError> {
        Ok(self.0.next())
    }
}

/// Returns a page in the default envelope.
pub(crate) async fn respond<R: ListPage, T: Serialize + 'static>(
    answering: ResponseOptions,
    at: Paging,
    found: R,
    item: impl Fn(R::Row) -> T + Send + Sync + 'static,
) -> Result<Response, ApiError> {
    let envelope = Page::<()> { items: Vec::new(), total: found.total(), limit: at.limit, offset: at.offset };
    respond_in_envelope(answering, &envelope, found, item).await
}

/// Returns a page in the given envelope. Its `items` must be empty.
pub(crate) async fn respond_in_envelope<R: ListPage, T: Serialize + 'static>(
    answering: ResponseOptions,
    envelope: &impl Serialize,
    found: R,
    item: impl Fn(R::Row) -> T + Send + Sync + 'static,
) -> Result<Response, ApiError> {
    let (total, after) = (found.total(), found.next_page().map(str::to_owned));
    let mut response = respond_with_total(answering, envelope, total, found, item).await?;
    set_next_page(&mut response, after);
    Ok(response)
}

/// Adds the header with the next page's cursor, if there is one.
pub(crate) fn set_next_page(response: &mut Response, after: Option<String>) {
    if let Some(after) = after.and_then(|after| HeaderValue::from_maybe_shared(Bytes::from(after)).ok()) {
        response.headers_mut().insert(NEXT, after);
    }
}

/// Returns `total` items in the given envelope. Its `items` must be empty.
pub(crate) async fn respond_with_total<R: Rows, T: Serialize + 'static>(
    answering: ResponseOptions,
    envelope: &impl Serialize,
    total: u64,
    found: R,
    item: impl Fn(R::Row) -> T + Send + Sync + 'static,
) -> Result<Response, ApiError> {
    let ResponseOptions { format, columns, permit, mark } = answering;
    let mut response = match format {
        Format::Json => {
            let envelope = serde_json::to_string(envelope).map_err(ApiError::internal)?;
            let (head, tail) = envelope.split_once(NO_ITEMS).ok_or_else(|| ApiError::internal(anyhow::anyhow!("no items")))?;
            let (head, tail) = (format!("{head}{ITEMS}").into(), format!("]{tail}").into());
            let item = move |row| serialize(&item(row)).into_bytes();
            StreamedItems { head, found, between: ",", item, tail }.send(permit).await?
        }
        // An error in the stream closes the connection, which shows clients that the response is incomplete.
        Format::Lines | Format::Csv => {
            let names = || [mark.as_bytes(), &csv::record(columns.iter().map(|column| csv::heading(column)))].concat();
            let head = if format == Format::Csv { names() } else { Vec::new() };
            let item = move |row| line(format, columns, &item(row));
            let written = StreamedItems { head: head.into(), found, between: "", item, tail: Bytes::new() };
            ([(TOTAL_COUNT, HeaderValue::from(total))], written.send(permit).await?).into_response()
        }
    };
    response.headers_mut().insert(header::CONTENT_TYPE, format.content_type());
    Ok(response)
}

/// Position of the items in an envelope. Quotation marks in strings are escaped, so strings can't contain this.
const NO_ITEMS: &str = r#""items":[]"#;
const ITEMS: &str = r#""items":["#;

fn serialize<T: Serialize>(item: &T) -> String {
    serde_json::to_string(item).expect("items contain only strings, numbers and valid JSON")
}

fn line<T: Serialize>(format: Format, columns: &[&str], item: &T) -> Vec<u8> {
    let mut json = serialize(item);
    if format != Format::Csv {
        json.push('\n');
        return json.into_bytes();
    }
    let members: csv::Members<'_> = serde_json::from_str(&json).expect("an item is an object");
    csv::record(csv::cells(&members, columns).into_iter())
}
