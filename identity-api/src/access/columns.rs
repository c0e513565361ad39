//! Parses text columns into enums.

use sqlx::error::BoxDynError;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};
use std::str::FromStr;

/// Parses a name as `T`; fails if this build doesn't know it.
pub(crate) fn named<T: FromStr<Err: Into<BoxDynError>>>(row: &PgRow, column: &str) -> Result<T, Error> {
    let name: String = row.try_get(column)?;
    name.parse().map_err(|unknown: T::Err| Error::Decode(unknown.into()))
}

/// Parses a list of names and skips names that this build doesn't know.
pub(crate) fn names<T: FromStr>(row: &PgRow, column: &str) -> Result<Vec<T>, Error> {
    let names: Vec<String> = row.try_get(column)?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}
