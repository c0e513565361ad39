//! Log providers on the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::identity::DrainProvider;

/// Parses a provider's name; the help lists all names.
pub(crate) fn provider() -> impl TypedValueParser<Value = DrainProvider> {
    let names = PossibleValuesParser::new(DrainProvider::ALL.map(DrainProvider::as_str));
    names.try_map(|name| name.parse::<DrainProvider>().map_err(|_| "unknown provider"))
}
