//! `cargo up`: runs the servers and the whole service until Ctrl-C.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::build;
use crate::data_version::{self, DataVersion};
use crate::interrupt::Interrupt;
use crate::prerequisites::{Purpose, ensure_programs};
use crate::stack_session::StackSession;
use crate::subprocess::{self, Outcome};

/// Name of the program; its subcommand `all` runs everything on one address.
const PROGRAM: &str = "telemetry";

/// Options of `cargo up`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Build the service with optimizations
    #[arg(long)]
    release: bool,
    /// Send 60 days of sample data for the demo tenant
    #[arg(long)]
    demo_data: bool,
    /// Arguments for the service, after `--`
    #[arg(last = true)]
    service_args: Vec<String>,
}

/// Runs until the service ends or a stop is requested, which counts as success.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let outcome = StackSession::run_in(&interrupt, |session| serve(options, session));
    match outcome {
        _ if interrupt.is_requested() => Ok(ExitCode::SUCCESS),
        Ok(Outcome::Stopped) => Ok(ExitCode::SUCCESS),
        Ok(Outcome::Exited(status)) => {
            Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
        }
        Err(error) => Err(error),
    }
}

fn serve(options: &Options, session: &StackSession) -> Result<Outcome> {
    ensure_programs(Purpose::Build, &session.managed_servers())?;
    session.print_line("Step 1 of 3: building the service (the first build takes several minutes)");
    let built = session.fetch_during(|| {
        let mut build = subprocess::cargo(session.workspace.root());
        build.args(["build", "--package", PROGRAM]).args(options.release.then_some("--release"));
        build::build(build, &session.launcher, &session.interrupt)
    })?;
    if !built.is_success() {
        return Ok(built);
    }
    let data = DataVersion::check(session.workspace.root(), session.state(), session.has_data())?;
    session.print_line("Step 2 of 3: starting the servers");
    let endpoints = session.start_for_service()?;
    session.print_line("Step 3 of 3: starting the service");
    session.watch(|| {
        let mut service = subprocess::cargo(session.workspace.root());
        service.args(["run", "--quiet", "--package", PROGRAM]).args(options.release.then_some("--release"));
        service
            .args(["--", "all"])
            .args(options.demo_data.then_some("--demo-data"))
            .args(&options.service_args)
            .env("TELEMETRY_STATE_DIR", session.state());
        endpoints.apply(&mut service);
        let outcome = subprocess::run(service, &session.launcher, &session.interrupt).context("cannot run the service")?;
        let is_data_in_the_way = data.may_have_caused_failure()?;
        if let Outcome::Exited(status) = outcome {
            if is_data_in_the_way && !status.success() {
                session.print_line(data_version::HINT);
                return Ok(outcome);
            }
            session.print_line(&format!(
                "The service stopped unexpectedly ({status}). Accepted data is safe: run `cargo up` again."
            ));
        }
        Ok(outcome)
    })
}
