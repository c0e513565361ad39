//! Settings of the bot table (docs/api/crawlers.md#bot-table).

use anyhow::Context;
use clap::Args;
use schemas::bots::BotTable;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args, Clone, Debug, Default)]
pub struct BotSettings {
    /// Bot table to use instead of the bundled one
    #[arg(long, env = "TELEMETRY_BOTS_FILE", value_name = "FILE")]
    pub bots_file: Option<PathBuf>,
}

impl BotSettings {
    pub fn table(&self) -> anyhow::Result<Arc<BotTable>> {
        let Some(path) = &self.bots_file else { return Ok(BotTable::bundled()) };
        let named =
            || format!("TELEMETRY_BOTS_FILE={}: not a valid bot table; correct the file or remove the setting", path.display());
        let text = std::fs::read_to_string(path).with_context(named)?;
        Ok(Arc::new(BotTable::parse(&text).with_context(named)?))
    }
}
