//! Starts the servers: keeps those that respond, replaces those that don't, and checks that the user's own servers respond. Data
//! is always kept.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::endpoints::{check_external, external_address};
use super::{Endpoints, Entry, Record, Stack, managed_address};
use crate::environment::ExternalServers;
use crate::fetch;
use crate::interrupt::Interrupt;
use crate::password::Password;
use crate::ports::Ports;
use crate::process::Process;
use crate::progress::Progress;
use crate::server::truncate;
use crate::server_config::ServerConfig;
use crate::server_kind::{ServerKind, ServerPorts};

/// Maximum time without new log lines during startup.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Maximum time without a response before a running server is replaced.
const RESPONSE_LIMIT: Duration = Duration::from_secs(15);

impl Stack {
    /// Returns the servers that we run: all except those in the environment.
    #[must_use]
    pub(crate) fn managed(given: &ExternalServers) -> Vec<ServerKind> {
        ServerKind::ALL.into_iter().filter(|kind| external_address(given, *kind).is_none()).collect()
    }

    /// Ensures that every server is running, and returns their addresses.
    pub(crate) fn start(
        &self,
        given: &ExternalServers,
        keep: bool,
        progress: &Progress,
        interrupt: &Interrupt,
    ) -> Result<Endpoints> {
        for kind in ServerKind::ALL {
            if let Some(address) = external_address(given, kind) {
                check_external(kind, address)?;
                progress.print_line(&format!("{}: using the server in {}", kind.title(), kind.setting()));
            }
        }
        fetch::fetch(&Self::managed(given), progress, interrupt)?;
        self.workspace.install_launcher()?;
        let _guard = self.lock_start_and_stop(|| interrupt.is_requested())?;
        let mut record = self.record();
        // Servers to be kept may have ended when the machine restarted.
        let still_kept = record.kept && ServerKind::ALL.iter().any(|kind| record.running(*kind).is_some());
        record.kept = keep || still_kept;
        record.save(&self.state)?;
        self.bring_up(&Self::managed(given), &mut record, progress, interrupt)?;
        let endpoints = Endpoints::assemble(given, &record)?;
        endpoints.write(&self.state)?;
        Ok(endpoints)
    }

    /// Restarts servers that ended unexpectedly. Called repeatedly while the stack is in use.
    pub(crate) fn restart_ended(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        for kind in ServerKind::ALL {
            truncate(&self.home(kind).join("server.log"));
        }
        if ended(&self.record()).is_empty() {
            return Ok(());
        }
        let _guard = self.lock_start_and_stop(|| interrupt.is_requested())?;
        // Whoever held the lock before may have stopped or restarted them.
        let mut record = self.record();
        let dead = ended(&record);
        for kind in &dead {
            progress.print_line(&format!(
                "{} stopped unexpectedly and is being restarted; its log is {}",
                kind.title(),
                self.home(*kind).join("server.log").display()
            ));
        }
        self.bring_up(&dead, &mut record, progress, interrupt)
    }

    fn bring_up(&self, kinds: &[ServerKind], record: &mut Record, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let mut waiting = Vec::new();
        for kind in kinds {
            let listen = record.servers.get(kind).map(|entry| entry.listen).unwrap_or_default();
            let mut site = self.site(*kind, listen)?;
            if let Some(process) = record.running(*kind).and_then(|entry| entry.process) {
                if responds(&site, process, interrupt)? {
                    progress.print_line(&format!(
                        "{} is already running at {}",
                        kind.title(),
                        managed_address(*kind, listen.port)
                    ));
                    continue;
                }
                progress.print_line(&format!("{} isn't responding and is being restarted", kind.title()));
                process.kill_tree();
            }
            for stray in site.unrecorded_processes() {
                stray.kill_tree();
            }
            if kind.has_password() {
                let kept = record.servers.get(kind).and_then(|entry| entry.password.clone());
                site.password = Some(kept.filter(Password::is_root).map_or_else(Password::generate, Ok)?);
            }
            waiting.push(site);
        }
        choose_ports(&mut waiting, record)?;
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = waiting.iter().map(|site| scope.spawn(|| launch(site, progress, interrupt))).collect();
            workers.into_iter().map(|worker| worker.join().expect("a start does not panic")).collect()
        });
        let mut failure = None;
        for (site, outcome) in waiting.into_iter().zip(outcomes) {
            // After a failed restart, keep the ended process in the record, so that it is retried.
            let before = record.servers.get(&site.kind).and_then(|entry| entry.process);
            let process = match outcome {
                Ok(process) => Some(process),
                Err(error) => {
                    failure.get_or_insert(error);
                    before
                }
            };
            record.servers.insert(site.kind, Entry { process, listen: site.listen, data: site.data, password: site.password });
        }
        record.save(&self.state)?;
        failure.map_or(Ok(()), Err)
    }
}

/// Returns the servers that have ended although the record lists them as running.
fn ended(record: &Record) -> Vec<ServerKind> {
    let died = |entry: &Entry| entry.process.is_some_and(|process| !process.is_alive());
    record.servers.iter().filter(|(_, entry)| died(entry)).map(|(kind, _)| *kind).collect()
}

fn responds(site: &ServerConfig, process: Process, interrupt: &Interrupt) -> Result<bool> {
    let begun = Instant::now();
    while process.is_alive() && begun.elapsed() < RESPONSE_LIMIT {
        if site.probe().is_ok() {
            return Ok(true);
        }
        interrupt.check()?;
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(false)
}

fn choose_ports(sites: &mut [ServerConfig], record: &Record) -> Result<()> {
    let mut ports = Ports::default();
    for kind in ServerKind::ALL.into_iter().filter(|kind| sites.iter().all(|site| site.kind != *kind)) {
        if let Some(entry) = record.running(kind) {
            ports.reserve(entry.listen.port);
            ports.reserve(entry.listen.second_port);
        }
    }
    for site in sites {
        let before = site.listen;
        let port = ports.choose(&[before.port, site.kind.default_port()])?;
        let second_port = if site.kind == ServerKind::Kafka { ports.choose(&[before.second_port])? } else { 0 };
        site.listen = ServerPorts { port, second_port };
    }
    Ok(())
}

fn launch(site: &ServerConfig, progress: &Progress, interrupt: &Interrupt) -> Result<Process> {
    let task = progress.start_task(&format!("Starting {} {}", site.kind.title(), site.kind.version()));
    if !site.data.starts_with(&site.home) {
        progress.print_line(&format!(
            "{} runs as the user nobody, which can't open this clone, so its data is in {}",
            site.kind.title(),
            site.data.display()
        ));
    }
    let mut child = site.start(START_LIMIT, interrupt, |_| Ok(()))?;
    let process = Process::find(child.id());
    // Collect the exit status, because the process would otherwise become a zombie.
    std::thread::spawn(move || child.wait());
    task.done(&format!("{} is up at {}", site.kind.title(), managed_address(site.kind, site.listen.port)));
    process.ok_or_else(|| anyhow::anyhow!("{} stopped right after it started: see {}", site.kind.title(), site.log().display()))
}
