//! What nobody should send: values, parameters, path segments and headers.
//!
//! Must be text only: who mixes them in is `shots` and `body`.

/// JSON that may stand where any value stands, as text: some of it no library would write.
#[rustfmt::skip]
pub(super) const VALUES: &[&str] = &[
    "null", "true", "false", "0", "-1", "1.5", "1e400", "-0", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "0.1000000000000000055511151231257827", "[]", "{}", "[[]]", "[null]", "[{}]", r#"{"a":1}"#, r#""""#,
    r#"" ""#, r#""\u0000""#, r#""a\u0000b""#, r#""\ud800""#, r#""\udc00\ud800""#, r#""\ud83d\ude00""#, r#""\u202e""#,
    r#""\r\nBcc: x@y.test""#, r#""\u001b[31m""#, r#""' OR 1=1 --""#, r#""%00""#, r#""../../etc/passwd""#, r#""{{7*7}}""#,
    r#""00000000-0000-0000-0000-000000000000""#, r#""urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8""#,
    r#""{67e55044-10b1-426f-9247-bb680e5fe0c8}""#, r#""67E5504410B1426F9247BB680E5FE0C8""#, r#""9999-12-31T23:59:60Z""#,
    r#""2026-01-01T00:00:00""#, r#""0000-01-01T00:00:00Z""#, r#""2026-11-01 10:00:00Z""#, r#""http://[::1]/""#, r#""https://""#,
    r#""javascript:alert(1)""#, r#""https://user:pass@example.com./a?ctx=1#b""#, r#""xn--""#, r#""*.example.com""#, r#""com""#,
    r#""a@b""#, r#""a@b@c""#, r#""é@example.com""#, r#""\u00ad""#, r#""ﬀ""#, r#""svc_pk_x""#, r#""ctx_x""#,
    r#""content_displayed""#, r#""telemetry:*""#, r#""owner""#, r#""2026-11-01T10:00:00Z""#, r#""example.com""#,
];

/// Query values (limits, offsets, periods, names).
#[rustfmt::skip]
pub(super) const PARAMETERS: &[&str] = &[
    "", "0", "-1", "1", "1000", "1001", "1000000000", "9223372036854775808", "18446744073709551616", "1.5", "%2B1", "+1", "%201",
    "0x10", "%EF%BC%91", "1e3", "null", "true", "%00", "%", "%zz", "%ff", "%ed%a0%80", "a%26b", "a=b", "..", "'", "%27%20OR%201=1",
    "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+05:00", "2026-01-01T00:00:00%2B05:00", "2026-13-01", "9999-12-31",
    "0000-01-01", "10000-01-01", "2016-12-31T23:59:60Z", "2026-01-01T00:00:00.123456789123Z", "yesterday", "1700000000",
    "EXAMPLE.COM.", "example.org", "b.test%00", "a.test,b.test", "*.example.com", "%25", "_", "com", "xn--a", "https://example.com/",
    "https%3A%2F%2Fexample.com%2F", "http://[::1]/", "67e55044-10b1-426f-9247-bb680e5fe0c8", "%7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D",
    "00000000-0000-0000-0000-000000000000", "grantor", "GRANTEE", "pending", "%F0%9F%98%80", "\\'",
];

#[rustfmt::skip]
pub(super) const SEGMENTS: &[&str] = &[
    "abc", "%00", "..", "%2e%2e", "%2F", "%2e%2e%2f", ".", "%", "%zz", "%ff", "00000000-0000-0000-0000-000000000000",
    "%7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D", "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8", "67E5504410B1426F9247BB680E5FE0C8",
    "-1", "%20", "%0d%0a", "'", "*", ";a=b", "a+b", "%E2%80%AE", "{id}", "%EF%BC%8F", "%C0%AF",
];

/// Header names with values that a request may carry besides its own.
#[rustfmt::skip]
pub(super) const HEADERS: &[(&str, &[u8])] = &[
    ("x-api-key", b""), ("x-api-key", b"svc_pk_"), ("x-api-key", b"a, b"), ("x-api-key", b"\xff\xfe"), ("authorization", b"Bearer"),
    ("authorization", b"Bearer x"), ("authorization", b"Basic YTpi"), ("authorization", b"bearer \xff"), ("cookie", b"telemetry-session=x"),
    ("cookie", b"__Host-telemetry-session=x; __Host-telemetry-session=y"), ("cookie", b"=;;;=\xff"), ("origin", b"https://evil.test"), ("origin", b"null"),
    ("sec-fetch-site", b"cross-site"), ("content-type", b"text/plain"), ("content-type", b"application/json; charset=utf-16"),
    ("content-type", b"application/x-www-form-urlencoded"), ("content-type", b"application/problem+json"), ("content-type", b"\xff"),
    ("content-encoding", b"gzip"), ("content-encoding", b"br"), ("content-encoding", b"zstd"), ("content-encoding", b"deflate"),
    ("content-encoding", b"gzip, gzip"), ("content-encoding", b"identity"), ("content-encoding", b"lzma"), ("content-encoding", b""),
    ("accept", b"text/html"), ("accept", b"application/x-ndjson"), ("accept", b"text/csv"), ("accept", b";q=\xff"),
    ("accept-encoding", b"gzip, br;q=0"), ("x-request-id", b"a\tb"), ("x-request-id", b"ok-1"), ("idempotency-key", b""),
    ("idempotency-key", b"same"), ("idempotency-key", b"\xff"), ("x-forwarded-for", b"1.2.3.4, 5.6.7.8"), ("forwarded", b"for=_x"),
    ("x-http-method-override", b"DELETE"), ("range", b"bytes=0-1"), ("if-match", b"*"), ("host", b"evil.test"), ("te", b"trailers"),
];

/// Methods that a path may not have.
#[rustfmt::skip]
pub(super) const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X"];
