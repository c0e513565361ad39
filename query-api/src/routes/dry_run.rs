//! A read without its effects: how a query string is understood.
//!
//! Must stay the path that requests take, minus everything with state: it is what fuzzing enters.

use super::reads::SummaryParameters;
use crate::parameters::period::Period;
use axum::http::Uri;
use service_kit::http::{ApiError, Parameters};

/// The window, in milliseconds from the first inside to the first after, that a summary's query string asks for.
pub fn parse_period(uri: &Uri) -> Result<(Option<i64>, Option<i64>), ApiError> {
    let Parameters(asked) = Parameters::<SummaryParameters>::of_uri(uri)?;
    let period = Period::parse(asked.since.as_deref(), asked.until.as_deref())?;
    Ok((period.from_ms, period.before_ms))
}
