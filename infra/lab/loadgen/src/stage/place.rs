//! Where a load goes: a stack that is there, or one of its own.

use clap::Args;
use std::path::PathBuf;

/// Where the load goes.
#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// Start ingest-gateway, stream-workers, query-api and identity-api for this run, on fresh stores of the running servers
    #[arg(long, conflicts_with_all = ["base_url", "ingest_url"])]
    pub start: bool,
    /// With --start: folder of the services' binaries, instead of building them
    #[arg(long, value_name = "DIR", requires = "start")]
    pub binaries: Option<PathBuf>,
    /// Address of reads [default: BASE_URL in .local/demo.env]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Address of ingest [default: INGEST_URL in .local/demo.env, else the address of reads]
    #[arg(long, value_name = "URL")]
    pub ingest_url: Option<String>,
    /// PostgreSQL in which tenants are seeded [default: DATABASE_URL in .local/demo.env]
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
}
