//! `telemetry completion`: shell completion scripts.

use crate::failure::Failure;
use crate::output::write;
use clap::Args;
use clap_complete::Shell;

/// Options of `telemetry completion`.
#[derive(Args, Clone, Debug)]
pub struct Completion {
    /// Shell to print the script for
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

pub(crate) fn run(mut program: clap::Command, what: &Completion) -> Result<(), Failure> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(what.shell, &mut program, name, &mut script);
    write(&script)
}
