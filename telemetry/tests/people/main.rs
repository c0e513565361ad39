//! Tests the program as people and scripts use it: a process that calls the real service on real servers.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod bots;
mod credentials;
mod deliveries;
mod documented_commands;
mod drains;
mod figures;
mod golden;
mod imports;
mod webhook_listener;
mod objects;
mod untrusted_output;
mod webhook_proxy;
mod reference;
mod test_service;
mod sign_in;
mod stub_server;
mod events_tail;
mod terminal;
mod webhooks;

#[test]
#[ignore = "run as a process by other tests"]
fn run_service() {
    use service_kit::clock::Clock;
    service_kit::testing::run_as_service(|cli: telemetry::all::Cli| {
        service_kit::process::run(move |stop| telemetry::all::run(cli, Clock::System, stop))
    });
}
