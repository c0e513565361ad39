//! JSON lines whose names their sender chooses: Fastly's format string, nginx through Vector or Fluent Bit.

use super::super::json::fields;
use super::super::line::{Field, Fields};
use super::NoRequest;

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    Ok(fields(line, name)?)
}

/// The usual names of each field.
fn name(around: &str, name: &str) -> Option<Field> {
    Some(match name {
        _ if !around.is_empty() => return None,
        "timestamp" | "@timestamp" | "time" | "time_iso8601" | "msec" | "ts" => Field::Time,
        "host" | "http_host" | "server_name" | "vhost" => Field::Host,
        "scheme" => Field::Scheme,
        "url" | "uri" | "request_uri" | "path" => Field::Path,
        "query" | "query_string" | "args" => Field::Query,
        "request_method" | "method" => Field::Method,
        "request_user_agent" | "http_user_agent" | "user_agent" | "agent" => Field::UserAgent,
        "response_status" | "status" | "status_code" | "code" => Field::Status,
        "response_body_size" | "response_bytes" | "body_bytes_sent" | "bytes_sent" | "bytes" | "size" => Field::Bytes,
        "client_ip" | "remote_addr" | "remote" | "ip" => Field::Address,
        "request_id" => Field::RequestId,
        "content_telemetry_id" | "http_content_telemetry_id" | "content-telemetry-id" => Field::TelemetryId,
        "cache_status" | "upstream_cache_status" => Field::Cache,
        "asn" | "client_asn" => Field::Asn,
        "country" | "geo_country" => Field::Country,
        "media_type" | "content_type" | "sent_http_content_type" => Field::MediaType,
        "verified_bot_category" => Field::Category,
        "signature_agent" | "http_signature_agent" => Field::SignatureAgent,
        _ => return None,
    })
}
