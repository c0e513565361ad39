//! Akamai `DataStream` 2: JSON lines, or the values below separated by spaces. Values are percent-encoded.

use super::super::json_fields::{FieldMap, FieldMapping, Node, fields};
use super::super::line_fields::{Field, Fields, Reason, address_in, is_country, is_placeholder};
use super::{FormatId, NoRequest, unescaped};
use std::borrow::Cow;

/// Space-separated values, in order; `None` for unused ones.
const ORDER: [Option<Field>; 18] = [
    None, // version
    Some(Field::RequestId),
    Some(Field::Time),
    Some(Field::Address),
    Some(Field::Host),
    Some(Field::Path),
    Some(Field::Query),
    Some(Field::Method),
    None, // protocol
    Some(Field::Status),
    Some(Field::Bytes),
    Some(Field::UserAgent),
    None, // referer
    Some(Field::Cache),
    Some(Field::Country),
    Some(Field::Asn),
    Some(Field::MediaType),
    Some(Field::Headers),
];
pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let mut fields = if line.starts_with('{') { of_json(line)? } else { between_spaces(line)? };
    // A plus means a space, unless spaces are escaped too.
    fields.rewrite(Field::UserAgent, |text| (text.contains('+') && !text.contains("%20")).then(|| text.replace('+', " ")));
    // Paths and queries are not decoded, because escapes are part of a URL.
    fields.rewrite(Field::UserAgent, unescaped);
    fields.rewrite(Field::Path, |path| (!path.starts_with('/')).then(|| format!("/{path}")));
    Ok(fields)
}

/// DataStream omits empty members, so a missing user agent is empty or isn't logged.
fn of_json(line: &str) -> Result<Fields<'_>, Reason> {
    let mut fields = fields(line, NAMES)?;
    fields.put(Field::UserAgent, Cow::Borrowed(""));
    fields.format = Some(FormatId::AkamaiJson);
    Ok(fields)
}

fn between_spaces(line: &str) -> Result<Fields<'_>, Reason> {
    let mut fields = Fields::new(FormatId::AkamaiText);
    let mut values = line.split(' ');
    for field in ORDER {
        let value = values.next().ok_or("too_few_fields")?;
        if let Some(field) = field {
            if !is_placeholder(value) && !is_of_column(field, value) {
                return Err("wrong_columns");
            }
            fields.put(field, Cow::Borrowed(value));
        }
    }
    if values.next().is_some() { Err("too_many_fields") } else { Ok(fields) }
}

/// Returns whether a column can have this value. If a line lacks one of its columns, an address must not move into another column.
fn is_of_column(field: Field, value: &str) -> bool {
    let consists_of = |is_of: fn(&u8) -> bool| value.as_bytes().iter().all(is_of);
    match field {
        Field::Time => consists_of(|byte| byte.is_ascii_digit() || *byte == b'.'),
        Field::Status | Field::Bytes | Field::Cache | Field::Asn => consists_of(u8::is_ascii_digit),
        Field::Method => consists_of(u8::is_ascii_uppercase),
        Field::Country => is_country(value),
        Field::Address => address_in(value).is_some(),
        _ => address_in(value).is_none(),
    }
}

pub(super) const NAMES: FieldMap = |node, name| match node {
    Node::Root => root(name).map_or(FieldMapping::NONE, FieldMapping::is),
    _ => FieldMapping::NONE,
};

fn root(name: &str) -> Option<Field> {
    Some(match name {
        "reqTimeSec" => Field::Time,
        "reqHost" => Field::Host,
        "reqPath" => Field::Path,
        "queryStr" => Field::Query,
        "reqMethod" => Field::Method,
        "UA" => Field::UserAgent,
        "statusCode" => Field::Status,
        "bytes" => Field::Bytes,
        "cliIP" => Field::Address,
        "reqId" => Field::RequestId,
        "cacheStatus" => Field::Cache,
        "asn" => Field::Asn,
        "country" => Field::Country,
        "rspContentType" => Field::MediaType,
        "customField" => Field::Headers,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::line_processor::LineOutcome;
    use super::super::outcomes;
    use super::*;

    const VISITOR: &str = "203.0.113.77";

    /// A stream with undocumented fields must not store an address as another field.
    #[test]
    fn does_not_store_addresses_from_other_columns() {
        let format = FormatId::AkamaiText.row();
        let sample = format.sample.trim().replace("132.196.86.7", VISITOR);
        let values: Vec<&str> = sample.split(' ').collect();
        let outcome = |values: &[&str]| outcomes(format, None, &values.join(" ")).remove(0).outcome;
        assert!(matches!(outcome(&values), LineOutcome::Kept(_)));
        for missing in 0..values.len() {
            for place in 0..values.len() {
                let mut values = values.clone();
                values.remove(missing);
                values.insert(place, VISITOR);
                if let LineOutcome::Kept(event) = outcome(&values) {
                    let stored = serde_json::to_string(&event).unwrap();
                    assert!(!stored.contains(VISITOR), "{values:?}: {stored}");
                }
            }
        }
        let shifted = "1 1239f220 1793527200 www.example.com www.example.com akx page=2 GET HTTP/2 200 5120 GPTBot/1.2 - 203.0.113.77 \
            203.0.113.78 8075 text/html -";
        assert!(matches!(outcomes(format, None, shifted).remove(0).outcome, LineOutcome::Bad("wrong_columns")));
    }
}
