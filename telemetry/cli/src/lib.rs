//! The command line for people: one command per noun, and a client of the public API.
//!
//! ```text
//!  options, environment, profile ──► context ──► client ──► the service
//!                                                  │
//!                           standard output ◄── output
//! ```

macro_rules! example {
    ($arguments:literal) => {
        concat!("Example:\n  telemetry ", $arguments)
    };
}

mod analyst;
mod audit;
mod bots;
mod client;
mod completion;
mod context;
mod delegation;
mod doctor;
mod domain;
mod drain;
mod events;
mod failure;
mod identity;
mod import;
mod key;
mod log_file;
mod options;
mod org;
mod output;
mod profile;
mod profiles;
mod provider;
mod reads;
mod secret;
mod sending;
mod session;
mod settings;
mod sign;
mod sign_in;
mod talk;
mod wait;
mod webhook;
mod window;
mod words;

use analyst::AnalystNoun;
use audit::AuditNoun;
use bots::BotsNoun;
use clap::{Args, Subcommand};
use completion::Completion;
use context::Context;
use delegation::DelegationNoun;
use doctor::Doctor;
use domain::DomainNoun;
use drain::DrainNoun;
use events::EventsNoun;
use failure::Failure;
use import::Import;
use key::KeyNoun;
use options::Options;
use org::OrgNoun;
use profile::ProfileNoun;
use reads::{Funnel, List, Series, Sorted, Summary, Urls, Whole};
use service_kit::clock::Clock;
use service_kit::process::Process;
use session::SessionNoun;
use settings::SettingsNoun;
use sign::SignNoun;
use sign_in::{Login, Nothing};
use std::process::ExitCode;
use wait::Wait;
use webhook::WebhookNoun;

/// A command for people.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Sign in by email and save the session in a profile
    #[command(after_help = example!("login --url https://telemetry.example --email ada@newspaper.example"))]
    Login(On<Login>),
    /// Sign out and delete the session from the profile
    #[command(after_help = example!("logout"))]
    Logout(On<Nothing>),
    /// Show the current user or key, its organization and its permissions
    #[command(after_help = example!("whoami"))]
    Whoami(On<Nothing>),
    /// Manage profiles, which store service addresses and credentials
    Profile(On<ProfileNoun>),
    /// Manage your organizations and their members
    Org(On<OrgNoun>),
    /// Register and verify domains
    Domain(On<DomainNoun>),
    /// Manage API keys
    Key(On<KeyNoun>),
    /// List and revoke analyst accounts, which read data with SQL
    Analyst(On<AnalystNoun>),
    /// Share data with partners, or request access to a publisher's data
    Delegation(On<DelegationNoun>),
    /// Manage webhook endpoints and test receivers
    Webhook(On<WebhookNoun>),
    /// Show or change the organization's settings
    Settings(On<SettingsNoun>),
    /// Show the organization's audit trail and rejected reports
    Audit(On<AuditNoun>),
    /// Manage log drains for CDNs and web servers
    Drain(On<DrainNoun>),
    /// List, watch, send and import events
    Events(On<EventsNoun>),
    /// Import a CDN or web server log; lines imported before don't count again
    #[command(after_help = example!("import access.log --provider combined --host www.newspaper.example"))]
    Import(On<Import>),
    /// Identify bots by user agent
    Bots(On<BotsNoun>),
    /// Show total events and sessions, by type, reporter and agent
    #[command(after_help = example!("summary --since 7d"))]
    Summary(On<Summary>),
    /// Show events over time
    #[command(after_help = example!("series --since 30d --split type"))]
    Series(On<Series>),
    /// Show events by page or section
    #[command(after_help = example!("urls --since 7d --path '/blog/*' --sort -content_cited"))]
    Urls(On<Urls>),
    /// Show which bots fetched your pages
    #[command(after_help = example!("crawlers --since 7d"))]
    Crawlers(On<List>),
    /// Show the hours that have data from a server or CDN
    #[command(after_help = example!("coverage --since 7d"))]
    Coverage(On<Whole>),
    /// Show fetches, groundings, citations, presentations and engagements
    #[command(after_help = example!("funnel --since 30d --by agent"))]
    Funnel(On<Funnel>),
    /// Compare the fetches that agents claim with those that servers saw
    #[command(after_help = example!("corroboration --since 7d"))]
    Corroboration(On<Sorted>),
    /// Wait until events are readable
    #[command(after_help = example!("wait --path /blog/launch --timeout 60"))]
    Wait(On<Wait>),
    /// Export an agent's sessions
    Session(On<SessionNoun>),
    /// Create signing keys and sign requests
    Sign(SignNoun),
    /// Check the connection, the credential, drains and a domain; suggest fixes
    #[command(after_help = example!("doctor --domain newspaper.example"))]
    Doctor(On<Doctor>),
    /// Print a shell completion script
    #[command(after_help = example!("completion zsh"))]
    Completion(Completion),
}

/// A command with the options that every command has.
#[derive(Args, Clone, Debug)]
pub struct On<T: Args> {
    #[command(flatten)]
    what: T,
    #[command(flatten)]
    options: Options,
}

/// Runs a command and returns its exit code (docs/cli.md#exit-codes).
///
/// `program` is the complete command line, for `completion`.
pub fn run(command: Command, program: clap::Command, clock: Clock) -> Process {
    Box::pin(async {
        match dispatch(command, program, clock).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !matches!(failure, Failure::Closed) {
                    talk::complain(&failure);
                }
                ExitCode::from(failure.code())
            }
        }
    })
}

async fn dispatch(command: Command, program: clap::Command, clock: Clock) -> Result<(), Failure> {
    let on = |options: Options| Context { clock: clock.clone(), options };
    match command {
        Command::Login(On { what, options }) => sign_in::login(&on(options), &what).await,
        Command::Logout(On { options, .. }) => sign_in::logout(&on(options)).await,
        Command::Whoami(On { options, .. }) => sign_in::whoami(&on(options)).await,
        Command::Profile(On { what, options }) => profile::run(&on(options), &what),
        Command::Events(On { what, options }) => events::run(&on(options), &what).await,
        Command::Import(On { what, options }) => import::run(&on(options), &what).await,
        Command::Org(On { what, options }) => org::run(&on(options), &what).await,
        Command::Domain(On { what, options }) => domain::run(&on(options), &what).await,
        Command::Key(On { what, options }) => key::run(&on(options), &what).await,
        Command::Analyst(On { what, options }) => analyst::run(&on(options), &what).await,
        Command::Delegation(On { what, options }) => delegation::run(&on(options), &what).await,
        Command::Webhook(On { what, options }) => webhook::run(&on(options), &what).await,
        Command::Settings(On { what, options }) => settings::run(&on(options), &what).await,
        Command::Audit(On { what, options }) => audit::run(&on(options), &what).await,
        Command::Drain(On { what, options }) => drain::run(&on(options), &what).await,
        Command::Bots(On { what, options }) => bots::run(&on(options), &what),
        Command::Summary(On { what, options }) => reads::summary(&on(options), &what).await,
        Command::Series(On { what, options }) => reads::series(&on(options), &what).await,
        Command::Urls(On { what, options }) => reads::urls(&on(options), &what).await,
        Command::Crawlers(On { what, options }) => reads::crawlers(&on(options), &what).await,
        Command::Coverage(On { what, options }) => reads::coverage(&on(options), &what).await,
        Command::Funnel(On { what, options }) => reads::funnel(&on(options), &what).await,
        Command::Corroboration(On { what, options }) => reads::corroboration(&on(options), &what).await,
        Command::Wait(On { what, options }) => wait::run(&on(options), &what).await,
        Command::Session(On { what, options }) => session::run(&on(options), &what).await,
        Command::Sign(what) => sign::run(&clock, &what),
        Command::Doctor(On { what, options }) => doctor::run(&on(options), &what).await,
        Command::Completion(what) => completion::run(program, &what),
    }
}
