//! Text formats without user agents, which are only recognized: Heroku's router, Express (morgan) and Squid.

use super::super::line_fields::{Field, Fields};
use super::{FormatId, begins_with_day, has_shape};
use std::borrow::Cow;

/// Returns the recognized format of a line, with the time if the line has one.
pub(super) fn parse(line: &str) -> Option<Fields<'_>> {
    let (format, time) = heroku_router(line).or_else(|| squid(line)).or_else(|| morgan(line))?;
    let mut fields = Fields::new(format);
    time.into_iter().for_each(|time| fields.put(Field::Time, Cow::Borrowed(time)));
    Some(fields)
}

type Recognized<'a> = (FormatId, Option<&'a str>);

/// `<priority>1 time host heroku router - at=info …`, or `time heroku[router]: at=info …` in the output of `heroku logs`.
fn heroku_router(line: &str) -> Option<Recognized<'_>> {
    let (head, _) = line.split_once(" at=")?;
    let head = head.strip_suffix(" heroku router -").or_else(|| head.strip_suffix(" heroku[router]:"))?;
    let time = head.split(' ').find(|word| begins_with_day(word))?;
    Some((FormatId::HerokuRouter, Some(time)))
}

/// `time milliseconds address result/status bytes method url user hierarchy/address type`, also in Apache Traffic Server.
fn squid(line: &str) -> Option<Recognized<'_>> {
    let (time, rest) = line.split_once(' ').filter(|(time, _)| has_shape(time.as_bytes(), "dddddddddd.ddd"))?;
    let (result, status) = rest.split_ascii_whitespace().nth(2)?.split_once('/')?;
    let is_result = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    let is_squid = result.bytes().all(is_result) && has_shape(status.as_bytes(), "ddd");
    is_squid.then_some((FormatId::Squid, Some(time)))
}

/// The formats `dev`, `tiny` and `short`, which end with `milliseconds ms - bytes` or `bytes - milliseconds ms` after the status. `dev`
/// has colors.
fn morgan(line: &str) -> Option<Recognized<'_>> {
    let plain = |word: &'_ str| word.strip_suffix("\x1b[0m").unwrap_or(word).rsplit('m').next().unwrap_or_default().to_owned();
    let mut words = line.rsplit(' ');
    let mut word = || words.next();
    let (status, bytes, time) = match (word()?, word()?, word()?, word()?, word()?) {
        ("ms", time, "-", bytes, status) | (bytes, "-", "ms", time, status) => (plain(status), plain(bytes), time),
        _ => return None,
    };
    let is_number = |text: &str| text == "-" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let is_time = time == "-" || time.parse::<f64>().is_ok();
    (is_time && is_number(&bytes) && is_number(&status) && line.contains(" /")).then_some((FormatId::Morgan, None))
}
