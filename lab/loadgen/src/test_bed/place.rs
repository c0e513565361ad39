//! Options that select the target of a load.

use clap::Args;
use std::path::PathBuf;

/// Target of a load.
#[derive(Args, Clone, Debug, Default)]
pub struct TargetOptions {
    /// Start ingest-gateway, stream-workers, query-api and identity-api for this run, with new databases on the running servers
    #[arg(long, conflicts_with_all = ["base_url", "ingest_url"])]
    pub start: bool,
    /// Folder of the services' binaries for --start, instead of building them
    #[arg(long, value_name = "DIR", requires = "start")]
    pub binaries: Option<PathBuf>,
    /// Address of the reads [default: BASE_URL in .local/demo.env]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Address of the gateway [default: INGEST_URL in .local/demo.env, otherwise the address of the reads]
    #[arg(long, value_name = "URL")]
    pub ingest_url: Option<String>,
    /// PostgreSQL database for the tenants [default: DATABASE_URL in .local/demo.env]
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
}
