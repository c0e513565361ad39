//! Reads columns of names into types.

use sqlx::error::BoxDynError;
use sqlx::postgres::PgRow;
use sqlx::{Error, Row};
use std::str::FromStr;

/// Reads the name of a `T`; fails for a name that this build doesn't know.
pub(crate) fn named<T: FromStr<Err: Into<BoxDynError>>>(row: &PgRow, column: &str) -> Result<T, Error> {
    let name: String = row.try_get(column)?;
    name.parse().map_err(|unknown: T::Err| Error::Decode(unknown.into()))
}

/// Reads a list of names, without those that this build doesn't know.
pub(crate) fn names<T: FromStr>(row: &PgRow, column: &str) -> Result<Vec<T>, Error> {
    let names: Vec<String> = row.try_get(column)?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}
