//! Drains of Vercel: what is not about a request has no `proxy`.

use super::super::json::fields;
use super::super::line::{Field, Fields};
use super::NoRequest;

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let fields = fields(line, name)?;
    let is_request = [Field::UserAgent, Field::Path, Field::Method].into_iter().any(|field| fields.get(field).is_some());
    if is_request { Ok(fields) } else { Err(NoRequest::Other) }
}

fn name(around: &str, name: &str) -> Option<Field> {
    Some(match (around, name) {
        ("proxy" | "", "timestamp") => Field::Time,
        ("proxy", "host") => Field::Host,
        ("", "host") => Field::OtherHost,
        ("", "requestId") => Field::RequestId,
        ("proxy", "scheme") => Field::Scheme,
        ("proxy", "path") => Field::Path,
        ("proxy", "method") => Field::Method,
        ("proxy", "userAgent") => Field::UserAgent,
        ("proxy", "statusCode") => Field::Status,
        ("proxy", "responseByteSize") => Field::Bytes,
        ("proxy", "clientIp") => Field::Address,
        ("proxy", "vercelCache") => Field::Cache,
        _ => return None,
    })
}
