//! API keys, log drains with their keys, and analyst accounts.

pub(crate) mod analyst_accounts;
pub mod api_keys;
pub(crate) mod drains;
