//! Vercel drains. Entries without `proxy` aren't about requests.

use super::super::json_fields::{FieldMap, FieldMapping, Node, fields};
use super::super::line_fields::{Field, Fields};
use super::{FormatId, NoRequest};

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let mut fields = fields(line, NAMES)?;
    // Without `proxy`, the entry isn't about a request.
    if fields.format.is_none() {
        return Err(NoRequest::Other);
    }
    fields.format = Some(FormatId::Vercel);
    Ok(fields)
}

pub(super) const NAMES: FieldMap = |node, name| match (node, name) {
    (Node::Root, "proxy") => FieldMapping::into(Node::Inner).for_format(FormatId::Vercel),
    (Node::Root, "timestamp") => FieldMapping::ranked(Field::Time, 1),
    (Node::Root, "host") => FieldMapping::is(Field::OtherHost),
    (Node::Root, "requestId") => FieldMapping::is(Field::RequestId),
    (Node::Inner, name) => proxy(name).map_or(FieldMapping::NONE, FieldMapping::is),
    _ => FieldMapping::NONE,
};

fn proxy(name: &str) -> Option<Field> {
    Some(match name {
        "timestamp" => Field::Time,
        "host" => Field::Host,
        "scheme" => Field::Scheme,
        "path" => Field::Path,
        "method" => Field::Method,
        "userAgent" => Field::UserAgent,
        "statusCode" => Field::Status,
        "responseByteSize" => Field::Bytes,
        "clientIp" => Field::Address,
        "vercelCache" => Field::Cache,
        _ => return None,
    })
}
