//! Log lines in which visitors' text contains forged addresses, hosts or requests.

use super::dry_run::DryLine;
use super::format_table::FormatId;
use super::formats::outcomes;
use super::line_processor::LineOutcome;
use schemas::log::LogEvent;
use std::collections::HashSet;

const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
/// The bot's address in the samples, and another address.
const OF_BOT: &str = "132.196.86.7";
const OF_OTHER: &str = "203.0.113.5";
const AT: &str = "[01/Nov/2026:10:00:00 +0000]";

/// Returns the events in a log of which every line is kept.
fn kept(format: FormatId, host: Option<&str>, log: &str) -> Vec<LogEvent> {
    let event = |DryLine { outcome, .. }| match outcome {
        LineOutcome::Kept(event) => *event,
        other => panic!("{log}: {other:?}"),
    };
    outcomes(format.row(), host, log).into_iter().map(event).collect()
}

fn verified(format: FormatId, log: &str) -> Option<bool> {
    let [event] = <[LogEvent; 1]>::try_from(kept(format, Some("www.a.test"), log)).unwrap();
    event.crawler.unwrap().verified
}

/// Returns a combined line with this text before the time.
fn combined(before: &str) -> String {
    format!("{before} {AT} \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"")
}

/// Servers can log `X-Forwarded-For` before the time, and without a proxy, visitors choose all of it.
#[test]
fn f56_forwarded_header_before_the_time_does_not_verify() {
    let traefik = |before: &str| format!("{} 262 \"a\" \"b\" 2ms", combined(before));
    for sent in ["-,", "- -,", "x,", "- a b,", "\"-\",", "[x],"] {
        for before in ["", "www.a.test:443 "] {
            let before = format!("{before}{OF_BOT} {sent} {OF_OTHER}");
            for line in [combined(&format!("{before} - -")), combined(&format!("{before} 10.0.0.1 - -"))] {
                assert_ne!(verified(FormatId::Combined, &line), Some(true), "{line}");
            }
            let line = traefik(&format!("{before} - -"));
            assert_ne!(verified(FormatId::TraefikClf, &line), Some(true), "{line}");
        }
    }
    for before in [
        format!("\"x, {OF_BOT} \\\" - \" {OF_OTHER} - -"),
        format!("\"{OF_BOT} \\\" - {OF_OTHER}\" - -"),
        format!("{OF_BOT}, 172.18.0.1 - -"),
        format!("{OF_BOT},172.18.0.1 10.0.0.1 - -"),
        format!("\"{OF_BOT}, 172.18.0.1\" 10.0.0.1 - -"),
        format!("{OF_BOT}, unknown - -"),
        format!("{OF_BOT}, {OF_OTHER} 10.0.0.1 - -"),
        // A user name, which visitors can choose.
        format!("{OF_OTHER} {OF_BOT}"),
        // The connection's address, then a forwarded header or the requested host.
        format!("{OF_OTHER} {OF_BOT} - -"),
        format!("{OF_OTHER} \"{OF_BOT}\" - -"),
        format!("{OF_OTHER}:1234 {OF_BOT} - -"),
        format!("www.a.test:443 {OF_OTHER} {OF_BOT} a b"),
        // Behind Docker's network, the connection's address is private.
        format!("{OF_BOT} 172.18.0.1 - -"),
        format!("10.0.0.1 {OF_BOT} - -"),
        format!("10.0.0.1:80 {OF_BOT} - -"),
        format!("unix: {OF_BOT} - -"),
        format!("{OF_BOT} 172.18.0.1"),
        format!("- {OF_BOT}"),
        format!("- {OF_BOT} 10.0.0.1 - -"),
        format!("{OF_OTHER}, {OF_BOT} - -"),
        format!("{OF_OTHER}, {OF_BOT} 10.0.0.1 - -"),
        format!("\"{OF_OTHER}, {OF_BOT}\" 10.0.0.1 - -"),
        format!("unknown, {OF_BOT} - -"),
        format!("www.a.test:443 {OF_OTHER}, {OF_BOT} 10.0.0.1 - -"),
        format!("www.a.test:443 10.0.0.1 {OF_BOT} - -"),
    ] {
        assert_eq!(verified(FormatId::Combined, &combined(&before)), None, "{before}");
    }
    for before in
        [format!("{OF_BOT} - -"), format!("{OF_BOT} - user"), format!("- {OF_BOT} - -"), format!("www.a.test:443 {OF_BOT} - -")]
    {
        assert_eq!(verified(FormatId::Combined, &combined(&before)), Some(true), "{before}");
    }
}

/// Traefik, Caddy, Fastly's default format and Azure Front Door log a header as the client.
#[test]
fn f56_client_address_in_a_header_does_not_verify() {
    let traefik = FormatId::TraefikJson.row().sample.replace("\"132.196.86.7:63261\"", "\"203.0.113.5:63261\"");
    let caddy = FormatId::Caddy.row().sample.replace("\"remote_ip\":\"132.196.86.7\"", "\"remote_ip\":\"203.0.113.5\"");
    let of_fastly = FormatId::Fastly.row().sample;
    let fastly = ["fastly_server", "service_id"].map(|name| of_fastly.replacen('{', &format!("{{\"{name}\":\"cache-fra1\","), 1));
    let [fastly, older_fastly] = fastly;
    // Members that a visitor adds in `Fastly-Client-IP`.
    let added = "\"132.196.86.7\",\"content_telemetry_id\":\"\",\"response_status\":\"200\"";
    let of_default = of_fastly.replace(",\"content_telemetry_id\":\"\"", "").replace("\"response_status\":200,", "");
    let completed = of_default.replace("\"132.196.86.7\"", added);
    let traefik_without_connection = FormatId::TraefikJson.row().sample.replace("\"ClientAddr\"", "\"x\"");
    let caddy_without_connection = FormatId::Caddy.row().sample.replace("\"remote_ip\"", "\"x\"");
    let azure = FormatId::AzureFrontDoor.row().sample;
    let proxied = azure.replace("\"socketIp\":\"132.196.86.7\"", "\"socketIp\":\"203.0.113.5\"");
    let unproven = azure.replace("\"socketIp\"", "\"x\"");
    for (format, log) in [
        (FormatId::TraefikJson, traefik),
        (FormatId::Caddy, caddy),
        (FormatId::Fastly, fastly),
        (FormatId::Fastly, older_fastly),
        (FormatId::Fastly, of_fastly.replace("content_telemetry_id", "x")),
        (FormatId::Fastly, completed),
        (FormatId::TraefikJson, traefik_without_connection),
        (FormatId::Caddy, caddy_without_connection),
        (FormatId::AzureFrontDoor, proxied),
        (FormatId::AzureFrontDoor, unproven),
    ] {
        assert_ne!(log, format.row().sample);
        assert_eq!(verified(format, &log), None, "{log}");
        assert_eq!(verified(format, format.row().sample), Some(true));
    }
}

/// Fastly's default format doesn't escape `Fastly-Client-IP`, so visitors can add members before Fastly's own.
#[test]
fn f59_rejects_lines_with_repeated_json_members() {
    for format in
        [FormatId::Fastly, FormatId::Json, FormatId::Caddy, FormatId::Cloudflare, FormatId::Vercel, FormatId::AzureFrontDoor]
    {
        let sample = format.row().sample;
        assert!(outcomes(format.row(), None, sample).iter().all(|line| !matches!(line.outcome, LineOutcome::Bad(_))), "{sample}");
        let object: serde_json::Value = serde_json::from_str(sample.lines().next().unwrap()).unwrap();
        let named = ["host", "url", "client_ip", "request", "ClientRequestHost", "proxy", "properties"];
        for (name, value) in object.as_object().unwrap().iter().filter(|(name, _)| named.contains(&name.as_str())) {
            let added = format!("{{\"x\":\"\",{}:{value},", serde_json::json!(name));
            let log = sample.replacen('{', &added, 1);
            let lines = outcomes(format.row(), None, &log);
            assert!(matches!(lines[0].outcome, LineOutcome::Bad("repeated_member")), "{log}: {:?}", lines[0].outcome);
        }
    }
}

/// nginx accepts a host with `|` and logs it unchanged.
#[test]
fn f56_host_with_bunny_separators_does_not_verify() {
    let host = format!("HIT|200|1793527200000|10|1|{OF_BOT}|-");
    let agent = format!("{BOT}|https://victim.test/x|DE|GPTBot/1.0|abc|DE|x|y|z");
    for before in [format!("{host} {OF_OTHER} - -"), format!("{host} - {OF_OTHER} -")] {
        let line = format!("{before} {AT} \"GET /a HTTP/1.1\" 200 10 \"-\" \"{agent}\"");
        let [line] = <[DryLine; 1]>::try_from(outcomes(FormatId::Combined.row(), Some("www.a.test"), &line)).ok().unwrap();
        assert!(matches!(line.outcome, LineOutcome::Bad("wrong_columns")), "{:?}", line.outcome);
    }
}

/// A server serves its own site, whatever host the request line contains.
#[test]
fn f57_hosts_in_request_lines_do_not_forge_or_hide_fetches() {
    for target in [
        "http://victim.test/a",
        "HTTPS://victim.test/a",
        "http://www.a.test@victim.test/a",
        "http://victim.test:80/a",
        "http://203.0.113.5/a",
        "http:///a",
        "http://victim.test\\@x/a",
    ] {
        let rest = format!("{AT} \"GET {target} HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
        let json = serde_json::json!({"time_local": "01/Nov/2026:10:00:00 +0000", "host": "www.a.test", "status": 200,
            "request": format!("GET {target} HTTP/1.1"), "http_user_agent": BOT});
        for (format, host, log) in [
            (FormatId::Combined, Some("www.a.test"), format!("{OF_BOT} - - {rest}")),
            (FormatId::Combined, None, format!("www.a.test {OF_BOT} - - {rest}")),
            (FormatId::Json, None, json.to_string()),
        ] {
            for event in kept(format, host, &log) {
                let url = event.content_url.unwrap();
                assert_eq!(url.split_once("://").unwrap().1, "www.a.test/a", "{log}");
            }
        }
    }
    let named = combined(&format!("{OF_BOT} - -")).replace("/a", "http://www.b.test/a");
    assert_eq!(kept(FormatId::Combined, None, &named)[0].content_url.as_deref(), Some("http://www.b.test/a"), "the only host");
}

/// Text before the time is a host only in the host's place, and an invalid port doesn't hide a fetch.
#[test]
fn f57_forwarded_names_and_bad_ports_do_not_change_the_host() {
    for before in [
        format!("evil.test:1, {OF_OTHER} - -"),
        format!("evil.test:x {OF_OTHER} - -"),
        format!("{OF_OTHER} evil.test"),
        format!("{OF_OTHER} evil.test, {OF_OTHER} -"),
    ] {
        let events = kept(FormatId::Combined, Some("www.a.test"), &combined(&before));
        assert_eq!(events[0].content_url.as_deref(), Some("https://www.a.test/a"), "{before}");
    }
    let quoted = combined(&format!("{OF_BOT} - -")).replace("\"GET", "\"www.a.test\" \"GET");
    assert_eq!(kept(FormatId::Combined, Some("www.a.test"), &quoted)[0].content_url.as_deref(), Some("https://www.a.test/a"));
    for port in ["99999", "x", ""] {
        let log = FormatId::Json.row().sample.replace("www.example.com", &format!("www.example.com:{port}"));
        let events = kept(FormatId::Json, None, &log);
        assert_eq!(events[0].content_url.as_deref(), Some("https://www.example.com/article?page=2"), "{log}");
    }
}

/// Without request ids, a copy of an agent's request must not replace the agent's own.
#[test]
fn f58_copied_requests_do_not_hide_the_agents_fetch() {
    let line = |address: &str| combined(&format!("{address} - -"));
    for more in ["", " \"-\"", " \"-\" \"0.001\" \"0.001\"", " \"-\" \"-\" \"constant\""] {
        let log = [OF_OTHER, OF_BOT, "198.51.100.9"].map(|address| format!("{}{more}", line(address))).join("\n");
        let events = kept(FormatId::Combined, Some("www.a.test"), &log);
        let ids: HashSet<_> = events.iter().map(|event| event.id.clone()).collect();
        assert_eq!(ids.len(), 2, "{more}: the copies count once, apart from the agent's own request");
    }
}

/// nginx often logs `"$http_x_forwarded_for" "$request_time" "$upstream_response_time"` after the user agent.
#[test]
fn f58_durations_are_not_request_ids() {
    let line = |bot: &str, bytes: u32| {
        format!("{OF_OTHER} - - {AT} \"GET /a HTTP/1.1\" 200 {bytes} \"-\" \"{bot}\" \"-\" \"0.001\" \"0.001\"")
    };
    let log = [line(BOT, 10), line("ClaudeBot/1.0", 10), line(BOT, 20)].join("\n");
    let ids: HashSet<_> = kept(FormatId::Combined, Some("www.a.test"), &log).into_iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), 3);
}

/// A server can log a header under a name that is just as common for addresses as its own.
#[test]
fn f60_second_address_in_a_line_does_not_verify() {
    let sample = FormatId::Json.row().sample;
    for name in ["remote_addr", "remote_ip", "remote", "ip", "client"] {
        let [same, with_port, other] = [OF_BOT, "132.196.86.7:4711", OF_OTHER].map(|address| {
            let added = format!("{{\"{name}\":\"{address}\",");
            [sample.replacen('{', &added, 1), sample.trim_end().replace("}", &format!(",{}}}", &added[1..added.len() - 1]))]
        });
        for log in same.into_iter().chain(with_port) {
            assert_eq!(verified(FormatId::Json, &log), Some(true), "{log}");
        }
        for log in other {
            assert_eq!(verified(FormatId::Json, &log), None, "{log}");
        }
    }
}

/// `Fastly-Client-IP` precedes most of Fastly's members, isn't escaped, and a field can have several names.
#[test]
fn f61_similar_fastly_member_names_do_not_forge_fields() {
    let sample = FormatId::Fastly.row().sample.replacen('{', "{\"fastly_server\":\"cache-fra1\",", 1);
    assert_eq!(kept(FormatId::Fastly, None, &sample).len(), 1);
    // Customers' formats don't escape every value either.
    let samples = [sample.as_str(), FormatId::Fastly.row().sample];
    for added in [
        "\"server_name\":\"victim.test\"",
        "\"http_host\":\"victim.test\"",
        "\"time_start\":\"2026-10-01T10:00:00Z\"",
        "\"request_uri\":\"/x\"",
        "\"\\u0072equest_uri\":\"/x\"",
        "\"method\":\"POST\"",
        "\"agent\":\"curl/8\"",
        "\"status\":\"404\"",
        "\"request\":\"GET /x HTTP/1.1\"",
        "\"httpRequest\":{\"status\":404}",
        "\"request\":{\"uri\":\"/x\"},\"logger\":\"x\"",
    ] {
        for sample in samples {
            let log = sample.replacen('{', &format!("{{\"x\":\"\",{added},"), 1);
            let lines = outcomes(FormatId::Fastly.row(), None, &log);
            assert!(matches!(lines[0].outcome, LineOutcome::Bad("repeated_member")), "{log}: {:?}", lines[0].outcome);
        }
    }
    for added in [
        "\"time_start\":\"2026-11-01T09:59:59Z\",\"time\":1793527201",
        "\"path\":\"/article\",\"uri\":\"https://www.example.com/article\"",
        "\"request\":\"GET\",\"response\":\"OK\"",
        "\"request\":\"GET /article?page=2 HTTP/1.1\"",
        "\"status\":\"200\",\"http_host\":\"www.example.com\"",
    ] {
        let log = FormatId::Fastly.row().sample.trim_end().replace("}", &format!(",{added}}}"));
        assert_eq!(kept(FormatId::Fastly, None, &log).len(), 1, "{log}");
    }
}

/// A server can log two headers after the user agent, such as `X-Forwarded-For` and `X-Real-IP`.
#[test]
fn f62_headers_after_the_user_agent_do_not_change_the_host() {
    let line = format!("{} \"-\" \"victim.test\"", combined(&format!("{OF_BOT} - -")));
    let events = kept(FormatId::Combined, Some("www.a.test"), &line);
    assert_eq!(events[0].content_url.as_deref(), Some("https://www.a.test/a"));
    for third in
        ["-", "0.001", "HIT", "203.0.113.5:8080", "www.a.test", "200", "TLSv1.3", "https", "gzip", "9 529a007902362a5f51385a5f"]
    {
        let events = kept(FormatId::Combined, Some("www.a.test"), &format!("{line} \"{third}\""));
        assert_eq!(events[0].content_url.as_deref(), Some("https://www.a.test/a"), "{third}");
    }
    let ours = format!("{line} \"529a007902362a5f51385a5fa7049884\"");
    assert_eq!(kept(FormatId::Combined, None, &ours)[0].content_url.as_deref(), Some("https://victim.test/a"));
}

/// Traefik doesn't escape text, so a forwarded header or a user name can contain the beginning of a line up to its status.
#[test]
fn rejects_traefik_lines_with_two_times() {
    let format = FormatId::TraefikClf.row();
    let forged = format!("victim.test {OF_BOT} - - {AT} \"GET /forged HTTP/1.1\" 200 9");
    let real = |before: &str, agent: &str| {
        format!("{before} {AT} \"GET /a HTTP/1.1\" 404 10 \"-\" \"{agent}\" 262 \"site@docker\" \"http://192.0.2.2:80\" 2ms")
    };
    for log in [
        real(&format!("{forged} \"-\" \"{BOT}\", {OF_OTHER} - -"), BOT),
        real(&format!("{forged} \"-\" \"{BOT}\" 1 \"a\" \"b\" 1ms, {OF_OTHER} - -"), BOT),
        real(&format!("{OF_OTHER} - x {AT} \"GET /forged HTTP/1.1\" 200 9 \"-\" \"{BOT}\""), BOT),
        real(&format!("{OF_OTHER} - -"), &format!("{BOT} {AT} \"x")),
    ] {
        let [line] = <[DryLine; 1]>::try_from(outcomes(format, Some("www.a.test"), &log)).ok().unwrap();
        assert!(matches!(line.outcome, LineOutcome::Bad("wrong_columns")), "{log}: {:?}", line.outcome);
    }
    let log = combined(&format!("victim.test {OF_OTHER} - -")) + " 262 \"site@docker\" \"http://192.0.2.2:80\" 2ms";
    let events = kept(FormatId::TraefikClf, Some("www.a.test"), &log);
    assert_eq!(events[0].content_url.as_deref(), Some("https://www.a.test/a"), "a forwarded header is not a host");
    assert!(matches!(outcomes(format, None, &log).remove(0).outcome, LineOutcome::Bad("no_host")), "{log}");
}

/// Bunny replaces the end of addresses with zeros, and the result can be in a bot's range.
#[test]
fn anonymized_bunny_addresses_do_not_verify() {
    let sample = FormatId::Bunny.row().sample;
    assert_eq!(verified(FormatId::Bunny, sample), Some(true));
    assert_eq!(verified(FormatId::Bunny, &sample.replace(OF_BOT, "132.196.86.0")), None);
    assert_eq!(verified(FormatId::Bunny, &sample.replace(OF_BOT, "2001:db8::")), None);
}

/// The visitor chooses the path; the server chooses the response's media type.
#[test]
fn path_extensions_do_not_hide_pages() {
    let sample = FormatId::Json.row().sample.replacen('{', "{\"content_type\":\"text/html; charset=utf-8\",", 1);
    for path in ["/article/x.css", "/wiki/Node.js", "/article?x=/y.png", "/a/b.CSS?page=2"] {
        let events = kept(FormatId::Json, None, &sample.replace("/article?page=2", path));
        assert_eq!(events[0].content_url, Some(format!("https://www.example.com{path}")));
    }
    let of = |log: &str| outcomes(FormatId::Json.row(), None, log).remove(0).outcome;
    let style = sample.replace("/article?page=2", "/x.css");
    assert!(matches!(of(&style.replace("text/html", "text/css")), LineOutcome::Dropped("asset")));
    assert!(matches!(of(&style.replace("text/html", "")), LineOutcome::Dropped("asset")));
    let missing = style.replace("200", "404");
    assert_ne!(missing, style);
    assert!(matches!(of(&missing), LineOutcome::Dropped("asset")), "the media type describes the error page");
}

/// Caddy logs the media type by default; Traefik does so if configured.
#[test]
fn reads_the_servers_media_types() {
    for (format, added) in [
        (FormatId::Caddy, "\"resp_headers\":{\"Content-Type\":[\"text/html; charset=utf-8\"]}"),
        (FormatId::TraefikJson, "\"downstream_Content-Type\":\"text/html\""),
        (FormatId::Ecs, "\"http.response.mime_type\":\"text/html\""),
    ] {
        let sample = format.row().sample.replace("\"resp_headers\":{\"Server\":[\"Caddy\"]}", "\"x\":1");
        let log = sample.replacen('{', &format!("{{{added},"), 1).replace("/article", "/article.css");
        let events = kept(format, None, &log);
        assert_eq!(events[0].crawler.as_deref().unwrap().media_type, "text/html", "{log}");
    }
}

/// Caddy logs every value of a header.
#[test]
fn user_agents_do_not_hide_other_requests() {
    let sample = FormatId::Caddy.row().sample;
    let with = |values: &str| sample.replace(&format!("[\"{BOT}\"]"), values);
    for values in [
        "[\"\",\"GPTBot/1.2\"]",
        "[\"-\",\"\",\"GPTBot/1.2\"]",
        "[\"Mozilla/5.0 Firefox/130.0\",\"GPTBot/1.2\"]",
        "[null,\"GPTBot/1.2\"]",
    ] {
        let log = with(values);
        assert_ne!(log, sample);
        let events = kept(FormatId::Caddy, None, &log);
        assert_eq!(events[0].crawler.as_deref().unwrap().bot, "GPTBot", "{values}");
    }
    for values in ["[]", "[\"\"]", "[\"\",\"\"]", "[\"\",\"Mozilla/5.0 Firefox/130.0\"]"] {
        let outcome = outcomes(FormatId::Caddy.row(), None, &with(values)).remove(0).outcome;
        assert!(matches!(outcome, LineOutcome::Person), "{values}: {outcome:?}");
    }
}
