//! `cargo run -p fuzz -- --seconds 60` fuzzes every target with a stable toolchain, without
//! coverage guidance.

use anyhow::Context;
use clap::Parser;
use fuzz::mutate::Inputs;
use fuzz::{TARGETS, Target};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Fuzz the parsers of untrusted input with mutated seeds
#[derive(Parser)]
#[command(name = "fuzz", version)]
struct Cli {
    /// Targets to run; all of them by default
    #[arg(value_parser = TARGETS.map(|target| target.name))]
    targets: Vec<String>,
    /// Seconds per target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Repeat the inputs of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let seed = cli.seed.unwrap_or_else(rand::random);
    println!("repeat with --seed {seed}");
    let mut has_passed = true;
    for target in TARGETS.iter().filter(|target| cli.targets.is_empty() || cli.targets.iter().any(|name| name == target.name)) {
        has_passed &= run(target, seed, Duration::from_secs(cli.seconds))?;
    }
    Ok(if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one target and stops at the first failing input. Returns whether all inputs passed.
fn run(target: &Target, seed: u64, bound: Duration) -> anyhow::Result<bool> {
    let mut inputs = Inputs::for_target(target, seed)?;
    let (begun, mut entered, mut taken) = (Instant::now(), 0_u64, 0_u64);
    let mut waiting = inputs.seeds().to_vec();
    while begun.elapsed() < bound {
        let input = waiting.pop().unwrap_or_else(|| inputs.next_input());
        match target.try_run(&input) {
            Ok(is_taken) => (entered, taken) = (entered + 1, taken + u64::from(is_taken)),
            Err(law) => {
                let file = save_input(target, &input)?;
                println!("{}: input {entered} fails: {law}\n{}\nsaved to {file}", target.name, input.escape_ascii());
                return Ok(false);
            }
        }
    }
    println!("{}: {entered} inputs in {} s, {taken} of them accepted, 0 failures", target.name, begun.elapsed().as_secs());
    Ok(true)
}

fn save_input(target: &Target, input: &[u8]) -> anyhow::Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(target.name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = folder.join("failed");
    std::fs::write(&file, input).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file.display().to_string())
}
