//! JSON lines with names that the sender chooses: Fastly's format string, nginx, Caddy, Traefik, Kong, APISIX, pino, Google's load
//! balancer, the Elastic Common Schema, Fluent Bit, Logstash and Vector.

mod escapes;
#[cfg(test)]
mod tests;

use super::super::json_fields::{FieldMap, FieldMapping, Node, fields};
use super::super::line_fields::{Field, Fields, Reason};
use super::{FormatId, NoRequest, combined, put_request_line, put_url_host, text};
use crate::request::raw_json::RawObject;
use escapes::with_json_escapes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::borrow::Cow;

/// Logger of Caddy's access log. Caddy's other loggers write other entries.
const CADDY_ACCESS: &str = "http.log.access";
/// Characters in decoded targets that URLs can't contain.
const RAW: &AsciiSet = &CONTROLS.add(b' ');

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    read(line, FormatId::Json)
}

/// Parses Fastly's default and documented formats, and customers' own formats.
pub(super) fn parse_fastly(line: &str) -> Result<Fields<'_>, NoRequest> {
    // The classic line format has a syslog header before the JSON.
    let json = if line.starts_with('<') { line.find('{').map_or(line, |at| &line[at..]) } else { line };
    read(json, FormatId::Fastly)
}

/// Returns whether a Fastly line has our format: `content_telemetry_id` follows all of these members. In Fastly's formats, and possibly in
/// customers' formats, `client_ip` is a header that visitors can set. They may be able to add members, but only after one of their values,
/// and a repeated member makes the line bad.
pub(super) fn has_our_order(line: &str) -> bool {
    let mut before =
        ["timestamp", "host", "url", "request_method", "request_user_agent", "response_status", "client_ip"].to_vec();
    let json = line.find('{').map_or(line, |at| &line[at..]);
    let members = RawObject::parse(json).unwrap_or_default();
    for (name, _) in members.members_as_written() {
        if name == "content_telemetry_id" {
            return before.is_empty();
        }
        before.retain(|known| *known != name);
    }
    false
}

fn read(line: &str, otherwise: FormatId) -> Result<Fields<'_>, NoRequest> {
    let mut fields = members(line)?;
    recognize(&mut fields, otherwise);
    put_media_type(&mut fields, otherwise);
    put_request(&mut fields);
    if otherwise == FormatId::Fastly && has_added_members(&fields) {
        return Err("repeated_member".into());
    }
    if is_about_something_else(&fields) {
        return Err(NoRequest::Other);
    }
    let message = fields.take(Field::Message).filter(|_| otherwise == FormatId::Json);
    match message.as_deref().filter(|_| is_unparsed(&fields)).map(read_message) {
        Some(Err(reason)) if has_no_request(&fields) => return Err(reason),
        Some(Ok(read)) => return Ok(read),
        Some(Err(_)) | None => {}
    }
    match fields.format {
        Some(FormatId::GoogleLoadBalancer) => {
            // Protocol buffers omit empty members, so a missing user agent is empty. Other loggers don't write `insertId`.
            if fields.get(Field::RequestId).is_some() {
                fields.put(Field::UserAgent, Cow::Borrowed(""));
            }
            put_url_host(Field::Host, &mut fields);
        }
        // The path of `GET http://www.example.com` is empty.
        Some(FormatId::TraefikJson) if !fields.is_absent(Field::Path) && fields.get(Field::Path).is_none() => {
            fields.take(Field::Path);
            fields.put(Field::Path, Cow::Borrowed("/"));
        }
        // The other address is a header's if the request has one.
        Some(FormatId::TraefikJson | FormatId::Caddy) if fields.get(Field::Connection).is_none() => {
            fields.is_address_trusted = false;
        }
        // Fastify's serializer writes a header's address, and pino's the connection's, both as `remoteAddress`.
        Some(FormatId::Pino) => fields.is_address_trusted = false,
        // The id of a service, which Fastly's older format also has.
        Some(FormatId::Apisix) => drop(fields.take(Field::Connection)),
        Some(FormatId::Logstash | FormatId::FluentBit | FormatId::Ecs) if !fields.has_sign(FormatId::Json) => {
            undo_escapes(&mut fields);
            // The shipper parsed a text line, which can be a part.
            fields.is_address_trusted = false;
        }
        Some(_) => {}
        None => fields.format = Some(otherwise),
    }
    if fields.format == Some(FormatId::Ecs) {
        // Versions before 1.6 require lower case.
        fields.rewrite(Field::Method, |method| Some(method.to_ascii_uppercase()));
    }
    let lacks_request = fields.get(Field::Method).is_none() || fields.get(Field::Path).is_none();
    if let Some(message) = message.filter(|_| lacks_request) {
        put_request_of(&message, &mut fields);
    }
    Ok(fields)
}

/// Sets method and path from a line that a shipper parsed with a pattern. Logstash's patterns don't match targets with spaces.
fn put_request_of(line: &str, fields: &mut Fields<'_>) {
    let Ok(mut read) = text::parse(line.trim_ascii()).map(Fields::into_owned) else { return };
    for field in [Field::Method, Field::Path] {
        fields.take(field);
        read.take(field).into_iter().for_each(|value| fields.put(field, value));
    }
}

/// Parses a server's line that a shipper sent unparsed.
fn read_message(line: &str) -> Result<Fields<'static>, NoRequest> {
    let line = line.trim_ascii();
    // A text line can begin with a header.
    if line.starts_with('{')
        && let read = parse(line).map(Fields::into_owned)
        && !matches!(read, Err(NoRequest::Bad("not_json")))
    {
        return read;
    }
    let mut fields = text::parse(line)?.into_owned();
    fields.format = Some(FormatId::Vector);
    // Container runtimes and journald split long lines, and shippers mark the parts differently or not at all. Visitors choose where.
    fields.is_address_trusted = false;
    Ok(fields)
}

/// Decodes the escapes of servers whose text lines are parsed with patterns by shippers. Logstash's patterns keep the quotes.
fn undo_escapes(fields: &mut Fields<'_>) {
    fields.rewrite(Field::Path, |path| path.contains('\\').then(|| combined::unescaped_target(path).into_owned()));
    fields.rewrite(Field::UserAgent, |agent| {
        let text = agent.strip_prefix('"').and_then(|agent| agent.strip_suffix('"')).unwrap_or(agent);
        (text.len() < agent.len() || text.contains('\\')).then(|| combined::unescaped_text(text).into_owned())
    });
}

/// Returns a line's fields. nginx without `escape=json` writes its own escapes into JSON.
fn members(line: &str) -> Result<Fields<'_>, Reason> {
    match fields(line, NAMES) {
        Err("not_json") => {
            let line = with_json_escapes(line).ok_or("not_json")?;
            fields(&line, NAMES).map(Fields::into_owned)
        }
        read => read,
    }
}

/// Removes formats that don't identify the writer of the line: nginx's names can occur in all of them, and Fluent Bit's `date` in a Fastly
/// format.
fn recognize(fields: &mut Fields<'_>, otherwise: FormatId) {
    let is_fastly = otherwise == FormatId::Fastly || fields.get(Field::Connection).is_some();
    let is_open = fields.format == Some(FormatId::Json) || (is_fastly && fields.format == Some(FormatId::FluentBit));
    if is_open {
        fields.format = None;
    }
}

/// Sets the media type. nginx's `$content_type` is that of the request, and its logs often use this name for it. Otherwise it is
/// that of the response, as in Fastly's formats and ours.
fn put_media_type(fields: &mut Fields<'_>, otherwise: FormatId) {
    let content_type = fields.take(Field::ContentType);
    let has_request_line = fields.get(Field::RequestLine).is_some_and(|line| line.contains(' '));
    let is_of_response = otherwise == FormatId::Fastly || !(has_request_line || fields.has_sign(FormatId::Json));
    if let Some(content_type) = content_type.filter(|_| is_of_response) {
        fields.put(Field::MediaType, content_type);
    }
}

/// Returns whether a visitor may have added members to a Fastly line, because a field has another value under another name. The default
/// format doesn't escape every value, and customers' formats may not either. The default format has no objects.
fn has_added_members(fields: &Fields<'_>) -> bool {
    let own = [Field::Time, Field::Host, Field::Path, Field::Method, Field::UserAgent, Field::Status];
    let is_default = fields.get(Field::Connection).is_some();
    (is_default && fields.format.is_some()) || own.into_iter().any(|field| fields.is_disputed(field))
}

/// Interprets `request`: nginx's request line; only the method in Fastly's documented format; the target in Loggly's format for Apache, and
/// in Logstash's, where `path` is the log file. Apache decodes targets, so they can contain spaces.
fn put_request(fields: &mut Fields<'_>) {
    let Some(request) = fields.take(Field::RequestLine) else { return };
    let is_of_logstash = fields.has_sign(FormatId::Logstash);
    let is_raw = |character: char| character == ' ' || character.is_ascii_control();
    match (request.contains(' '), request.contains('/')) {
        _ if request.starts_with('/') && request.contains(is_raw) => {
            let target = utf8_percent_encode(&request, RAW).to_string();
            fields.put_ranked(Field::Path, 1, Cow::Owned(target));
        }
        (false, true) => fields.put_ranked(Field::Path, 1, request),
        (false, false) if !is_of_logstash && fields.get(Field::Path).is_some() => fields.put(Field::Method, request),
        _ => put_request_line(request, fields),
    }
}

fn has_no_request(fields: &Fields<'_>) -> bool {
    [Field::Method, Field::Path, Field::UserAgent].into_iter().all(|field| fields.is_absent(field))
}

/// Returns whether a shipper sent a server's line unparsed. `path` can be the log file.
fn is_unparsed(fields: &Fields<'_>) -> bool {
    fields.is_absent(Field::Method) && fields.is_absent(Field::UserAgent)
}

/// Returns whether the line is from a logger that doesn't log requests.
fn is_about_something_else(fields: &Fields<'_>) -> bool {
    match (fields.format, fields.get(Field::Kind)) {
        (Some(FormatId::Caddy), Some(logger)) => !logger.starts_with(CADDY_ACCESS),
        // AWS WAF also writes `httpRequest`, but not `insertId`.
        (Some(FormatId::GoogleLoadBalancer), _) => has_no_request(fields) && fields.get(Field::RequestId).is_some(),
        (None, Some(_)) => has_no_request(fields),
        _ => false,
    }
}

/// Matches a header name, which visitors and servers write in any case.
fn header(name: &str) -> FieldMapping {
    match name {
        _ if name.eq_ignore_ascii_case("user-agent") => FieldMapping::is(Field::UserAgent),
        _ if name.eq_ignore_ascii_case("content-telemetry-id") => FieldMapping::is(Field::TelemetryId),
        _ if name.eq_ignore_ascii_case("signature-agent") => FieldMapping::is(Field::SignatureAgent),
        _ if name.eq_ignore_ascii_case("signature-input") => FieldMapping::is(Field::SignatureInput),
        _ if name.eq_ignore_ascii_case("signature") => FieldMapping::is(Field::Signature),
        _ if name.eq_ignore_ascii_case("host") => FieldMapping::ranked(Field::Host, 1),
        _ => FieldMapping::NONE,
    }
}

fn response_header(name: &str) -> FieldMapping {
    match name {
        _ if name.eq_ignore_ascii_case("content-type") => FieldMapping::is(Field::MediaType),
        _ if name.eq_ignore_ascii_case("content-length") => FieldMapping::ranked(Field::Bytes, 1),
        _ => FieldMapping::NONE,
    }
}

/// nginx variable names that other loggers rarely use.
fn is_of_nginx(name: &str) -> bool {
    match name {
        "body_bytes_sent"
        | "connection_requests"
        | "gzip_ratio"
        | "http_content_telemetry_id"
        | "http_cookie"
        | "http_host"
        | "http_origin"
        | "http_referer"
        | "http_referrer"
        | "http_signature"
        | "http_signature_agent"
        | "http_signature_input"
        | "http_user_agent"
        | "msec"
        | "remote_addr"
        | "remote_user"
        | "request_completion"
        | "request_length"
        | "request_time"
        | "request_uri"
        | "server_addr"
        | "server_name"
        | "server_port"
        | "server_protocol"
        | "ssl_cipher"
        | "ssl_protocol"
        | "time_iso8601"
        | "time_local" => true,
        _ => ["http_x_", "proxy_protocol_", "sent_http_", "upstream_"].iter().any(|start| name.starts_with(start)),
    }
}

/// Matches a response header with the prefix `resp_`, such as `resp_content_type` or `resp_http_Content-Type`.
fn of_response(name: &str) -> Option<FieldMapping> {
    let name = ["resp_", "response_"].iter().find_map(|start| name.strip_prefix(start))?;
    let name = ["header_", "http_"].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name);
    Some(response_header(&name.replace('_', "-")))
}

pub(super) const NAMES: FieldMap = |node, name| match node {
    Node::Root if is_of_nginx(name) => root(name).for_format(FormatId::Json),
    Node::Root => root(name),
    Node::Request => match name {
        "uri" => FieldMapping::is(Field::Path).for_format(FormatId::Caddy),
        // The URLs that Kong and APISIX log have the gateway's port.
        "url" => FieldMapping::ranked(Field::Path, 1),
        "method" => FieldMapping::is(Field::Method),
        "host" => FieldMapping::is(Field::Host),
        // Behind proxies, `client_ip` is a header's leftmost address unless `trusted_proxies_strict` is set.
        "client_ip" => FieldMapping::is(Field::Address),
        "remote_ip" => FieldMapping::is(Field::Connection),
        "headers" => FieldMapping::into(Node::RequestHeaders),
        _ => FieldMapping::NONE,
    },
    Node::Response => match name {
        "status" => FieldMapping::is(Field::Status),
        "size" => FieldMapping::is(Field::Bytes),
        "headers" => FieldMapping::into(Node::ResponseHeaders),
        _ => FieldMapping::NONE,
    },
    Node::PinoRequest => match name {
        "method" => FieldMapping::is(Field::Method).for_format(FormatId::Pino),
        "url" => FieldMapping::is(Field::Path),
        // Fastify's names for the header, before and since version 5.
        "hostname" | "host" => FieldMapping::is(Field::Host),
        "remoteAddress" => FieldMapping::is(Field::Address),
        "headers" => FieldMapping::into(Node::RequestHeaders),
        _ => FieldMapping::NONE,
    },
    Node::PinoResponse => match name {
        "statusCode" => FieldMapping::is(Field::Status).for_format(FormatId::Pino),
        "headers" => FieldMapping::into(Node::ResponseHeaders),
        _ => FieldMapping::NONE,
    },
    Node::RequestHeaders => header(name),
    Node::ResponseHeaders => response_header(name),
    Node::HttpRequest => google(name),
    Node::Http => match name {
        "request" => FieldMapping::into(Node::EcsRequest),
        "response" => FieldMapping::into(Node::EcsResponse),
        _ => FieldMapping::NONE,
    },
    Node::EcsRequest => match name {
        "method" => FieldMapping::is(Field::Method).for_format(FormatId::Ecs),
        "id" => FieldMapping::is(Field::RequestId),
        _ => FieldMapping::NONE,
    },
    Node::EcsResponse => match name {
        "status_code" => FieldMapping::is(Field::Status).for_format(FormatId::Ecs),
        "mime_type" => FieldMapping::is(Field::MediaType),
        "body" => FieldMapping::into(Node::EcsBody),
        _ => FieldMapping::NONE,
    },
    Node::EcsBody if name == "bytes" => FieldMapping::is(Field::Bytes),
    Node::EcsUrl => match name {
        "original" => FieldMapping::is(Field::Path).for_format(FormatId::Ecs),
        "path" => FieldMapping::ranked(Field::Path, 1),
        "query" => FieldMapping::is(Field::Query),
        "domain" => FieldMapping::is(Field::Host),
        "scheme" => FieldMapping::is(Field::Scheme),
        _ => FieldMapping::NONE,
    },
    Node::EcsUserAgent if name == "original" => FieldMapping::is(Field::UserAgent),
    Node::EcsEvent if name == "original" => FieldMapping::is(Field::Message),
    // `client.ip` and `source.ip` can come from a header.
    Node::EcsEvent | Node::EcsBody | Node::EcsUserAgent | Node::Inner => FieldMapping::NONE,
};

/// Maps each field's usual names, and names that no other format uses differently. The request's time takes precedence over the shipper's.
/// The requested host takes precedence over other hosts: `host` can be the shipper's, and `server_name` is a name from the server's
/// configuration.
fn root(name: &str) -> FieldMapping {
    match name {
        "time_local" | "time_iso8601" | "msec" | "time_start" | "start_time" => FieldMapping::is(Field::Time),
        "timestamp" | "@timestamp" | "time" | "ts" | "start" => FieldMapping::ranked(Field::Time, 1),
        "date" => FieldMapping::is(Field::Date).for_format(FormatId::FluentBit),
        "http_host" | "authority" | ":authority" => FieldMapping::is(Field::Host),
        "vhost" => FieldMapping::ranked(Field::Host, 1),
        "host" => FieldMapping::ranked(Field::Host, 2),
        "server_name" => FieldMapping::ranked(Field::Host, 3),
        "scheme" => FieldMapping::is(Field::Scheme),
        "request_uri" | "x-envoy-origin-path" => FieldMapping::is(Field::Path),
        "url" => FieldMapping::ranked(Field::Path, 1).or_into(Node::EcsUrl),
        "uri" | "path" => FieldMapping::ranked(Field::Path, 2),
        "query" | "query_string" | "args" => FieldMapping::is(Field::Query),
        "request_method" | "method" => FieldMapping::is(Field::Method),
        // Names from Logstash's patterns. nginx logs often use the first two. `clientip` can be part of a user's name, because the pattern
        // can begin within a line.
        "verb" => FieldMapping::is(Field::Method),
        "clientip" => FieldMapping::NONE,
        "httpversion" => FieldMapping::NONE.for_format(FormatId::Logstash),
        // The whole request line, if its target contains a space.
        "rawrequest" => FieldMapping::is(Field::RequestLine).for_format(FormatId::Logstash),
        "request" => FieldMapping::is(Field::RequestLine).or_into(Node::Request),
        "user_agent" => FieldMapping::is(Field::UserAgent).or_into(Node::EcsUserAgent),
        "request_user_agent" | "http_user_agent" | "agent" | "userAgent" | "useragent" | "user-agent" | "ua" => {
            FieldMapping::is(Field::UserAgent)
        }
        "response_status" | "status" | "status_code" | "code" | "response_code" => FieldMapping::is(Field::Status),
        "response" => FieldMapping::is(Field::Status).or_into(Node::Response),
        "response_body_size" | "response_bytes" | "body_bytes_sent" | "bytes_sent" | "bytes" | "size" | "body_sent"
        | "body_size" => FieldMapping::is(Field::Bytes),
        "client_ip" | "remote_addr" | "remote_ip" | "remote" | "ip" => FieldMapping::is(Field::Address),
        "client" => FieldMapping::is(Field::Address),
        "request_id" => FieldMapping::is(Field::RequestId),
        "content_telemetry_id" | "http_content_telemetry_id" | "content-telemetry-id" => FieldMapping::is(Field::TelemetryId),
        "cache_status" | "upstream_cache_status" => FieldMapping::is(Field::Cache),
        "asn" | "client_asn" => FieldMapping::is(Field::Asn),
        "country" | "geo_country" => FieldMapping::is(Field::Country),
        "media_type" | "sent_http_content_type" | "upstream_http_content_type" => FieldMapping::is(Field::MediaType),
        "content_type" => FieldMapping::is(Field::ContentType),
        "verified_bot_category" => FieldMapping::is(Field::Category),
        "signature_agent" | "http_signature_agent" => FieldMapping::is(Field::SignatureAgent),
        "signature_input" | "http_signature_input" => FieldMapping::is(Field::SignatureInput),
        "signature" | "http_signature" => FieldMapping::is(Field::Signature),
        "fastly_is_edge" => FieldMapping::is(Field::IsEdge),
        // Members of Fastly's default format and of an older one, in which `client_ip` is a header that visitors can set.
        "fastly_server" | "service_id" => FieldMapping::is(Field::Connection),
        // Kong, APISIX, pino.
        "started_at" => FieldMapping::is(Field::Time),
        "latencies" => FieldMapping::NONE.for_format(FormatId::Kong),
        "apisix_latency" => FieldMapping::NONE.for_format(FormatId::Apisix),
        "req" => FieldMapping::into(Node::PinoRequest),
        "res" => FieldMapping::into(Node::PinoResponse),
        // Caddy.
        "resp_headers" => FieldMapping::into(Node::ResponseHeaders),
        "logger" => FieldMapping::is(Field::Kind),
        "event" => FieldMapping::into(Node::EcsEvent),
        "event.original" => FieldMapping::is(Field::Message),
        "message" | "log" => FieldMapping::ranked(Field::Message, 1),
        "http" => FieldMapping::into(Node::Http),
        "httpRequest" => FieldMapping::into(Node::HttpRequest).for_format(FormatId::GoogleLoadBalancer),
        "insertId" => FieldMapping::is(Field::RequestId).for_format(FormatId::GoogleLoadBalancer),
        _ => of_response(name).unwrap_or_else(|| traefik(name).or_ecs(name)),
    }
}

impl FieldMapping {
    /// Elastic Common Schema names, with dots.
    fn or_ecs(self, name: &str) -> Self {
        let member = match name {
            "http.request.method" => Self::is(Field::Method),
            "http.request.id" => Self::is(Field::RequestId),
            "http.response.status_code" => Self::is(Field::Status),
            "http.response.mime_type" => Self::is(Field::MediaType),
            "http.response.body.bytes" => Self::is(Field::Bytes),
            "url.original" => Self::is(Field::Path),
            "url.path" => Self::ranked(Field::Path, 1),
            "url.query" => Self::is(Field::Query),
            "url.domain" => Self::is(Field::Host),
            "url.scheme" => Self::is(Field::Scheme),
            "user_agent.original" => Self::is(Field::UserAgent),
            _ => return self,
        };
        member.for_format(FormatId::Ecs)
    }
}

fn traefik(name: &str) -> FieldMapping {
    let member = match name {
        "StartUTC" => FieldMapping::is(Field::Time),
        "StartLocal" => FieldMapping::ranked(Field::Time, 1),
        "RequestHost" => FieldMapping::is(Field::Host),
        "RequestScheme" => FieldMapping::is(Field::Scheme),
        "RequestPath" => FieldMapping::is(Field::Path),
        "RequestMethod" => FieldMapping::is(Field::Method),
        "DownstreamStatus" => FieldMapping::is(Field::Status),
        "DownstreamContentSize" => FieldMapping::is(Field::Bytes),
        "ClientHost" => FieldMapping::is(Field::Address),
        // `ClientHost` is the `X-Forwarded-For` header, if present.
        "ClientAddr" => FieldMapping::is(Field::Connection),
        _ => {
            let of_response = name.strip_prefix("downstream_").map_or(FieldMapping::NONE, response_header);
            return name.strip_prefix("request_").map_or(of_response, header);
        }
    };
    member.for_format(FormatId::TraefikJson)
}

fn google(name: &str) -> FieldMapping {
    FieldMapping::is(match name {
        "requestUrl" => Field::Path,
        "requestMethod" => Field::Method,
        "userAgent" => Field::UserAgent,
        "status" => Field::Status,
        "responseSize" => Field::Bytes,
        "remoteIp" => Field::Address,
        _ => return FieldMapping::NONE,
    })
}
