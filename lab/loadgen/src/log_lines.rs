//! Log lines in each provider's format: for a given request, or for a load in which an AI agent fetches a page in one line of 50 and people
//! send the other requests.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::identity::DrainProvider;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// One in this many lines is from an AI agent.
pub const BOT_EVERY: u32 = 50;

const BOTS: [&str; 6] = [
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot)",
];
/// User agents of people, and of programs that aren't agents. `#` is replaced with a version.
const PEOPLE: [&str; 12] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/#.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/#.0.0.0 Safari/537.36 Edg/#.0.0.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/#.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/#.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/#.0 Chrome/121.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/#.6 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/#.6 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/#.5 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:#.0) Gecko/20100101 Firefox/#.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:#.0) Gecko/20100101 Firefox/#.0",
    "curl/8.#.0",
    "okhttp/4.#.0",
];
const COUNTRIES: [&str; 8] = ["us", "de", "gb", "fr", "in", "br", "jp", "nl"];
/// Pads a line to the requested length.
const FILLER: &str = "session_region=eu-central-1; consent=necessary.statistics; theme=dark; locale=de-DE; experiment=checkout-b; \
                      last_section=politics; font_scale=1.125; timezone=Europe/Berlin; newsletter=dismissed; ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Cloudflare,
    /// The format string in `infra/edge/fastly`.
    Fastly,
    /// Real-time logs of `CloudFront`, one line per record.
    FirehoseTsv,
    /// Like `FirehoseTsv`, but as JSON.
    FirehoseJson,
    /// `DataStream` 2.
    AkamaiJson,
    /// Like `AkamaiJson`, but separated by spaces.
    AkamaiText,
    Vercel,
    /// Azure Front Door with one record per line.
    Azure,
    /// nginx with Vector or Fluent Bit.
    Ndjson,
    /// nginx or Apache.
    Combined,
}

impl Format {
    pub const ALL: [Self; 10] = [
        Self::Cloudflare,
        Self::Fastly,
        Self::FirehoseTsv,
        Self::FirehoseJson,
        Self::AkamaiJson,
        Self::AkamaiText,
        Self::Vercel,
        Self::Azure,
        Self::Ndjson,
        Self::Combined,
    ];

    pub fn provider(self) -> DrainProvider {
        match self {
            Self::Cloudflare => DrainProvider::Cloudflare,
            Self::Fastly => DrainProvider::Fastly,
            Self::FirehoseTsv | Self::FirehoseJson => DrainProvider::Firehose,
            Self::AkamaiJson | Self::AkamaiText => DrainProvider::Akamai,
            Self::Vercel => DrainProvider::Vercel,
            Self::Azure => DrainProvider::Azure,
            Self::Ndjson => DrainProvider::Ndjson,
            Self::Combined => DrainProvider::Combined,
        }
    }

    /// Returns whether the format logs the correlation header, or any header that isn't a field in every log.
    pub fn logs_telemetry_id(self) -> bool {
        !matches!(self, Self::Vercel | Self::Azure)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::FirehoseTsv => "firehose, tabs",
            Self::FirehoseJson => "firehose, JSON",
            Self::AkamaiJson => "akamai, JSON",
            Self::AkamaiText => "akamai, spaces",
            _ => self.provider().as_str(),
        }
    }

    pub fn line(self, request: &Request) -> String {
        match self {
            Self::Cloudflare => request.cloudflare(),
            Self::Fastly => request.fastly(),
            Self::FirehoseTsv => request.cloudfront_tsv(),
            Self::FirehoseJson => request.cloudfront_json(),
            Self::AkamaiJson => request.akamai_json(),
            Self::AkamaiText => request.akamai_text(),
            Self::Vercel => request.vercel(),
            Self::Azure => request.azure(),
            Self::Ndjson => request.ndjson(),
            Self::Combined => request.combined(),
        }
    }

    pub fn body(self, lines: &[String]) -> String {
        let is_delivery = matches!(self, Self::FirehoseTsv | Self::FirehoseJson);
        let whole = |(nth, line): (usize, &String)| match is_delivery {
            true => record(line, nth == 0, nth + 1 == lines.len()) + "\n",
            false => format!("{line}\n"),
        };
        lines.iter().enumerate().map(whole).collect()
    }
}

/// Generates the lines for one body or several consecutive ones.
pub struct Lines {
    format: Format,
    random: SmallRng,
    begin: DateTime<Utc>,
    least_bytes: usize,
    made: u32,
}

/// One request. Its strings must not contain characters that are escaped in JSON or in a log.
#[derive(Clone, Debug)]
pub struct Request {
    pub at: DateTime<Utc>,
    /// The provider's request id; may be empty.
    pub id: String,
    /// The correlation header; may be empty. Not every format logs it.
    pub telemetry_id: String,
    pub address: String,
    pub user_agent: String,
    pub host: String,
    pub path: String,
    pub status: u16,
    pub bytes: u32,
    pub country: &'static str,
    pub cache: &'static str,
}

impl Lines {
    /// Generates lines from the hour before `now`. NDJSON lines are padded to `least_bytes`.
    pub fn new(format: Format, now: DateTime<Utc>, least_bytes: usize) -> Self {
        Self { format, random: SmallRng::seed_from_u64(1), begin: now - TimeDelta::hours(1), least_bytes, made: 0 }
    }

    pub fn write(&mut self, is_last: bool, to: &mut Vec<u8>) {
        let request = self.request();
        let line = self.format.line(&request);
        let line = match self.format {
            Format::FirehoseTsv | Format::FirehoseJson => record(&line, self.made == 0, is_last),
            Format::Ndjson => filled(line, self.least_bytes),
            _ => line,
        };
        to.extend_from_slice(line.as_bytes());
        to.push(b'\n');
        self.made += 1;
    }

    fn request(&mut self) -> Request {
        let is_bot = self.made % BOT_EVERY == BOT_EVERY - 1;
        let random = &mut self.random;
        let user_agent = match is_bot {
            true => BOTS[random.random_range(0..BOTS.len())].to_owned(),
            false => PEOPLE[random.random_range(0..PEOPLE.len())].replace('#', &random.random_range(17..143_u8).to_string()),
        };
        Request {
            at: self.begin + TimeDelta::milliseconds(3 * i64::from(self.made)),
            id: format!("{:016x}", u64::from(self.made).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            telemetry_id: String::new(),
            host: "www.example.com".to_owned(),
            address: std::net::Ipv4Addr::from(random.random::<u32>()).to_string(),
            user_agent,
            path: format!(
                "/{}/article-{}",
                ["politics", "sports", "science"][random.random_range(0..3)],
                random.random_range(0..9_999)
            ),
            status: if is_bot { 200 } else { [200, 200, 200, 200, 301, 304, 404][random.random_range(0..7)] },
            bytes: random.random_range(500..90_000),
            country: COUNTRIES[random.random_range(0..COUNTRIES.len())],
            cache: ["hit", "miss"][random.random_range(0..2)],
        }
    }
}

/// Returns a Firehose record with one line. The first line starts a delivery, the last one ends it.
fn record(line: &str, is_first: bool, is_last: bool) -> String {
    let begin = if is_first { r#"{"requestId":"load","timestamp":1,"records":["# } else { "" };
    let end = if is_last { "]}" } else { "," };
    format!("{begin}{{\"data\":\"{}\"}}{end}", BASE64_STANDARD.encode(line))
}

impl Request {
    fn cloudflare(&self) -> String {
        let Self { id, address, user_agent, host, path, status, bytes, country, cache, telemetry_id, .. } = self;
        let at = self.at.to_rfc3339_opts(SecondsFormat::Secs, true);
        let headers = match telemetry_id.as_str() {
            "" => "{}".to_owned(),
            id => format!(r#"{{"content-telemetry-id":"{id}"}}"#),
        };
        let media_type = self.media_type();
        format!(
            r#"{{"ClientRequestHost":"{host}","ClientRequestScheme":"https","ClientRequestURI":"{path}","ClientRequestMethod":"GET","ClientRequestUserAgent":"{user_agent}","ClientRequestSource":"eyeball","EdgeStartTimestamp":"{at}","EdgeResponseStatus":{status},"EdgeResponseBytes":{bytes},"EdgeResponseContentType":"{media_type}","CacheCacheStatus":"{cache}","ClientASN":8075,"ClientCountry":"{country}","ClientIP":"{address}","RayID":"{id}","ParentRayID":"00","VerifiedBotCategory":"","RequestHeaders":{headers}}}"#
        )
    }

    fn fastly(&self) -> String {
        let Self { id, address, user_agent, host, path, status, bytes, country, cache, telemetry_id, .. } = self;
        let at = self.at.format("%Y-%m-%dT%H:%M:%S+00:00");
        let media_type = self.media_type();
        format!(
            r#"{{"timestamp":"{at}","host":"{host}","scheme":"https","url":"{path}","request_method":"GET","request_user_agent":"{user_agent}","response_status":{status},"response_body_size":{bytes},"content_type":"{media_type}; charset=utf-8","cache_status":"{cache}","client_ip":"{address}","country":"{country}","asn":8075,"request_id":"{id}","content_telemetry_id":"{telemetry_id}","signature_agent":""}}"#
        )
    }

    fn cloudfront_tsv(&self) -> String {
        let Self { address, host, path, status, bytes, country, cache, .. } = self;
        let (id, at, user_agent, headers) = (dash(&self.id), self.unix(), self.escaped_user_agent(), self.headers());
        let media_type = self.media_type();
        format!(
            "{at}\t{address}\t-\t{status}\t{bytes}\tGET\tHTTPS\td111111abcdef8.cloudfront.net\t{path}\t-\t-\t{id}\t{host}\t-\tHTTP/2.0\tIPv4\t\
             {user_agent}\t-\t-\t-\t{cache}\t-\t-\t-\t{cache}\t-\t-\t{media_type}\t-\t-\t-\t-\t-\t{country}\t-\t-\t-\t{headers}\t\
             -\t-\t-\t-\t-\t-\t8075\t-"
        )
    }

    fn cloudfront_json(&self) -> String {
        let Self { address, host, path, status, bytes, country, cache, .. } = self;
        let (id, at, user_agent, headers) = (dash(&self.id), self.unix(), self.escaped_user_agent(), self.headers());
        let media_type = self.media_type();
        format!(
            r#"{{"timestamp":"{at}","c-ip":"{address}","sc-status":"{status}","sc-bytes":"{bytes}","cs-method":"GET","cs-protocol":"https","cs-host":"d111111abcdef8.cloudfront.net","x-host-header":"{host}","cs-uri-stem":"{path}","cs-uri-query":"-","x-edge-request-id":"{id}","cs-user-agent":"{user_agent}","x-edge-result-type":"{cache}","sc-content-type":"{media_type}","c-country":"{country}","asn":"8075","cs-headers":"{headers}"}}"#
        )
    }

    fn akamai_json(&self) -> String {
        let Self { address, host, path, status, bytes, country, .. } = self;
        let (at, user_agent, path) = (self.unix(), self.escaped_user_agent(), path.trim_start_matches('/'));
        let (id, telemetry_id) = (dash(&self.id), dash(&self.telemetry_id));
        let media_type = self.media_type();
        format!(
            r#"{{"version":"1","reqId":"{id}","reqTimeSec":"{at}","cliIP":"{address}","reqHost":"{host}","reqPath":"{path}","queryStr":"-","reqMethod":"GET","proto":"HTTP/2","statusCode":"{status}","bytes":"{bytes}","UA":"{user_agent}","referer":"-","cacheStatus":"1","country":"{country}","asn":"8075","rspContentType":"{media_type}","customField":"content-telemetry-id={telemetry_id}"}}"#
        )
    }

    fn akamai_text(&self) -> String {
        let Self { address, host, path, status, bytes, country, .. } = self;
        let (at, user_agent, path) = (self.unix(), self.escaped_user_agent(), path.trim_start_matches('/'));
        let (id, telemetry_id) = (dash(&self.id), dash(&self.telemetry_id));
        let media_type = self.media_type();
        format!(
            "1 {id} {at} {address} {host} {path} - GET HTTP/2 {status} {bytes} {user_agent} - 1 {country} 8075 {media_type} content-telemetry-id={telemetry_id}"
        )
    }

    fn vercel(&self) -> String {
        let Self { id, address, user_agent, host, path, status, bytes, cache, .. } = self;
        let at = self.at.timestamp_millis();
        format!(
            r#"{{"id":"{id}","deploymentId":"dpl_1","source":"static","host":"project.vercel.app","timestamp":{at},"requestId":"{id}","proxy":{{"timestamp":{at},"method":"GET","scheme":"https","host":"{host}","path":"{path}","userAgent":["{user_agent}"],"referer":"","statusCode":{status},"clientIp":"{address}","region":"sfo1","responseByteSize":{bytes},"vercelCache":"{cache}"}}}}"#
        )
    }

    fn azure(&self) -> String {
        let Self { id, address, user_agent, host, path, status, bytes, cache, .. } = self;
        let at = self.at.to_rfc3339_opts(SecondsFormat::Millis, true);
        format!(
            r#"{{"time":"{at}","category":"FrontDoorAccessLog","operationName":"Microsoft.Cdn/Profiles/AccessLog/Write","properties":{{"trackingReference":"{id}","httpMethod":"GET","httpVersion":"2.0","requestUri":"https://{host}:443{path}","responseBytes":"{bytes}","userAgent":"{user_agent}","clientIp":"{address}","socketIp":"{address}","isReceivedFromClient":true,"httpStatusCode":"{status}","cacheStatus":"{cache}","hostName":"{host}"}}}}"#
        )
    }

    fn ndjson(&self) -> String {
        let Self { id, address, user_agent, host, path, status, bytes, telemetry_id, .. } = self;
        let at = self.at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let media_type = self.media_type();
        format!(
            r#"{{"time_iso8601":"{at}","host":"{host}","scheme":"https","request_uri":"{path}","request_method":"GET","http_user_agent":"{user_agent}","status":{status},"body_bytes_sent":{bytes},"remote_addr":"{address}","request_id":"{id}","http_content_telemetry_id":"{telemetry_id}","sent_http_content_type":"{media_type}"}}"#
        )
    }

    fn combined(&self) -> String {
        let Self { address, user_agent, host, path, status, bytes, .. } = self;
        let (id, telemetry_id) = (self.hexadecimal_id(), dash(&self.telemetry_id));
        let at = self.at.format("%d/%b/%Y:%H:%M:%S +0000");
        format!(
            r#"{address} - - [{at}] "GET {path} HTTP/2.0" {status} {bytes} "-" "{user_agent}" "{telemetry_id}" "{host}" "{id}""#
        )
    }

    /// Returns an id in nginx's format: a hash of the id, or of the other fields if the id is empty.
    fn hexadecimal_id(&self) -> String {
        let Self { id, address, user_agent, host, path, status, telemetry_id, .. } = self;
        let halves = [0_u8, 1].map(|half| {
            let mut hasher = DefaultHasher::new();
            match id.as_str() {
                "" => (half, self.at, address, user_agent, host, path, status, telemetry_id).hash(&mut hasher),
                id => (half, id).hash(&mut hasher),
            }
            hasher.finish()
        });
        format!("{:016x}{:016x}", halves[0], halves[1])
    }

    fn media_type(&self) -> &'static str {
        if self.path.ends_with(".css") { "text/css" } else { "text/html" }
    }

    fn unix(&self) -> String {
        format!("{}.{:03}", self.at.timestamp(), self.at.timestamp_subsec_millis())
    }

    fn headers(&self) -> String {
        let Self { host, telemetry_id, .. } = self;
        match telemetry_id.as_str() {
            "" => format!("host:{host}%0A"),
            id => format!("host:{host}%0Acontent-telemetry-id:{id}%0A"),
        }
    }

    fn escaped_user_agent(&self) -> String {
        self.user_agent.replace(' ', "%20")
    }
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// Adds a member that pads a JSON object to this many bytes, including the newline.
fn filled(mut object: String, bytes: usize) -> String {
    const MEMBER: &str = r#","cookie":""#;
    let missing = bytes.saturating_sub(object.len() + MEMBER.len() + "\"\n".len());
    if missing == 0 {
        return object;
    }
    object.pop();
    object.push_str(MEMBER);
    object.extend(FILLER.chars().cycle().take(missing));
    object.push_str("\"}");
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_lines_to_the_exact_length() {
        let mut lines = Lines::new(Format::Ndjson, DateTime::UNIX_EPOCH, 1_074);
        for _ in 0..1_000 {
            let mut line = Vec::new();
            lines.write(false, &mut line);
            assert_eq!(line.len(), 1_074);
            assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok_and(|line| line.is_object()));
        }
    }
}
