//! The web console: pages rendered on the server from the public API.
//!
//! The console has no database and calls only documented endpoints with the reader's own session.

mod responses;
mod api;
mod assets;
mod chart;
mod coverage;
mod success_message;
mod cookie;
mod theme;
mod export;
mod failure;
mod forms;
mod layout;
mod measures;
mod invite_cookie;
mod return_cookie;
mod labels;
mod navigation;
mod numbers;
mod single_use_form;
mod platforms;
mod query;
mod routes;
mod screens;
mod session;
mod sort;
#[cfg(test)]
mod view_tests;
mod window;

pub use navigation::SIGN_IN;
pub use routes::routes;

use crate::api::Api;
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::http::{BodyReader, Transport};
use service_kit::process::Process;
use service_kit::settings::ProcessSettings;
use service_kit::{health, http, process, server};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Serve the web console
#[derive(Parser, Clone, Debug)]
#[command(name = "console", version)]
pub struct Cli {
    /// Command; runs the service by default
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Listener and log
    #[command(flatten)]
    pub process: ProcessSettings,
    /// Settings of the service
    #[command(flatten)]
    pub settings: Settings,
    /// Client addresses
    #[command(flatten)]
    pub clients: ClientSettings,
}

/// Subcommands besides running the service.
#[derive(Subcommand, Clone, Copy, Debug)]
pub enum Command {
    /// Check whether the running process on this machine is healthy
    Health,
}

/// The console's settings, without its listener.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Base URL of the API for the console (plain HTTP)
    #[arg(long, env = "TELEMETRY_API_URL", value_name = "URL", value_parser = api_address)]
    pub api_url: Url,
    /// Public URL of this service; with http, cookies are not Secure [default: http:// and the listen address, if only this machine
    /// can reach it]
    #[arg(long, env = "TELEMETRY_PUBLIC_URL", value_name = "URL", value_parser = web_address)]
    pub public_url: Option<Url>,
}

impl Settings {
    /// Uses the listener's address as the public URL if none is set and only this machine can reach it.
    #[must_use]
    pub fn at(mut self, listen: SocketAddr) -> Self {
        if self.public_url.is_none() && listen.ip().is_loopback() {
            self.public_url = Url::parse(&format!("http://{listen}")).ok();
        }
        self
    }

    /// Rejects a public URL that would send the session cookie without encryption.
    fn harden(&self) -> anyhow::Result<()> {
        if let Some(url) = self.public_url.as_ref().filter(|url| url.scheme() != "https") {
            anyhow::bail!("TELEMETRY_PUBLIC_URL={url}: production requires TLS, so that cookies are Secure; use https://");
        }
        Ok(())
    }
}

/// State shared by the handlers.
pub struct State {
    api: Arc<Api>,
    forms: BodyReader,
    /// The console's address, which pages also show as the API's address.
    public_url: Url,
    clients: ClientSettings,
    clock: Clock,
}

impl State {
    /// Checks the settings without contacting the API. If the API is unavailable, pages show an error.
    pub fn new(settings: &Settings, clients: ClientSettings, clock: Clock) -> anyhow::Result<Arc<Self>> {
        let public_url = settings.public_url.clone().context(
            "TELEMETRY_PUBLIC_URL is not set: set it to the console's public URL, for example https://telemetry.example.com",
        )?;
        let (api, forms) = (Arc::new(Api::at(settings.api_url.clone())?), BodyReader::new(forms::LIMITS));
        Ok(Arc::new(Self { api, forms, public_url, clients, clock }))
    }

    /// Returns whether people reach the console over HTTPS.
    fn transport(&self) -> Transport {
        if self.public_url.scheme() == "https" { Transport::Https } else { Transport::Plain }
    }

    /// Returns the address without a trailing slash.
    fn public_base(&self) -> &str {
        self.public_url.as_str().trim_end_matches('/')
    }
}

/// Runs the process for `cli` until it ends.
pub fn start(cli: Cli) -> Process {
    Box::pin(async move {
        if let Some(Command::Health) = cli.command {
            return health::run_health_command(cli.process.listen).await;
        }
        let process = cli.process.clone();
        process::serve(&process, |stop| run(cli, Clock::System, stop)).await
    })
}

/// Serves until `stop`, then drains requests.
pub async fn run(mut cli: Cli, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
    cli.settings = cli.settings.at(cli.process.listen);
    if cli.process.profile.is_production() {
        cli.settings.harden()?;
        cli.clients.harden()?;
    }
    let state = State::new(&cli.settings, cli.clients.clone(), clock)?;
    let listener = server::listen(cli.process.listen, "TELEMETRY_LISTEN").await?;
    let limits = server::ServerLimits::for_clients(&cli.clients).with_transport(state.transport());
    let router = http::with_request_middleware_over(state.transport(), routes(state).merge(health::routes(Vec::new())));
    tracing::info!(listen = %cli.process.listen, "the console responds");
    server::serve(listener, router, limits, stop).await;
    Ok(())
}

fn api_address(text: &str) -> Result<Url, String> {
    let url = web_address(text)?;
    let is_plain = url.scheme() == "http" && url.path() == "/" && url.query().is_none();
    is_plain.then_some(url).ok_or_else(|| "write it as in http://front:8080, without a path".to_owned())
}

fn web_address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    url.ok_or_else(|| "not a web address; write it as in https://telemetry.example.com".to_owned())
}
