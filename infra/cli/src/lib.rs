//! The service from a terminal: one command for each noun, the public API and nothing else behind it.
//!
//! ```text
//!  options, environment, profile ──► context ──► client ──► the service
//!                                                  │
//!                           standard output ◄── output
//! ```
//!
//! Must print data on standard output and everything else on standard error, and must not take or show a secret where others see it.

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
mod sign_in;
mod talk;
mod webhook;
mod window;

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
use sign_in::{Login, Nothing};
use std::process::ExitCode;
use webhook::WebhookNoun;

/// What a person can ask for.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Sign in by a mail, and keep the session in the profile
    Login(On<Login>),
    /// End the session of the profile
    Logout(On<Nothing>),
    /// Show who asks, and for which organisation
    Whoami(On<Nothing>),
    /// Profiles: services under names, with the credentials for them
    Profile(On<ProfileNoun>),
    /// Organisations of the person who is signed in; the service deletes none
    Org(On<OrgNoun>),
    /// Domains and their proof
    Domain(On<DomainNoun>),
    /// API keys
    Key(On<KeyNoun>),
    /// Delegations: who may read whose figures
    Delegation(On<DelegationNoun>),
    /// Webhook endpoints, and help for receivers
    Webhook(On<WebhookNoun>),
    /// Settings of the organisation
    Settings(On<SettingsNoun>),
    /// What was changed for the organisation, and what of its reports was refused
    Audit(On<AuditNoun>),
    /// Log streams of CDNs and servers
    Drain(On<DrainNoun>),
    /// Events: list, tail, send, import
    Events(On<EventsNoun>),
    /// Take a log file in, as if its provider had streamed it; a line that came already counts once
    Import(On<Import>),
    /// Bots by their user agents
    Bots(On<BotsNoun>),
    /// Totals of a window
    Summary(On<Summary>),
    /// Events over time
    Series(On<Series>),
    /// Pages by events
    Urls(On<Urls>),
    /// Bots that fetched, and what came back
    Crawlers(On<List>),
    /// Hours of which anything is known
    Coverage(On<Whole>),
    /// Retrieved, grounded, cited, presented, engaged
    Funnel(On<Funnel>),
    /// Retrievals that both an agent and a server tell of, or one of them
    Corroboration(On<Sorted>),
    /// Sessions of an agent
    Session(On<SessionNoun>),
    /// Say what is right between here and the first event, and what to do about what is not
    Doctor(On<Doctor>),
    /// Print the completion script of a shell
    Completion(Completion),
}

/// A command, and on which service by whom.
#[derive(Args, Clone, Debug)]
pub struct On<T: Args> {
    #[command(flatten)]
    what: T,
    #[command(flatten)]
    options: Options,
}

/// Does it; the exit code says how it went (docs/cli.md#exit-codes).
///
/// `program` is the whole program that this is a part of.
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
        Command::Session(On { what, options }) => session::run(&on(options), &what).await,
        Command::Doctor(On { what, options }) => doctor::run(&on(options), &what).await,
        Command::Completion(what) => completion::run(program, &what),
    }
}
