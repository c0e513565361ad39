//! HTTP requests of Cloudflare Logpush: JSON lines.

use super::super::json::fields;
use super::super::line::{Field, Fields};
use super::NoRequest;

/// The content of `test.txt.gz`, which is sent when a job is made.
const TRIAL: &str = r#"{"content":"tests"}"#;
/// A request that no other one was made for.
const NO_PARENT: &str = "00";
/// A request that came from outside.
const EYEBALL: &str = "eyeball";

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    if line.len() < 2 * TRIAL.len() && line.split_ascii_whitespace().collect::<String>() == TRIAL {
        return Err(NoRequest::Trial);
    }
    let mut fields = fields(line, name)?;
    fields.rewrite(Field::Parent, |parent| (parent == NO_PARENT).then(String::new));
    fields.rewrite(Field::Source, |source| source.eq_ignore_ascii_case(EYEBALL).then(String::new));
    Ok(fields)
}

fn name(around: &str, name: &str) -> Option<Field> {
    if around == "RequestHeaders" {
        return match name {
            _ if name.eq_ignore_ascii_case("content-telemetry-id") => Some(Field::TelemetryId),
            _ if name.eq_ignore_ascii_case("signature-agent") => Some(Field::SignatureAgent),
            _ => None,
        };
    }
    Some(match name {
        _ if !around.is_empty() => return None,
        "EdgeStartTimestamp" => Field::Time,
        "ClientRequestHost" => Field::Host,
        "ClientRequestScheme" => Field::Scheme,
        "ClientRequestURI" => Field::Path,
        "ClientRequestMethod" => Field::Method,
        "ClientRequestUserAgent" => Field::UserAgent,
        "EdgeResponseStatus" => Field::Status,
        "EdgeResponseBytes" => Field::Bytes,
        "EdgeResponseContentType" => Field::MediaType,
        "CacheCacheStatus" => Field::Cache,
        "ClientASN" => Field::Asn,
        "ClientCountry" => Field::Country,
        "ClientIP" => Field::Address,
        "RayID" => Field::RequestId,
        "ParentRayID" => Field::Parent,
        "ClientRequestSource" => Field::Source,
        "VerifiedBotCategory" => Field::Category,
        _ => return None,
    })
}
