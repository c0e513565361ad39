//! Identifies the bot and its response in reports by an edge or origin (docs/api/crawlers.md#columns). Pure.
//!
//! The result isn't part of a key, because two reports must match even if different editions of the bot table classified them.

use crate::request::raw_json::{RawObject, as_str};
use schemas::bots::{BotTable, Sender};
use schemas::crawler::Crawler;
use schemas::event::{EventType, SourceRole};
use schemas::log::LogEvent;
use serde_json::value::RawValue;
use std::str::FromStr;

/// Copies columns from the event's `data`. Skips agents' reports, which describe their own fetches instead of received requests.
pub(crate) fn promote(event: &mut LogEvent, bots: &BotTable) {
    let is_seen = matches!(event.source_role, Some(SourceRole::Edge | SourceRole::Origin | SourceRole::Index));
    if !is_seen || event.event_type != EventType::ContentRetrieved.as_str() {
        return;
    }
    let Some(data) = event.data.as_deref().and_then(|data| RawObject::parse(data.get()).ok()) else { return };
    event.crawler = crawler(&data, bots).known().map(Box::new);
}

fn crawler(data: &RawObject<'_>, bots: &BotTable) -> Crawler {
    let text = |name: &str| data.get(name).and_then(as_str).map(|text| Crawler::text(&text)).unwrap_or_default();
    let mut crawler = Crawler {
        response_status: number(data.get("response_status")),
        response_bytes: number(data.get("response_bytes")),
        cache_status: text("cache_status"),
        asn: number(data.get("asn")),
        country: text("country"),
        media_type: Crawler::media_type(&text("media_type")),
        ..Crawler::default()
    };
    let reported = |name: &str| data.get(name).and_then(as_str).filter(|text| !text.is_empty());
    let (user_agent, signature_agent) = (reported("user_agent"), reported("signature_agent"));
    let sender = Sender {
        user_agent: user_agent.as_deref().unwrap_or_default(),
        signature_agent: signature_agent.as_deref(),
        ..Sender::default()
    };
    let named = || reported("bot_name").and_then(|name| bots.classify_text(&name));
    if let Some(classified) = bots.classify(&sender).or_else(named) {
        crawler.put(&classified, bots.version());
        // Events don't contain addresses, so only the reporter knows whether an address was verified.
        crawler.verified = data.get("verified").and_then(|value| value.get().parse().ok());
    }
    crawler
}

/// Returns a number, also from a string; 0 for other values.
fn number<N: FromStr + Default>(value: Option<&RawValue>) -> N {
    let text = value.map(|value| as_str(value).unwrap_or_else(|| value.get().into()));
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::bots::Purpose;
    use schemas::event_key::EventKey;

    fn promoted(role: &str, event_type: &str, data: &str) -> Option<Crawler> {
        let text = format!(r#"{{"own_key":"{:032x}","type":"{event_type}","at_ms":0,"source_role":"{role}","data":{data}}}"#, 1);
        let mut event: LogEvent = serde_json::from_str(&text).unwrap();
        promote(&mut event, &BotTable::bundled());
        assert_eq!(event.own_key, EventKey(1));
        event.crawler.map(|crawler| *crawler)
    }

    #[test]
    fn stores_edge_bot_data_in_columns() {
        let data = r#"{"user_agent":"Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)","response_status":"200",
            "response_bytes":12,"asn":8075,"country":"US","media_type":"Text/HTML; charset=utf-8","cache_status":"HIT","verified":true}"#;
        let crawler = promoted("edge", "content_retrieved", data).unwrap();
        assert_eq!(
            (crawler.bot.as_str(), crawler.operator.as_str(), crawler.purpose),
            ("GPTBot", "OpenAI", Some(Purpose::Training))
        );
        assert_eq!((crawler.response_status, crawler.response_bytes, crawler.asn), (200, 12, 8075));
        assert_eq!(
            (crawler.media_type.as_str(), crawler.cache_status.as_str(), crawler.country.as_str()),
            ("text/html", "HIT", "US")
        );
        assert_eq!(crawler.verified, Some(true));
        assert!(!crawler.bots_version.is_empty());
        assert_eq!(promoted("origin", "content_retrieved", r#"{"bot_name":"ClaudeBot"}"#).unwrap().operator, "Anthropic");
    }

    #[test]
    fn prefers_user_agent_then_signature_agent_then_name() {
        let browser = r#""user_agent":"Mozilla/5.0 (Windows NT 10.0) Firefox/130.0""#;
        let signed = r#""signature_agent":"\"https://chatgpt.com\"""#;
        for (data, bot) in [
            (format!("{{{browser},{signed}}}"), "ChatGPT-Agent"),
            (format!("{{{signed},\"bot_name\":\"GPTBot\"}}"), "ChatGPT-Agent"),
            (format!("{{{browser},\"bot_name\":\"GPTBot\"}}"), "GPTBot"),
            (format!("{{\"user_agent\":\"CCBot/2.0\",{signed},\"bot_name\":\"GPTBot\"}}"), "CCBot"),
        ] {
            assert_eq!(promoted("edge", "content_retrieved", &data).unwrap().bot, bot, "{data}");
        }
    }

    #[test]
    fn data_without_a_bot_is_ignored() {
        for (role, event_type, data) in [
            ("agent", "content_retrieved", r#"{"user_agent":"GPTBot/1.2"}"#),
            ("edge", "content_engaged", r#"{"user_agent":"GPTBot/1.2"}"#),
            ("edge", "content_retrieved", r#"{"user_agent":"Mozilla/5.0 (Windows NT 10.0) Firefox/130.0","verified":true}"#),
            ("edge", "content_retrieved", r#"{"response_status":-1,"asn":1.5,"response_bytes":[1],"verified":"yes"}"#),
        ] {
            assert_eq!(promoted(role, event_type, data), None, "{role} {event_type} {data}");
        }
    }
}
