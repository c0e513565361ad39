//! The table of log formats, with a sample of each. docs/drains/formats.md shows it, and tests read each sample.

use schemas::identity::DrainProvider;

/// A log format. If a JSON line matches several, the first one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormatId {
    Cloudflare,
    Fastly,
    CloudFrontJson,
    CloudFrontRealTime,
    CloudFrontStandard,
    AkamaiJson,
    AkamaiText,
    Vercel,
    AzureFrontDoor,
    TraefikJson,
    Ecs,
    GoogleLoadBalancer,
    Kong,
    Apisix,
    Pino,
    Caddy,
    Vector,
    FluentBit,
    Logstash,
    Json,
    Combined,
    Common,
    TraefikClf,
    IngressNginx,
    AwsAlb,
    Haproxy,
    HaproxyHttps,
    W3c,
    Bunny,
    AwsElb,
    Envoy,
    Istio,
    NginxProxyManager,
    Gcore,
    KeyCdn,
    AmazonS3,
    HerokuRouter,
    Squid,
    Morgan,
}

#[derive(Debug)]
pub struct LogFormat {
    /// Index in [`FORMATS`].
    pub id: FormatId,
    /// Name shown by `telemetry drain test`.
    pub name: &'static str,
    pub label: &'static str,
    /// Provider whose drains accept the format.
    pub provider: DrainProvider,
    /// URL of the vendor's documentation.
    pub source: &'static str,
    /// One sentence for users; may be empty.
    pub note: &'static str,
    /// Log of one agent request, with any required header lines.
    pub sample: &'static str,
}

impl FormatId {
    pub fn row(self) -> &'static LogFormat {
        &FORMATS[self as usize]
    }
}

macro_rules! formats {
    ($($id:ident $name:literal $label:literal $provider:ident $source:literal $note:literal)+) => {
        /// All formats.
        pub const FORMATS: &[LogFormat] = &[$(LogFormat {
            id: FormatId::$id,
            name: $name,
            label: $label,
            provider: DrainProvider::$provider,
            source: $source,
            note: $note,
            sample: include_str!(concat!("formats/samples/", $name, ".log")),
        }),+];
    };
}

formats! {
    Cloudflare "cloudflare" "Cloudflare Logpush" Cloudflare
        "https://developers.cloudflare.com/logs/logpush/logpush-job/datasets/zone/http_requests/" ""
    Fastly "fastly" "Fastly" Fastly
        "https://www.fastly.com/documentation/guides/integrations/logging-endpoints/log-streaming-https/"
        "In Fastly's formats, visitors can set `client_ip`, so only [ours](fastly.md) verifies agents: in it, `content_telemetry_id` follows the other members. A line with two values for one field is bad."
    CloudFrontJson "cloudfront_json" "CloudFront standard logs (v2), JSON" Firehose
        "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logging.html" ""
    CloudFrontRealTime "cloudfront_real_time" "CloudFront real-time logs" Firehose
        "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/real-time-logs.html"
        "Select all fields in the documented order: a line with a missing field is bad."
    CloudFrontStandard "cloudfront_standard" "CloudFront standard log files" Firehose
        "https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html"
        "The `#Fields` line names the columns."
    AkamaiJson "akamai_json" "Akamai DataStream 2, JSON" Akamai
        "https://techdocs.akamai.com/datastream2/docs/data-set-parameters"
        "Akamai omits an empty user agent. Without the `UA` field, every line counts as a person."
    AkamaiText "akamai_text" "Akamai DataStream 2, structured" Akamai
        "https://techdocs.akamai.com/datastream2/docs/data-set-parameters" "Select the fields in the [documented order](akamai.md)."
    Vercel "vercel" "Vercel" Vercel
        "https://vercel.com/docs/drains/reference/logs" ""
    AzureFrontDoor "azure_front_door" "Azure Front Door access log" Azure
        "https://learn.microsoft.com/en-us/azure/frontdoor/monitor-front-door"
        "`clientIp` can come from a header that visitors send, so an agent is verified only if `socketIp` is the same. Lines of other categories are skipped."
    TraefikJson "traefik_json" "Traefik, JSON" Ndjson
        "https://doc.traefik.io/traefik/observability/access-logs/"
        "Traefik drops headers by default: set `accessLog.fields.headers.names.User-Agent: keep`. Agents are verified only if `ClientAddr` is logged and `ClientHost` is the same: otherwise `ClientHost` can come from a header."
    Ecs "ecs" "Elastic Common Schema" Ndjson
        "https://www.elastic.co/docs/reference/ecs/ecs-http"
        "`client.ip` and `source.ip` can come from a header, so they don't verify agents."
    GoogleLoadBalancer "google_load_balancer" "Google Cloud load balancer" Ndjson
        "https://cloud.google.com/load-balancing/docs/https/https-logging-monitoring" ""
    Kong "kong" "Kong, HTTP Log and File Log" Ndjson
        "https://developer.konghq.com/plugins/http-log/" ""
    Apisix "apisix" "Apache APISIX, `http-logger`" Ndjson
        "https://apisix.apache.org/docs/apisix/plugins/http-logger/" ""
    Pino "pino" "Express and Fastify (pino, bunyan)" Ndjson
        "https://github.com/pinojs/pino-http"
        "Fastify logs no headers by default, so its lines are bad. Use `pino-http`, or a serializer that logs method, URL, headers and status in one line. `remoteAddress` can come from a header, so agents aren't verified."
    Caddy "caddy" "Caddy" Ndjson
        "https://caddyserver.com/docs/logging"
        "Agents are verified only if `remote_ip` is logged and `client_ip` isn't another address."
    Vector "vector" "Vector, Fluent Bit and Logstash, unparsed lines" Ndjson
        "https://vector.dev/docs/reference/configuration/sources/file/"
        "`message` or `log` contains a line in any of the text formats below. Send only access logs: a shipper's other lines are bad. Parts of a container's long line are joined if `logtag`, `_p`, `_partial` or `partial_message` marks them, or if they are Docker's own entries (`stream`, 16 KiB, a line break only at the end). Text verifies no agent, because it can be a part of a longer line. If the server writes JSON into `message` or `log`, agents are verified."
    FluentBit "fluent_bit" "Fluent Bit" Ndjson
        "https://docs.fluentbit.io/manual/pipeline/outputs/http" "`\\xHH` in paths and user agents is unescaped. Parsed lines verify no agent, because they can be parts of longer ones."
    Logstash "logstash" "Logstash, `COMBINEDAPACHELOG`" Ndjson
        "https://www.elastic.co/docs/reference/logstash/plugins/plugins-filters-grok"
        "Field names of the pattern up to Logstash 7; later versions use the Elastic Common Schema. Visitors can forge `clientip`, so agents aren't verified. Keep `httpversion`, which identifies the format, and `message`, which is used for lines that the pattern doesn't match and for targets with a space."
    Json "json" "JSON with the usual names" Ndjson
        "https://nginx.org/en/docs/http/ngx_http_log_module.html"
        "The [names](../api/drains.md#fields) that nginx and most loggers use, also those of Istio, Envoy Gateway, and Loggly's format for Apache. If a shipper merges a container's JSON with its own members (`stream`, `logtag`), agents aren't verified: send the line in `log` instead (in Fluent Bit, `Merge_Log Off`)."
    Combined "combined" "Combined log format (nginx, Apache, Lighttpd)" Combined
        "https://httpd.apache.org/docs/current/logs.html#combined"
        "The host may precede the line. Headers of syslog and of Kubernetes' container logs are removed, and parts of a container's long line (`P`) are joined. Before the time, a line must contain `[host] addresses identity user`, or it is bad. Lines with a header or with several addresses verify no agent, because visitors may have written the address. Text after the user agent is ignored, unless it is in [our format](nginx.md#the-combined-format). The server must escape quotes and line breaks, as these three do. Traefik's `genericCLF` and Express (morgan) don't, so visitors can forge hosts and whole lines; log JSON instead."
    Common "common" "Common log format (Apache, nginx)" Combined
        "https://httpd.apache.org/docs/current/logs.html#common"
        "Contains no user agent, so agents can't be recognized. Use the combined format."
    TraefikClf "traefik_clf" "Traefik, common log format" Combined
        "https://doc.traefik.io/traefik/observability/access-logs/"
        "Use the JSON format instead. This format escapes nothing, not even line breaks, so visitors can write whole lines in any format and forge figures. If a body contains a line that ends like Traefik's, no agent in it is verified, except more than 1 MiB before the first such line. Forged agents can be verified only if a body contains none of Traefik's own lines. Traefik drops headers by default: set `accessLog.fields.headers.names.User-Agent: keep`."
    IngressNginx "ingress_nginx" "ingress-nginx" Combined
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/log-format/" ""
    AwsAlb "aws_alb" "AWS Application Load Balancer" Combined
        "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html" ""
    Haproxy "haproxy" "HAProxy, HTTP log format" Combined
        "https://docs.haproxy.org/3.0/configuration.html#8.2.3"
        "Capture `Host` and `User-Agent`, in this order; other captures are ignored. Times are read as UTC. Set `len 8192` in the `log` line: HAProxy truncates lines after 1,024 bytes, and a line that is truncated before its request is bad. `option httplog clf` logs no user agent, so its lines are bad."
    HaproxyHttps "haproxy_https" "HAProxy, HTTPS log format" Combined
        "https://docs.haproxy.org/3.0/configuration.html#8.2.4"
        "Like the HTTP log format. Visitors choose the TLS server name at the end, which isn't escaped, so a line with it and a captured cookie is bad if it can be read in two ways."
    W3c "w3c" "W3C extended log format (IIS)" Combined
        "https://learn.microsoft.com/en-us/windows/win32/http/w3c-logging"
        "The `#Fields` line names the columns. Select `cs-host` and `cs(User-Agent)`."
    Bunny "bunny" "Bunny" Combined
        "https://docs.bunny.net/docs/cdn-log-format"
        "Addresses are anonymized by default; anonymized addresses don't verify agents. A line with two URLs or with a request in the combined format is bad."
    AwsElb "aws_elb" "AWS Classic Load Balancer" Combined
        "https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html" ""
    Envoy "envoy" "Envoy, default text format" Combined
        "https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage"
        "Log JSON instead. The text format escapes nothing, so a line with `\" \"` in a visitor's text is bad, and its addresses don't verify agents."
    Istio "istio" "Istio, default text format" Combined
        "https://istio.io/latest/docs/tasks/observability/logs/access-log/" "Like Envoy's format."
    NginxProxyManager "nginx_proxy_manager" "Nginx Proxy Manager" Combined
        "https://github.com/NginxProxyManager/nginx-proxy-manager"
        "It accepts `X-Real-IP` from private networks, so agents aren't verified."
    Gcore "gcore" "Gcore" Combined
        "https://gcore.com/docs/cdn/logs/logs-uploader" ""
    KeyCdn "keycdn" "KeyCDN" Combined
        "https://www.keycdn.com/support/cdn-log-format" "Addresses are anonymized and don't verify agents. The host is that of the zone."
    AmazonS3 "amazon_s3" "Amazon S3 server access logs" Combined
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html"
        "The name of a website's bucket is its host. Operations other than `GET` and `HEAD` of objects are skipped."
    HerokuRouter "heroku_router" "Heroku router" Combined
        "https://devcenter.heroku.com/articles/http-routing"
        "Contains no user agent, so agents can't be recognized. Log requests in the app."
    Squid "squid" "Squid and Apache Traffic Server, native format" Combined
        "https://docs.trafficserver.apache.org/en/latest/admin-guide/logging/examples.en.html"
        "Contains no user agent, so agents can't be recognized. Use the combined format."
    Morgan "morgan" "Express (morgan), `dev`, `tiny` and `short`" Combined
        "https://github.com/expressjs/morgan"
        "Contains neither time nor user agent. Log JSON instead."
}
