//! Reads fields from a JSON line by their paths.
//!
//! Members that aren't fields are not kept. A field's type never causes an error, because loggers write numbers as strings and strings as
//! numbers.

use super::format_table::FormatId;
use super::line_fields::{Field, Fields, Reason, is_placeholder};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// An object in a line. Only objects that contain fields are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Root,
    /// Cloudflare's `RequestHeaders`, Vercel's `proxy`, Azure's `properties`.
    Inner,
    /// `request` of Caddy, Kong and APISIX.
    Request,
    /// `response` of Kong and APISIX.
    Response,
    /// `req` and `res` of pino and bunyan.
    PinoRequest,
    PinoResponse,
    RequestHeaders,
    /// Caddy's `resp_headers`.
    ResponseHeaders,
    /// Google's `httpRequest`.
    HttpRequest,
    /// The Elastic Common Schema's `http` and its members, `url`, `user_agent` and `event`.
    Http,
    EcsRequest,
    EcsResponse,
    EcsBody,
    EcsUrl,
    EcsUserAgent,
    EcsEvent,
}

impl Node {
    pub(super) const ALL: [Self; 16] = [
        Self::Root,
        Self::Inner,
        Self::Request,
        Self::Response,
        Self::PinoRequest,
        Self::PinoResponse,
        Self::RequestHeaders,
        Self::ResponseHeaders,
        Self::HttpRequest,
        Self::Http,
        Self::EcsRequest,
        Self::EcsResponse,
        Self::EcsBody,
        Self::EcsUrl,
        Self::EcsUserAgent,
        Self::EcsEvent,
    ];
}

/// Meaning of a member.
#[derive(Clone, Copy)]
pub(super) struct FieldMapping {
    /// Field and rank, if the value isn't an object.
    field: Option<(Field, u8)>,
    /// Node, if the value is an object.
    node: Option<Node>,
    /// The format that has this member.
    format: Option<FormatId>,
}

impl FieldMapping {
    pub(super) const NONE: Self = Self { field: None, node: None, format: None };

    pub(super) fn is_read(self) -> bool {
        self.field.is_some() || self.node.is_some() || self.format.is_some()
    }

    pub(super) const fn is(field: Field) -> Self {
        Self::ranked(field, 0)
    }

    pub(super) const fn ranked(field: Field, rank: u8) -> Self {
        Self { field: Some((field, rank)), ..Self::NONE }
    }

    pub(super) const fn into(node: Node) -> Self {
        Self { node: Some(node), ..Self::NONE }
    }

    pub(super) const fn or_into(self, node: Node) -> Self {
        Self { node: Some(node), ..self }
    }

    pub(super) const fn for_format(self, format: FormatId) -> Self {
        Self { format: Some(format), ..self }
    }
}

/// Returns a member's meaning from its object and name.
pub(super) type FieldMap = fn(Node, &str) -> FieldMapping;

/// Reads a JSON object's fields. A field that occurs twice makes the line bad: in a format without escapes, visitors can add members, and
/// the line doesn't show which of them the server wrote.
pub(super) fn fields(line: &str, names: FieldMap) -> Result<Fields<'_>, Reason> {
    let mut fields = Fields::default();
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let read = Object { node: Node::Root, names, fields: &mut fields }.deserialize(&mut deserializer);
    read.and_then(|()| deserializer.end()).map_err(|_| "not_json")?;
    if fields.has_repeated_member { Err("repeated_member") } else { Ok(fields) }
}

/// Typical number of fields in an object.
const USUAL_MEMBERS: usize = 16;

struct Object<'f, 'a> {
    node: Node,
    names: FieldMap,
    fields: &'f mut Fields<'a>,
}

impl<'de> DeserializeSeed<'de> for Object<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::with_capacity(USUAL_MEMBERS);
        while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
            let member = (self.names)(self.node, &name);
            member.format.into_iter().for_each(|format| self.fields.sign(format));
            if member.field.is_none() && member.node.is_none() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.fields.has_repeated_member |= seen.contains(&name);
            seen.push(name);
            map.next_value_seed(Value { member, names: self.names, fields: &mut *self.fields })?;
        }
        Ok(())
    }
}

/// The value of a member. The member is a field, an object that contains fields, or possibly either.
struct Value<'f, 'a> {
    member: FieldMapping,
    names: FieldMap,
    fields: &'f mut Fields<'a>,
}

impl<'a> Value<'_, 'a> {
    fn put(self, text: Cow<'a, str>) {
        if let Some((field, rank)) = self.member.field {
            // Only servers write `01/Nov/2026:10:00:00 +0000`. The shipper's time is when it read the line.
            let rank = if field == Field::Time && text.contains('/') { 0 } else { rank };
            self.fields.put_ranked(field, rank, text);
        }
    }

    /// Sets a field to the values of a header that the request contains several times, as Caddy logs them. The first non-empty value
    /// counts. User agents are joined with commas, as RFC 9110 (section 5.3) allows: servers differ in which of them they pass on, and a
    /// user agent must not hide another.
    fn put_all(self, mut values: Vec<Cow<'a, str>>) {
        values.retain(|value| !is_placeholder(value));
        let is_user_agent = matches!(self.member.field, Some((Field::UserAgent, _)));
        if is_user_agent && values.len() > 1 {
            self.put(Cow::Owned(values.join(", ")));
        } else {
            self.put(values.into_iter().next().unwrap_or_default());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        match self.member.node {
            Some(node) => Object { node, names: self.names, fields: self.fields }.visit_map(map),
            None => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(())
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut values = Vec::new();
        while let Some(Text(value)) = seq.next_element::<Text<'de>>()? {
            values.push(value);
        }
        self.put_all(values);
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.put(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.put(owned(text));
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.put(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.put(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.put(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(Cow::Borrowed(""));
        Ok(())
    }
}

/// Copies text without NUL, which the databases can't store.
fn owned<'a>(text: &str) -> Cow<'a, str> {
    Cow::Owned(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.to_owned() })
}

/// A name or array element as text; empty for objects and arrays.
struct Text<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalar)
    }
}

struct Scalar;

impl<'de> Visitor<'de> for Scalar {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(owned(text)))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(if value { "true" } else { "false" })))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed("")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text(Cow::Borrowed("")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text(Cow::Borrowed("")))
    }
}
