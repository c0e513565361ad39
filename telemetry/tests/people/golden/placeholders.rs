//! Placeholders for ids, times, secrets and ports in golden files.

/// Times on these days belong to the tests' events and stay.
const KEPT_DAYS: [&str; 2] = ["2026-11-01", "2026-11-02"];
const SECRETS: [&str; 5] = ["svc_pub_", "svc_pk_", "whsec_", "inv_", "ctx_"];
/// Prefix of the names of analyst accounts.
const LOGIN: &str = "telemetry_analyst_";
/// Precedes the duration of an attempt.
const DURATION: &str = "\"duration_ms\":";
const SHOWN_PREFIX_CHARS: usize = 12;
/// A run of this many letters and digits is a token.
const TOKEN_CHARS: usize = 32;
const UUID_CHARS: usize = 36;
const HOSTS: [&str; 2] = ["127.0.0.1:", "localhost:"];

#[derive(Default)]
pub(super) struct Placeholders {
    known: Vec<(String, String)>,
    ids: Vec<String>,
}

impl Placeholders {
    /// Replaces `value` in everything that follows.
    pub(super) fn add(&mut self, value: &str, placeholder: &str) {
        self.known.push((value.to_owned(), format!("<{placeholder}>")));
        // Replace longer values first, because one may start with another.
        self.known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    }

    pub(super) fn replace_in(&mut self, text: &str) -> String {
        let (mut put, mut rest, mut before) = (String::new(), text, ' ');
        while let Some(next) = rest.chars().next() {
            let is_begin = !before.is_ascii_alphanumeric();
            let found = self.known(rest).or_else(|| duration(rest)).or_else(|| if is_begin { self.varying(rest) } else { None });
            let (length, placeholder) = found.unwrap_or_else(|| (next.len_utf8(), next.to_string()));
            put.push_str(&placeholder);
            before = rest[..length].chars().next_back().unwrap_or(' ');
            rest = &rest[length..];
        }
        put
    }

    fn known(&self, rest: &str) -> Option<(usize, String)> {
        let (value, placeholder) = self.known.iter().find(|(value, _)| rest.starts_with(value.as_str()))?;
        Some((value.len(), placeholder.clone()))
    }

    /// Returns the length of the varying value that the text starts with, and its placeholder.
    fn varying(&mut self, rest: &str) -> Option<(usize, String)> {
        if let Some(id) = rest.get(..UUID_CHARS).filter(|id| is_uuid(id)) {
            return Some((UUID_CHARS, self.id(id)));
        }
        if let Some(length) = time(rest) {
            let is_kept = KEPT_DAYS.iter().any(|day| rest.starts_with(day));
            return Some((length, if is_kept { rest[..length].to_owned() } else { "<time>".to_owned() }));
        }
        if let Some(begin) = SECRETS.iter().find(|begin| rest.starts_with(**begin)) {
            let length = begin.len() + run(&rest[begin.len()..]);
            let what = if length <= SHOWN_PREFIX_CHARS { "prefix" } else { "secret" };
            return (length > begin.len()).then(|| (length, format!("<{begin}{what}>")));
        }
        if let Some(name) = rest.strip_prefix(LOGIN) {
            return Some((LOGIN.len() + run(name), format!("{LOGIN}<token>")));
        }
        if let Some(host) = HOSTS.iter().find(|host| rest.starts_with(**host)) {
            let digits = rest[host.len()..].bytes().take_while(u8::is_ascii_digit).count();
            return (digits > 1).then(|| (host.len() + digits, format!("{host}<port>")));
        }
        let length = run(rest);
        (length >= TOKEN_CHARS).then(|| (length, "<token>".to_owned()))
    }

    fn id(&mut self, id: &str) -> String {
        let number = self.ids.iter().position(|known| known == id).unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        format!("<id {}>", number + 1)
    }
}

fn duration(rest: &str) -> Option<(usize, String)> {
    let number = rest.strip_prefix(DURATION)?.trim_start();
    let begin = &rest[..rest.len() - number.len()];
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| (begin.len() + digits, format!("{begin}<ms>")))
}

/// Returns how many letters and digits the text starts with.
fn run(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_alphanumeric).count()
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.bytes().enumerate().all(|(at, byte)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// Returns the length of the timestamp that the text starts with.
fn time(text: &str) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let begins = text.as_bytes().get(..SHAPE.len())?;
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    let rest = &text.as_bytes()[SHAPE.len()..];
    let fraction = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let is_time = begins.iter().zip(SHAPE).all(fits) && rest.get(fraction) == Some(&b'Z');
    is_time.then_some(SHAPE.len() + fraction + 1)
}
