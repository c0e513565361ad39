//! Signature bases (RFC 9421, section 2.5).

use crate::Reason;
use crate::structured_fields::{dictionary, serialized, string};
use sfv::{FieldType, InnerList, Item};
use std::collections::HashSet;

/// A received or outgoing request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    /// Absolute and without a fragment, e.g. `https://telemetry.example/events`.
    pub target_uri: &'a str,
    /// Only these headers can be covered. Don't pass secrets, because the signature base contains the values.
    pub headers: &'a [(&'a str, &'a str)],
}

impl Request<'_> {
    /// Returns all values of a header as one list.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.headers.iter().filter(|(each, _)| each.eq_ignore_ascii_case(name));
        let values: Vec<&str> = lines.map(|(_, value)| value.trim_matches([' ', '\t'])).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Returns the text to sign for these components and parameters.
    pub(crate) fn signature_base(&self, input: &InnerList) -> Result<String, Reason> {
        let (mut base, mut seen) = (String::new(), HashSet::new());
        for component in &input.items {
            let (id, value) = (component.serialize(), self.component(component)?);
            if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) || !seen.insert(id.clone()) {
                return Err(Reason::Malformed);
            }
            base.extend([&id, ": ", &value, "\n"]);
        }
        Ok(base + "\"@signature-params\": " + &serialized(&input.clone().into()))
    }

    fn component(&self, component: &Item) -> Result<String, Reason> {
        let name = component.bare_item.as_string().ok_or(Reason::Malformed)?.as_str();
        let parameters: Vec<&str> = component.params.keys().map(|name| name.as_str()).collect();
        match parameters[..] {
            [] if name.starts_with('@') => self.derived(name),
            _ if name.starts_with('@') => Err(Reason::Unsupported),
            _ if name.bytes().any(|byte| byte.is_ascii_uppercase()) => Err(Reason::Malformed),
            [] => self.header(name).ok_or(Reason::Incomplete),
            ["key"] => {
                let members = dictionary(&self.header(name).ok_or(Reason::Incomplete)?)?;
                let member = string(&component.params, "key")?.and_then(|key| members.get(key));
                member.map(serialized).ok_or(Reason::Incomplete)
            }
            _ => Err(Reason::Unsupported),
        }
    }

    fn derived(&self, name: &str) -> Result<String, Reason> {
        let (scheme, rest) = self.target_uri.split_once("://").ok_or(Reason::Malformed)?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = if path.is_empty() { "/" } else { path };
        Ok(match name {
            "@method" => self.method.to_owned(),
            "@target-uri" => self.target_uri.to_owned(),
            "@scheme" => scheme.to_ascii_lowercase(),
            "@authority" => host(scheme, authority),
            "@path" => path.to_owned(),
            "@query" => format!("?{query}"),
            "@request-target" => format!("{path}{}", &target[target.find('?').unwrap_or(target.len())..]),
            _ => return Err(Reason::Unsupported),
        })
    }
}

/// Returns the normalized authority: lower case, without the scheme's default port.
fn host(scheme: &str, authority: &str) -> String {
    let default = if scheme.eq_ignore_ascii_case("http") { ":80" } else { ":443" };
    authority.strip_suffix(default).unwrap_or(authority).to_ascii_lowercase()
}
