//! Decides what a line becomes: an event, a count, or neither (docs/api/drains.md#what-is-kept).

use super::agent_signature;
use super::format_table::FormatId;
use super::formats::{DirectiveState, NoRequest, decode_fields_of_bot, is_address_trusted, parse};
use super::key_sets::KeySets;
use super::line_fields::{
    Field, Fields, MAX_USER_AGENT_BYTES, Reason, is_cache_status, is_country, is_media_type, public_host, truncate,
};
use super::line_id::{line_id, mark};
use super::requested_host::HostFinder;
use crate::record::normalize_event::{Origin, normalize_event};
use crate::request::limits::{EARLIEST_AT_MS, Limits};
use crate::request::raw_json::require_clean_text;
use crate::validate::{Binding, Context, Faults, validate_event};
use chrono::{DateTime, SecondsFormat, Utc};
use schemas::bots::{BotTable, Classified, Sender};
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, OwnId, telemetry_id_of_line};
use schemas::identity::DrainProvider;
use schemas::ids::DrainId;
use schemas::log::{FailedFetch, LogEvent};
use schemas::site::{ContentUrl, ContentUrlError, MAX_URL_BYTES, Site};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use service_kit::auth::Caller;
use service_kit::identity_tables::OwnedSite;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

/// Path extensions of files that a page loads and that aren't content. Visitors can append one to any path.
const ASSETS: &[&str] = &[
    "css", "js", "mjs", "map", "wasm", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "bmp", "woff", "woff2", "ttf",
    "otf", "eot", "mp3", "mp4", "m4a", "m4s", "mov", "ogg", "wav", "webm", "ts", "m3u8",
];
/// Prefixes of these files' media types.
const ASSET_TYPES: &[&str] = &[
    "image/",
    "font/",
    "audio/",
    "video/",
    "text/css",
    "text/javascript",
    "text/ecmascript",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/wasm",
    "application/font",
    "application/x-font",
    "application/vnd.ms-fontobject",
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "application/mp4",
    "application/ogg",
];
/// Media types that servers send for files of arbitrary or unknown type.
const VAGUE_TYPES: &[&str] = &[
    "application/octet-stream",
    "binary/octet-stream",
    "application/unknown",
    "text/plain",
    "application/json",
    "application/xml",
    "text/xml",
];

/// Reason for a line whose host isn't verified or isn't one of the drain's.
pub(super) const OTHER_HOST: Reason = "other_host";

#[derive(Debug)]
pub enum LineOutcome {
    /// A bot's fetch of content.
    Kept(Box<LogEvent>),
    /// A request by a person or an unknown program.
    Person,
    /// A bot's request that isn't counted.
    Dropped(&'static str),
    /// A bot's request that returned no content.
    Refused(Box<FailedFetch>),
    /// An unreadable line.
    Bad(&'static str),
    /// A line that only tests the destination.
    Trial,
}

/// A line's outcome, and the data that the counters need.
#[derive(Debug)]
pub(super) struct ProcessedLine {
    pub(super) outcome: LineOutcome,
    /// The request's time, if the line contains one.
    pub(super) at_ms: Option<i64>,
    /// Identifies the line. Doesn't contain address and user agent.
    pub(super) mark: [u8; 16],
    /// Recognized format.
    pub(super) format: Option<FormatId>,
}

impl ProcessedLine {
    pub(super) fn is_verified(&self) -> bool {
        self.verified() == Some(true)
    }

    pub(super) fn has_compared_address(&self) -> bool {
        self.verified().is_some()
    }

    fn verified(&self) -> Option<bool> {
        match &self.outcome {
            LineOutcome::Kept(event) => event.crawler.as_ref()?.verified,
            LineOutcome::Refused(fetch) => fetch.verified,
            _ => None,
        }
    }
}

/// The rules for the lines of one request.
pub(super) struct LineProcessor {
    pub(super) provider: DrainProvider,
    pub(super) caller: Caller,
    pub(super) role: SourceRole,
    /// The key's drain, if it has one.
    pub(super) drain: Option<DrainId>,
    /// Hosts whose lines are kept; `None` for every host.
    pub(super) owned_sites: Option<Vec<OwnedSite>>,
    /// The drain's hosts, which include their subdomains; empty if unrestricted.
    pub(super) hosts: Vec<Site>,
    /// Finds a line's host.
    pub(super) host_finder: HostFinder,
    pub(super) bots: Arc<BotTable>,
    /// `None` for dry runs, which don't check signatures.
    pub(super) key_sets: Option<KeySets>,
    pub(super) limits: Limits,
    pub(super) now: DateTime<Utc>,
}

impl LineProcessor {
    /// Returns a line's outcome.
    pub(super) fn process(&self, line: &[u8], heading: &DirectiveState) -> ProcessedLine {
        self.process_as(line, heading, true)
    }

    /// Returns a line's outcome. If `verifies` is false, its address doesn't verify the agent.
    pub(super) fn process_as(&self, line: &[u8], heading: &DirectiveState, verifies: bool) -> ProcessedLine {
        let line = readable(line);
        let mut fields = match parse(self.provider, &line, heading) {
            Ok(fields) => fields,
            Err(NoRequest::Trial) => return judged(LineOutcome::Trial, None, [0; 16]),
            Err(NoRequest::Other) => return judged(LineOutcome::Dropped("no_request"), None, [0; 16]),
            Err(NoRequest::Bad(reason)) => return bad(reason),
        };
        fields.is_address_trusted &= verifies;
        let judged = match self.instant(&fields) {
            Ok(at_ms) => {
                let bot = self.bot(&line, &mut fields);
                let host = self.host_finder.first(fields.hosts().chain(fields.get(Field::UnsureHost)));
                let bot_name = bot.as_ref().map_or("", |bot| bot.bot.as_ref());
                let mark = mark(&fields, host.as_ref().map_or("", |host| &host.name), at_ms, bot_name);
                judged(self.outcome(&fields, at_ms, bot), Some(at_ms), mark)
            }
            Err(reason) => bad(reason),
        };
        ProcessedLine { format: fields.format, ..judged }
    }

    /// Returns the bot that made the request. Only bots' lines are decoded and checked further.
    fn bot(&self, line: &str, fields: &mut Fields<'_>) -> Option<Classified> {
        self.bots.classify(&sender(fields, None))?;
        decode_fields_of_bot(fields);
        let mut bot = self.bots.classify(&sender(fields, fields.address()))?;
        fields.is_address_of_operator = bot.verified == Some(true);
        if !is_address_trusted(self.provider, line, fields) {
            bot.verified = None;
        }
        Some(bot)
    }

    fn instant(&self, fields: &Fields<'_>) -> Result<i64, Reason> {
        let at_ms = fields.at_ms()?;
        let ahead = i64::try_from(self.limits.max_ahead_seconds).unwrap_or(i64::MAX / 2_000).saturating_mul(1_000);
        let latest = self.now.timestamp_millis().saturating_add(ahead);
        if (EARLIEST_AT_MS..=latest).contains(&at_ms) { Ok(at_ms) } else { Err("bad_time") }
    }

    fn outcome(&self, fields: &Fields<'_>, at_ms: i64, bot: Option<Classified>) -> LineOutcome {
        if bot.is_none() && self.bots.cdn(fields.text(Field::UserAgent)).is_some() {
            // The CDN replaced the visitor's user agent, so the line may be from a person or a bot.
            return LineOutcome::Dropped("cdn");
        }
        let Some(bot) = bot else {
            // A log without user agents doesn't show that only people read it.
            return if fields.is_absent(Field::UserAgent) { LineOutcome::Bad("no_user_agent") } else { self.of_person(fields) };
        };
        self.of_bot(fields, at_ms, &bot).unwrap_or_else(|outcome| outcome)
    }

    /// Returns the outcome of a person's line, from which only the host is read.
    fn of_person(&self, fields: &Fields<'_>) -> LineOutcome {
        let Some(owned) = &self.owned_sites else { return LineOutcome::Person };
        let is_foreign = self.host_finder.find(fields).is_some_and(|host| !owned.iter().any(|own| own.covers(&host.site)));
        if is_foreign { LineOutcome::Dropped(OTHER_HOST) } else { LineOutcome::Person }
    }

    fn of_bot(&self, fields: &Fields<'_>, at_ms: i64, bot: &Classified) -> Result<LineOutcome, LineOutcome> {
        let method = fields.get(Field::Method).ok_or(LineOutcome::Bad("no_method"))?;
        if !matches!(method, "GET" | "HEAD") {
            return Err(LineOutcome::Dropped("method"));
        }
        let is_subrequest = fields.get(Field::Parent).is_some() || fields.get(Field::Source).is_some();
        if is_subrequest || fields.get(Field::IsEdge) == Some("false") {
            return Err(LineOutcome::Dropped("subrequest"));
        }
        let url = self.url(fields).map_err(LineOutcome::Bad)?;
        let status = fields.status();
        let is_success = status.is_ok_and(|status| (200..300).contains(&status));
        // A revalidation has the page's media type.
        let is_of_page = is_success || status == Ok(304);
        let is_asset = is_asset(&url, fields.text(Field::MediaType), is_of_page);
        let requested = url.clone();
        let url = fitting(url);
        let content = ContentUrl::parse(&url).map_err(|_| LineOutcome::Bad("bad_url"))?;
        let is_own = |owned: &Vec<OwnedSite>| content.site.as_ref().is_some_and(|site| owned.iter().any(|own| own.covers(site)));
        let is_for = |site: &Site| self.hosts.is_empty() || self.hosts.iter().any(|host| site.is_within(host));
        if !self.owned_sites.as_ref().is_none_or(is_own) || !content.site.as_ref().is_none_or(is_for) {
            return Err(LineOutcome::Dropped(OTHER_HOST));
        }
        if is_asset {
            return Err(LineOutcome::Dropped("asset"));
        }
        let status = status.map_err(LineOutcome::Bad)?;
        let check = |key_sets| agent_signature::check(fields, &requested, at_ms, (key_sets, &self.caller));
        let signature = self.key_sets.as_ref().and_then(check).map(Box::new);
        if !is_success {
            let fetch = FailedFetch { signature, ..self.failed_fetch(fields, at_ms, (&content, status), bot) };
            return Err(LineOutcome::Refused(Box::new(fetch)));
        }
        let event = self.event(fields, at_ms, &url, bot).map_err(LineOutcome::Bad)?;
        Ok(LineOutcome::Kept(Box::new(LogEvent { signature, ..event })))
    }

    /// Returns the requested URL.
    fn url(&self, fields: &Fields<'_>) -> Result<String, Reason> {
        let path = fields.get(Field::Path).ok_or("no_path")?;
        if is_absolute(path) {
            return Ok(path.to_owned());
        }
        let host = self.host_of(fields)?;
        let scheme = if fields.text(Field::Scheme).eq_ignore_ascii_case("http") { "http" } else { "https" };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let query = fields.get(Field::Query).map(|query| query.trim_start_matches('?'));
        let query = query.filter(|query| !query.is_empty() && !path.contains('?')).map(|query| format!("?{query}"));
        Ok(format!("{scheme}://{host}{slash}{path}{}", query.unwrap_or_default()))
    }

    /// Returns the requested host with its port. Only public hostnames are hosts: addresses of visitors or servers can be logged in a
    /// host's place, and visitors choose their `Host` headers.
    fn host_of<'f>(&'f self, fields: &'f Fields<'_>) -> Result<&'f str, Reason> {
        let mut reason = "no_host";
        for host in self.host_finder.named(fields) {
            if let Some(host) = public_host(host) {
                return Ok(host);
            }
            reason = "bad_host";
        }
        Err(reason)
    }

    fn failed_fetch(
        &self,
        fields: &Fields<'_>,
        at_ms: i64,
        (content, status): (&ContentUrl, u16),
        bot: &Classified,
    ) -> FailedFetch {
        let org = self.caller.org_id;
        FailedFetch {
            own_key: EventKey::own(&OwnId::Reported { org, id: &self.line_id(fields, at_ms) }),
            at_ms,
            site: content.site.as_ref().map(|site| site.as_str().to_owned()).unwrap_or_default(),
            path: path_of(&content.stored).to_owned(),
            bot: bot.bot.to_string(),
            operator: bot.operator.to_string(),
            purpose: bot.purpose,
            verified: bot.verified,
            status,
            signature: None,
        }
    }

    fn line_id(&self, fields: &Fields<'_>, at_ms: i64) -> String {
        let host = self.host_finder.find(fields);
        let host = host.as_ref().map_or("", |host| &host.name);
        line_id(self.caller.org_id, self.provider, fields, host, at_ms).to_string()
    }

    /// Creates the event, with the same validation as other events.
    fn event(&self, fields: &Fields<'_>, at_ms: i64, url: &str, bot: &Classified) -> Result<LogEvent, Reason> {
        let text = self.report(fields, at_ms, url, bot).to_string();
        require_clean_text(&text).map_err(|_| "bad_text")?;
        let raw = RawValue::from_string(text).map_err(|_| "bad_text")?;
        let mut faults = Faults::default();
        let context = Context { is_strict: false, ..Context::new(&self.limits, self.now, &self.caller) };
        let valid = validate_event(&raw, &context, &mut faults).ok_or("not_an_event")?;
        faults.into_result().map_err(|_| "not_an_event")?;
        let origin = Origin { org: self.caller.org_id, agent_id: None, idempotency_key: None, bots: &self.bots };
        let mut event = normalize_event(valid, &Binding::Unbound, &origin, 0).event;
        // The address was already checked with the bot table.
        event.crawler.get_or_insert_default().put(bot, self.bots.version());
        Ok(event)
    }

    fn report(&self, fields: &Fields<'_>, at_ms: i64, url: &str, bot: &Classified) -> Value {
        let at = DateTime::from_timestamp_millis(at_ms).map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
        json!({
            "type": "content_retrieved",
            "id": self.line_id(fields, at_ms),
            "timestamp": at,
            "source_role": self.role.as_str(),
            "content_url": url,
            "content_telemetry_id": fields.get(Field::TelemetryId).and_then(telemetry_id_of_line),
            "data": {
                "user_agent": truncate(fields.text(Field::UserAgent), MAX_USER_AGENT_BYTES),
                "bot_name": bot.bot.as_ref(),
                "operator": bot.operator.as_ref(),
                "purpose": bot.purpose.as_str(),
                "verified": bot.verified,
                "verified_bot_category": fields.get(Field::Category),
                "signature_agent": fields.get(Field::SignatureAgent).map(|agent| truncate(agent, MAX_USER_AGENT_BYTES)),
                "response_status": fields.number::<u16>(Field::Status),
                "response_bytes": fields.number::<u64>(Field::Bytes),
                "cache_status": fields.get(Field::Cache).filter(|text| is_cache_status(text)).map(Crawler::text),
                "asn": Some(fields.number::<u32>(Field::Asn)).filter(|asn| *asn > 0),
                "country": fields.get(Field::Country).filter(|text| is_country(text)).map(Crawler::text),
                "media_type": fields.get(Field::MediaType).filter(|text| is_media_type(text)).map(Crawler::media_type),
            },
        })
    }
}

fn sender<'a>(fields: &'a Fields<'_>, address: Option<IpAddr>) -> Sender<'a> {
    Sender {
        user_agent: fields.text(Field::UserAgent),
        signature_agent: fields.get(Field::SignatureAgent),
        category: fields.get(Field::Category),
        address,
    }
}

/// Returns an unreadable line's outcome.
pub(super) fn bad(reason: Reason) -> ProcessedLine {
    judged(LineOutcome::Bad(reason), None, [0; 16])
}

fn judged(outcome: LineOutcome, at_ms: Option<i64>, mark: [u8; 16]) -> ProcessedLine {
    ProcessedLine { outcome, at_ms, mark, format: None }
}

/// Returns a line's text. Bytes that aren't UTF-8 become percent escapes, so they can't make a line unreadable.
fn readable(line: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(line) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(percent_encoding::percent_encode(chunk.invalid(), percent_encoding::NON_ALPHANUMERIC));
    }
    Cow::Owned(text)
}

/// Returns whether a response isn't content. Uses the media type, because the server chooses it, while the visitor chooses the path.
/// Without a media type, or if it is generic or that of an error page, uses the file extension.
fn is_asset(url: &str, media_type: &str, is_of_page: bool) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if ASSET_TYPES.iter().any(|kind| media_type.starts_with(kind)) {
        return true;
    }
    let is_known = media_type.contains('/') && !VAGUE_TYPES.contains(&media_type.as_str());
    if is_known && is_of_page {
        return false;
    }
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    ASSETS.contains(&ending.as_str())
}

/// Truncates a URL that is too long, so visitors can't cause lines to be dropped.
fn fitting(url: String) -> String {
    // Escaping at most triples the length.
    const SURELY_FITS: usize = MAX_URL_BYTES / 3;
    let is_too_long = url.len() > SURELY_FITS && ContentUrl::parse(&url) == Err(ContentUrlError::TooLong);
    if is_too_long { truncate(&url, SURELY_FITS).to_owned() } else { url }
}

/// Returns a URL's path without query and fragment, as stored.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    path.split(['?', '#']).next().unwrap_or(path)
}

fn is_absolute(target: &str) -> bool {
    let begins_with = |scheme: &str| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins_with("http://") || begins_with("https://")
}

/// Returns a line's outline for troubleshooting. Letters and digits are masked, so it doesn't contain names or addresses.
pub(super) fn outline(line: &[u8]) -> String {
    const SHOWN: usize = 120;
    let hide = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' => 'a',
        b'0'..=b'9' => '0',
        byte if byte.is_ascii_graphic() || *byte == b' ' => char::from(*byte),
        b'\t' => '\t',
        _ => '?',
    };
    line.iter().take(SHOWN).map(hide).collect()
}

#[cfg(test)]
mod tests {
    use super::super::format_table::FORMATS;
    use super::*;

    #[test]
    fn media_types_take_precedence_over_path_endings() {
        for asset in ["https://a.test/x.CSS?v=1", "https://a.test/a/b.min.js", "https://a.test/i.webp#x"] {
            for vague in ["", "Application/Octet-Stream", " ; charset=utf-8", "html", "null", "undefined"] {
                assert!(is_asset(asset, vague, true), "{asset} {vague}");
            }
            assert!(is_asset(asset, "text/html", false), "{asset}: the media type describes an error page");
        }
        for page in ["https://a.test/article/x.css", "https://a.test/wiki/Node.js", "https://a.test/a;b.png"] {
            for media_type in ["text/html", "TEXT/HTML; charset=utf-8", "application/xhtml+xml", "text/markdown"] {
                assert!(!is_asset(page, media_type, true), "{page} {media_type}");
            }
        }
        for content in
            ["https://a.test/", "https://a.test/css", "https://a.test/a.html?x=b.css", "https://cdn.js/", "https://a.test/a.pdf"]
        {
            assert!(!is_asset(content, "", true), "{content}");
        }
        for media_type in ["Image/PNG", "application/x-javascript", "font/woff2", "application/font-woff"] {
            assert!(is_asset("https://a.test/photo", media_type, true), "{media_type}");
        }
    }

    /// Servers send these types for unknown extensions.
    #[test]
    fn path_endings_are_used_for_generic_media_types() {
        for media_type in ["text/plain", "Application/JSON; charset=utf-8", "application/octet-stream", "text/xml", "html", ""] {
            for asset in ["https://a.test/x.mjs", "https://a.test/x.avif", "https://a.test/x.js.map", "https://a.test/x.svg"] {
                assert!(is_asset(asset, media_type, true), "{asset} {media_type}");
            }
            for content in ["https://a.test/robots.txt", "https://a.test/data.json", "https://a.test/feed.xml", "https://a.test/"]
            {
                assert!(!is_asset(content, media_type, true), "{content} {media_type}");
            }
        }
    }

    /// Without media types, pages with an asset's extension are not counted, so the documentation must list these formats.
    #[test]
    fn documentation_lists_formats_without_media_types() {
        let page = include_str!("../../../docs/drains/README.md");
        let line = page.lines().find(|line| line.contains("by the media type of the response")).unwrap();
        let named = |id: &FormatId| match id {
            FormatId::Combined | FormatId::Common | FormatId::Vector => Some("combined and common log formats"),
            FormatId::TraefikClf => Some("Traefik's text format"),
            FormatId::IngressNginx => Some("ingress-nginx"),
            FormatId::AwsAlb | FormatId::AwsElb => Some("AWS's load balancers"),
            FormatId::GoogleLoadBalancer => Some("Google's load balancer"),
            FormatId::Haproxy | FormatId::HaproxyHttps => Some("HAProxy"),
            FormatId::W3c => Some("IIS"),
            FormatId::Bunny => Some("Bunny"),
            FormatId::Vercel => Some("Vercel"),
            FormatId::AzureFrontDoor => Some("Azure Front Door"),
            FormatId::FluentBit => Some("Fluent Bit's parsers"),
            FormatId::Logstash => Some("Logstash's patterns"),
            FormatId::Envoy | FormatId::Istio => Some("Envoy's text formats"),
            FormatId::NginxProxyManager => Some("Nginx Proxy Manager"),
            FormatId::Gcore => Some("Gcore"),
            FormatId::KeyCdn => Some("KeyCDN"),
            FormatId::AmazonS3 => Some("Amazon S3"),
            FormatId::HerokuRouter | FormatId::Squid | FormatId::Morgan => None,
            FormatId::Kong | FormatId::Apisix | FormatId::Pino => None,
            FormatId::Cloudflare | FormatId::Fastly | FormatId::AkamaiJson | FormatId::AkamaiText => None,
            FormatId::CloudFrontJson | FormatId::CloudFrontRealTime | FormatId::CloudFrontStandard => None,
            FormatId::TraefikJson | FormatId::Ecs | FormatId::Caddy | FormatId::Json => None,
        };
        for name in FORMATS.iter().filter_map(|format| named(&format.id)) {
            assert!(line.contains(name), "{name}: {line}");
        }
    }

    #[test]
    fn path_excludes_query_and_fragment() {
        for (url, path) in [
            ("https://a.test/", "/"),
            ("https://a.test/a/b?x=/c#d", "/a/b"),
            ("https://a.test/a#b?c", "/a"),
            ("https://a.test:8443/a//b/", "/a//b/"),
            ("https://a.test", "/"),
        ] {
            assert_eq!(path_of(url), path, "{url}");
        }
    }

    #[test]
    fn url_schemes_are_case_insensitive() {
        for url in ["http://a.test/", "https://a.test/", "HTTPS://a.test/", "Http://a.test/"] {
            assert!(is_absolute(url), "{url}");
        }
        for path in ["/https://a.test/", "https:/a", "http", "", "httpé://a.test/", "*"] {
            assert!(!is_absolute(path), "{path}");
        }
    }

    #[test]
    fn outline_masks_letters_and_digits() {
        let line = "203.0.113.9 - Ann [x] \"GET /é\" Mozilla/5.0";
        assert_eq!(outline(line.as_bytes()), "000.0.000.0 - aaa [a] \"aaa /??\" aaaaaaa/0.0");
        assert_eq!(outline(&[b'x'; 500]).len(), 120);
    }
}
