//! Azure Front Door, Standard and Premium: `FrontDoorAccessLog`, one record per line or in Event Hubs batches.

use super::super::json_fields::{FieldMap, FieldMapping, Node, fields};
use super::super::line_fields::{Field, Fields};
use super::{FormatId, NoRequest, put_url_host};
use serde::Deserialize;
use serde_json::value::RawValue;

const ACCESS_LOG: &str = "FrontDoorAccessLog";
/// Application Gateway's access log, which has another format.
const GATEWAY_LOG: &str = "ApplicationGatewayAccessLog";

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let mut fields = fields(line, NAMES)?;
    // Health probe and firewall logs have the same structure.
    if let Some(category) = fields.get(Field::Kind).filter(|category| !category.eq_ignore_ascii_case(ACCESS_LOG)) {
        let is_of_gateway = category.eq_ignore_ascii_case(GATEWAY_LOG);
        return Err(if is_of_gateway { NoRequest::Bad("bad_category") } else { NoRequest::Other });
    }
    // Front Door builds the URL itself.
    put_url_host(Field::Host, &mut fields);
    // The client's address can come from `X-Forwarded-For`, so only the connection's address can verify an agent.
    if fields.get(Field::Connection).is_none() {
        fields.take(Field::Address);
    }
    fields.format = Some(FormatId::AzureFrontDoor);
    Ok(fields)
}

/// Returns a batch's lines: the elements of an object's `records` array. Only Azure writes members of the outermost object, and lines
/// within lines are ignored.
pub(in super::super) fn records_in(line: &[u8]) -> Option<Vec<&RawValue>> {
    #[derive(Deserialize)]
    struct Batch<'a> {
        #[serde(borrow)]
        records: Vec<&'a RawValue>,
    }
    serde_json::from_slice(line).ok().map(|Batch { records }| records)
}

pub(super) const NAMES: FieldMap = |node, name| match (node, name) {
    (Node::Root, "time") => FieldMapping::is(Field::Time),
    (Node::Root, "category") => FieldMapping::is(Field::Kind),
    (Node::Root, "properties") => FieldMapping::into(Node::Inner),
    (Node::Inner, name) => property(name).map_or(FieldMapping::NONE, FieldMapping::is),
    _ => FieldMapping::NONE,
};

fn property(name: &str) -> Option<Field> {
    Some(match name {
        "trackingReference" => Field::RequestId,
        "httpMethod" => Field::Method,
        "requestUri" => Field::Path,
        "hostName" => Field::Host,
        "userAgent" => Field::UserAgent,
        "clientIp" => Field::Address,
        "socketIp" => Field::Connection,
        "httpStatusCode" => Field::Status,
        "responseBytes" => Field::Bytes,
        "cacheStatus" => Field::Cache,
        // `false` for the origin shield's line, which repeats the edge's line.
        "isReceivedFromClient" => Field::IsEdge,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::line_processor::LineOutcome;
    use super::super::outcomes;
    use super::*;

    /// Returns each line's page, or the reason why it has none.
    fn read(log: &str) -> Vec<String> {
        let outcome = |outcome| match outcome {
            LineOutcome::Kept(event) => event.content_url.unwrap().replace("https://www.example.com", ""),
            LineOutcome::Bad(reason) | LineOutcome::Dropped(reason) => reason.to_owned(),
            other => panic!("{log}: {other:?}"),
        };
        outcomes(FormatId::AzureFrontDoor.row(), None, log).into_iter().map(|line| outcome(line.outcome)).collect()
    }

    fn line(page: &str) -> String {
        FormatId::AzureFrontDoor.row().sample.trim_end().replace("/article?page=2", page)
    }

    #[test]
    fn reads_lines_batches_and_arrays_of_batches() {
        let [a, b] = ["/a", "/b"].map(line);
        let batch: serde_json::Value = serde_json::from_str(&format!(r#"{{"records":[{a},{b}]}}"#)).unwrap();
        for log in [
            format!("{a}\r\n{b}\r\n"),
            batch.to_string(),
            serde_json::to_string_pretty(&batch).unwrap(),
            format!(r#"{{"records":[{a}]}}{{"records":[{b}]}}"#),
            format!(r#"[{{"records":[{a}]}},{{"records":[]}},{{"records":[{b}]}}]"#),
            format!(r#"[{a},{{"records":[{b}]}}]"#),
        ] {
            assert_eq!(read(&log), ["/a", "/b"], "{log}");
        }
    }

    #[test]
    fn unwraps_records_only_in_the_outermost_object() {
        let a = line("/a");
        let text = serde_json::to_string(&format!(r#""}}}}{{"records":[{a}]}}"#)).unwrap();
        let of_visitor = a.replace(r#"gptbot)""#, &format!("gptbot){}", &text[1..]));
        assert_ne!(of_visitor, a);
        assert_eq!(read(&of_visitor), ["/a"]);
        assert_eq!(read(&format!(r#"{{"records":[{of_visitor}]}}"#)), ["/a"]);
        let both = a.replacen('{', &format!(r#"{{"records":[{}],"#, line("/b")), 1);
        assert_eq!(read(&both), ["/a"], "a line is not a batch");
        for none in [
            format!(r#"{{"records":[{{"records":[{a}]}}]}}"#),
            format!(r#"{{"properties":{{"records":[{a}]}}}}"#),
            format!(r#"{{"records":[{a}],"records":[{a}]}}"#),
            format!(r#"{{"records":{{"records":[{a}]}}}}"#),
            format!(r#"{{"records":[[{a}]]}}"#),
            format!(r#"{{"records":[{text}]}}"#),
        ] {
            let outcomes = read(&none);
            assert!(outcomes.len() == 1 && !outcomes[0].starts_with('/'), "{none}: {outcomes:?}");
        }
    }

    #[test]
    fn skips_other_logs_and_origin_shield_lines() {
        let line = line("/a");
        for (written, instead, expected) in [
            (ACCESS_LOG, "FrontdoorAccessLog", "/a"),
            (ACCESS_LOG, "FrontDoorHealthProbeLog", "no_request"),
            (ACCESS_LOG, GATEWAY_LOG, "bad_category"),
            (ACCESS_LOG, "FrontDoorWebApplicationFirewallLog", "no_request"),
            (r#""category""#, r#""x""#, "/a"),
            (r#""isReceivedFromClient":true"#, r#""isReceivedFromClient":false"#, "subrequest"),
            (r#","hostName":"www.example.com""#, "", "/a"),
            ("requestUri", "x", "no_path"),
            (r#""properties""#, r#""x""#, "no_user_agent"),
        ] {
            let log = line.replace(written, instead);
            assert_ne!(log, line);
            assert_eq!(read(&log), [expected], "{log}");
        }
    }

    #[test]
    fn does_not_keep_address_referer_or_country() {
        let planted =
            r#""clientIp":"203.0.113.77","referer":"https://planted.test/","clientCountry":"Planted","sni":"planted.test""#;
        let log = line("/a").replace(r#""clientIp":"132.196.86.7""#, planted);
        let [kept] = <[_; 1]>::try_from(outcomes(FormatId::AzureFrontDoor.row(), None, &log)).ok().unwrap();
        let LineOutcome::Kept(event) = kept.outcome else { panic!("{:?}", kept.outcome) };
        let event = serde_json::to_string(&*event).unwrap();
        for private in ["203.0.113.77", "132.196.86.7", "lanted"] {
            assert!(!event.contains(private), "{event}");
        }
    }
}
