//! Cloudflare Logpush HTTP requests, as JSON lines.

use super::super::json_fields::{FieldMap, FieldMapping, Node, fields};
use super::super::line_fields::{Field, Fields};
use super::{FormatId, NoRequest};

/// Parent of a request that a visitor made.
const NO_PARENT: &str = "00";
/// Sources of content requests: visitors, and visitors of a zone that forwards to this one. The others are Cloudflare's own requests and
/// Workers' requests. Challenges (`inBrowserChallenge`) are visitors' requests, but never reach the site: the page that a challenge
/// protects has its own line.
const SOURCES: [&str; 3] = ["eyeball", "orangeToOrange", "unknown"];

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let mut fields = fields(line, NAMES)?;
    fields.format = Some(FormatId::Cloudflare);
    fields.rewrite(Field::Parent, |parent| (parent == NO_PARENT).then(String::new));
    fields.rewrite(Field::Source, |source| SOURCES.iter().any(|known| known.eq_ignore_ascii_case(source)).then(String::new));
    // A Worker made the request, not a visitor.
    fields.rewrite(Field::IsEdge, |is_subrequest| Some((is_subrequest != "true").to_string()));
    Ok(fields)
}

pub(super) const NAMES: FieldMap = |node, name| match node {
    Node::Root if name == "RequestHeaders" => FieldMapping::into(Node::Inner),
    Node::Root => root(name).map_or(FieldMapping::NONE, FieldMapping::is),
    _ if name.eq_ignore_ascii_case("content-telemetry-id") => FieldMapping::is(Field::TelemetryId),
    _ if name.eq_ignore_ascii_case("signature-agent") => FieldMapping::is(Field::SignatureAgent),
    _ if name.eq_ignore_ascii_case("signature-input") => FieldMapping::is(Field::SignatureInput),
    _ if name.eq_ignore_ascii_case("signature") => FieldMapping::is(Field::Signature),
    _ => FieldMapping::NONE,
};

fn root(name: &str) -> Option<Field> {
    Some(match name {
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
        "WorkerSubrequest" => Field::IsEdge,
        "VerifiedBotCategory" => Field::Category,
        _ => return None,
    })
}
