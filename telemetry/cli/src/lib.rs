//! The command line for people: one command per object type, and a client for the public API.
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
mod evidence;
mod failure;
mod resource;
mod import;
mod key;
mod log_file;
mod manifest;
mod options;
mod org;
mod output;
mod profile;
mod profile_file;
mod provider;
mod reads;
mod secret;
mod retry;
mod session;
mod settings;
mod sign;
mod sign_in;
mod statement;
mod terminal;
mod wait;
mod webhook;
mod time_argument;
mod labels;

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
use evidence::EvidenceNoun;
use failure::Failure;
use import::Import;
use key::KeyNoun;
use manifest::ManifestNoun;
use options::Options;
use org::OrgNoun;
use profile::ProfileNoun;
use reads::{Funnel, PagedRead, Reconciliation, Series, SortedRead, Summary, UnpagedRead, Urls};
use service_kit::clock::Clock;
use service_kit::process::Process;
use session::SessionNoun;
use settings::SettingsNoun;
use sign::SignNoun;
use sign_in::{Login, NoArgs};
use statement::StatementNoun;
use std::process::ExitCode;
use wait::Wait;
use webhook::WebhookNoun;

/// A command for people.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Sign in by email and save the session in a profile
    #[command(after_help = example!("login --url https://telemetry.example --email ada@newspaper.example"))]
    Login(WithOptions<Login>),
    /// Sign out and delete the session from the profile
    #[command(after_help = example!("logout"))]
    Logout(WithOptions<NoArgs>),
    /// Show the current user or key, its organization and its permissions
    #[command(after_help = example!("whoami"))]
    Whoami(WithOptions<NoArgs>),
    /// Manage profiles, which store service addresses and credentials
    Profile(WithOptions<ProfileNoun>),
    /// Manage your organizations and their members
    Org(WithOptions<OrgNoun>),
    /// Register and verify domains
    Domain(WithOptions<DomainNoun>),
    /// Manage API keys
    Key(WithOptions<KeyNoun>),
    /// Register manifests with the keys that sign your reports
    Manifest(WithOptions<ManifestNoun>),
    /// List and revoke analyst accounts, which read data with SQL
    Analyst(WithOptions<AnalystNoun>),
    /// Share data with partners, or request access to a publisher's data
    Delegation(WithOptions<DelegationNoun>),
    /// Manage webhook endpoints and test receivers
    Webhook(WithOptions<WebhookNoun>),
    /// Show or change the organization's settings
    Settings(WithOptions<SettingsNoun>),
    /// Show the organization's audit trail and rejected reports
    Audit(WithOptions<AuditNoun>),
    /// Manage log drains for CDNs and web servers
    Drain(WithOptions<DrainNoun>),
    /// List, watch, send and import events
    Events(WithOptions<EventsNoun>),
    /// Import a CDN or web server log; lines imported before don't count again
    #[command(after_help = example!("import access.log --provider combined --host www.newspaper.example"))]
    Import(WithOptions<Import>),
    /// Identify bots by user agent
    Bots(WithOptions<BotsNoun>),
    /// Show total events and sessions, by type, reporter and agent
    #[command(after_help = example!("summary --since 7d"))]
    Summary(WithOptions<Summary>),
    /// Show events over time
    #[command(after_help = example!("series --since 30d --split type"))]
    Series(WithOptions<Series>),
    /// Show events by page or section
    #[command(after_help = example!("urls --since 7d --path '/blog/*' --sort -content_cited"))]
    Urls(WithOptions<Urls>),
    /// Show which bots fetched your pages
    #[command(after_help = example!("crawlers --since 7d"))]
    Crawlers(WithOptions<PagedRead>),
    /// Show fetches that robots.txt disallows
    #[command(after_help = example!("robots --since 7d"))]
    Robots(WithOptions<PagedRead>),
    /// Show the hours that have data from a server or CDN
    #[command(after_help = example!("coverage --since 7d"))]
    Coverage(WithOptions<UnpagedRead>),
    /// Show fetches, groundings, citations, presentations and engagements
    #[command(after_help = example!("funnel --since 30d --by agent"))]
    Funnel(WithOptions<Funnel>),
    /// Compare the fetches that agents claim with those that servers saw
    #[command(after_help = example!("corroboration --since 7d"))]
    Corroboration(WithOptions<SortedRead>),
    /// Find differences between what agents claim and what servers saw
    #[command(after_help = example!("reconciliation --since 30d --by url --finding extra"))]
    Reconciliation(WithOptions<Reconciliation>),
    /// Wait until events are readable
    #[command(after_help = example!("wait --path /blog/launch --timeout 60"))]
    Wait(WithOptions<Wait>),
    /// Export an agent's sessions
    Session(WithOptions<SessionNoun>),
    /// Check the signatures of an event's reports
    Evidence(WithOptions<EvidenceNoun>),
    /// Create signing keys and sign requests
    Sign(SignNoun),
    /// Close months; read and verify statements
    Statement(WithOptions<StatementNoun>),
    /// Check the connection, the credential, drains and a domain; suggest fixes
    #[command(after_help = example!("doctor --domain newspaper.example"))]
    Doctor(WithOptions<Doctor>),
    /// Print a shell completion script
    #[command(after_help = example!("completion zsh"))]
    Completion(Completion),
}

/// A command with the options that every command has.
#[derive(Args, Clone, Debug)]
pub struct WithOptions<T: Args> {
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
                if !matches!(failure, Failure::OutputClosed) {
                    terminal::print_error(&failure);
                }
                ExitCode::from(failure.code())
            }
        }
    })
}

async fn dispatch(command: Command, program: clap::Command, clock: Clock) -> Result<(), Failure> {
    let on = |options: Options| Context { clock: clock.clone(), options };
    match command {
        Command::Login(WithOptions { what, options }) => sign_in::login(&on(options), &what).await,
        Command::Logout(WithOptions { options, .. }) => sign_in::logout(&on(options)).await,
        Command::Whoami(WithOptions { options, .. }) => sign_in::whoami(&on(options)).await,
        Command::Profile(WithOptions { what, options }) => profile::run(&on(options), &what),
        Command::Events(WithOptions { what, options }) => events::run(&on(options), &what).await,
        Command::Import(WithOptions { what, options }) => import::run(&on(options), &what).await,
        Command::Org(WithOptions { what, options }) => org::run(&on(options), &what).await,
        Command::Domain(WithOptions { what, options }) => domain::run(&on(options), &what).await,
        Command::Key(WithOptions { what, options }) => key::run(&on(options), &what).await,
        Command::Manifest(WithOptions { what, options }) => manifest::run(&on(options), &what).await,
        Command::Analyst(WithOptions { what, options }) => analyst::run(&on(options), &what).await,
        Command::Delegation(WithOptions { what, options }) => delegation::run(&on(options), &what).await,
        Command::Webhook(WithOptions { what, options }) => webhook::run(&on(options), &what).await,
        Command::Settings(WithOptions { what, options }) => settings::run(&on(options), &what).await,
        Command::Audit(WithOptions { what, options }) => audit::run(&on(options), &what).await,
        Command::Drain(WithOptions { what, options }) => drain::run(&on(options), &what).await,
        Command::Bots(WithOptions { what, options }) => bots::run(&on(options), &what),
        Command::Summary(WithOptions { what, options }) => reads::summary(&on(options), &what).await,
        Command::Series(WithOptions { what, options }) => reads::series(&on(options), &what).await,
        Command::Urls(WithOptions { what, options }) => reads::urls(&on(options), &what).await,
        Command::Crawlers(WithOptions { what, options }) => reads::crawlers(&on(options), &what).await,
        Command::Robots(WithOptions { what, options }) => reads::robots(&on(options), &what).await,
        Command::Coverage(WithOptions { what, options }) => reads::coverage(&on(options), &what).await,
        Command::Funnel(WithOptions { what, options }) => reads::funnel(&on(options), &what).await,
        Command::Corroboration(WithOptions { what, options }) => reads::corroboration(&on(options), &what).await,
        Command::Reconciliation(WithOptions { what, options }) => reads::reconciliation(&on(options), &what).await,
        Command::Wait(WithOptions { what, options }) => wait::run(&on(options), &what).await,
        Command::Session(WithOptions { what, options }) => session::run(&on(options), &what).await,
        Command::Sign(what) => sign::run(&clock, &what),
        Command::Evidence(WithOptions { what, options }) => evidence::run(&on(options), &what).await,
        Command::Statement(WithOptions { what, options }) => statement::run(&on(options), &what).await,
        Command::Doctor(WithOptions { what, options }) => doctor::run(&on(options), &what).await,
        Command::Completion(what) => completion::run(program, &what),
    }
}
