//! Providers of logs, as they are typed.
//!
//! Must take the names of the API and no others.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::identity::DrainProvider;

/// Reads the name of a provider, and lists them all.
pub(crate) fn provider() -> impl TypedValueParser<Value = DrainProvider> {
    let names = PossibleValuesParser::new(DrainProvider::ALL.map(DrainProvider::as_str));
    names.try_map(|name| name.parse::<DrainProvider>().map_err(|_| "no provider"))
}
