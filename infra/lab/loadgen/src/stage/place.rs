//! Where a load goes: a stack that is there, or one of its own.

use clap::Args;
use clap::builder::RangedI64ValueParser;
use std::path::PathBuf;

/// Where the load goes.
#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// Start ingest-gateway, stream-workers, query-api and identity-api for this run, on fresh stores of the running servers
    #[arg(long, conflicts_with_all = ["base_url", "ingest_url", "key", "env_file"])]
    pub start: bool,
    /// With --start: folder of the services' binaries, instead of building them
    #[arg(long, value_name = "DIR", requires = "start")]
    pub binaries: Option<PathBuf>,
    /// With --start: a setting of the gateway, as in TELEMETRY_MAX_EVENTS=100; can be repeated
    #[arg(long = "gateway-setting", value_name = "NAME=VALUE", value_parser = assignment, requires = "start")]
    pub gateway_settings: Vec<(String, String)>,
    /// With --start: so many workers, one of which is active [default: 1]
    #[arg(long, value_name = "COUNT", requires = "start", value_parser = several())]
    pub workers: Option<u8>,
    /// Address of reads [default: BASE_URL in .local/demo.env]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Address of ingest [default: INGEST_URL in .local/demo.env, else the address of reads]
    #[arg(long, value_name = "URL")]
    pub ingest_url: Option<String>,
    /// Agent key to report with, instead of seeding tenants
    #[arg(long, requires = "owner_key", requires = "domain")]
    pub key: Option<String>,
    /// Content owner's key to read with
    #[arg(long, requires = "key")]
    pub owner_key: Option<String>,
    /// The owner's verified domain
    #[arg(long, requires = "key")]
    pub domain: Option<String>,
    /// PostgreSQL in which tenants are seeded [default: DATABASE_URL in .local/demo.env]
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// File that names a running stack [default: .local/demo.env, unless --base-url is given]
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
}

/// How many of a kind one machine may be given.
pub(crate) fn several() -> RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=9)
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
