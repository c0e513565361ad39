//! The `Signature-Agent` header: the origin of the keys that sign a request (draft-ietf-webbotauth-httpsig-protocol-01).
//!
//! The signature isn't verified here, so the header is only a claim.

/// Longer hosts do not exist (RFC 1035).
const MAX_HOST_BYTES: usize = 253;
const SCHEME: &str = "https://";

/// Returns the host of a header such as `"https://agent.example"` or `sig1="https://agent.example"`, in lowercase.
pub(super) fn host(header: &str) -> Option<String> {
    let at = header.find(SCHEME)?;
    let is_start = at == 0 || header[..at].ends_with('"');
    let rest = &header[at + SCHEME.len()..];
    let is_host = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-');
    let (host, rest) = rest.split_at(rest.find(|character| !is_host(character)).unwrap_or(rest.len()));
    let is_end = rest.is_empty() || rest.starts_with(['"', '/', ':']);
    let is_name = host.contains('.') && host.len() <= MAX_HOST_BYTES && !host.starts_with('.') && !host.ends_with('.');
    (is_start && is_end && is_name).then(|| host.to_ascii_lowercase())
}
