//! `telemetry identity-api admin …`: commands for operators on the server. They call the same functions as the HTTP API.

mod access_requests;
mod analysts;
mod domains;
mod keys;
mod manifest_hosts;
mod operators;
mod organizations;
mod partners;
mod command_output;

use crate::Settings;
use crate::access::prelude::*;
use crate::people;
use crate::people::mail::Mailer;
use crate::people::sign_in;
use crate::request::email_address::EmailAddress;
use crate::request::ownable_host::parse_ownable;
use chrono::SubsecRound;
use clap::{Args, Subcommand};
use schemas::site::Site;
use service_kit::clock::Clock;
use service_kit::command_output::{CommandError, OutputOptions};
use service_kit::databases;
use sqlx::{Postgres, Transaction};
use url::Url;

#[derive(Args, Clone, Debug)]
pub struct Admin {
    #[command(flatten)]
    output: OutputOptions,
    /// Email address of the operator, for the audit trail
    #[arg(long = "as", global = true, value_name = "EMAIL", value_parser = email)]
    operator: Option<EmailAddress>,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum AdminCommand {
    /// Manage operators, who review access requests
    #[command(subcommand)]
    Operator(operators::AdminCommand),
    /// Manage organizations
    #[command(subcommand)]
    Organization(organizations::AdminCommand),
    /// Manage API keys
    #[command(subcommand)]
    Key(keys::AdminCommand),
    /// Manage domains
    #[command(subcommand)]
    Domain(domains::AdminCommand),
    /// Review requests for platform and agent organizations
    #[command(subcommand)]
    AccessRequest(access_requests::AdminCommand),
    /// Manage trusted partners, which can create organizations
    #[command(subcommand)]
    Partner(partners::AdminCommand),
    /// Attest hosts on which platforms and agents publish manifests
    #[command(subcommand)]
    ManifestHost(manifest_hosts::AdminCommand),
    /// Manage analyst accounts in ClickHouse
    #[command(subcommand)]
    Analyst(analysts::AdminCommand),
}

struct AdminContext {
    pool: PgPool,
    clock: Clock,
    operator: Option<UserId>,
    /// `None` if no mail delivery is configured.
    mailer: Option<Mailer>,
    /// Page that emails link to, if a page for people is configured.
    entrance: Option<Url>,
}

impl AdminContext {
    async fn open(settings: &Settings, operator: Option<&EmailAddress>, clock: Clock) -> anyhow::Result<Self> {
        let pool = databases::postgres(&settings.postgres)?;
        databases::check_postgres(&pool).await?;
        let operator = match operator {
            None => None,
            Some(email) => {
                let found = people::find_operator(&pool, email).await?;
                Some(found.ok_or_else(|| anyhow::anyhow!("--as {email}: no operator has this address"))?)
            }
        };
        let can_mail = settings.mail.smtp_url.is_some() || settings.mail.mail_dir.is_some();
        let mailer = can_mail.then(|| settings.mail.mailer()).transpose()?;
        let entrance = sign_in::entrance(settings.sign_in.sign_in_url.as_ref());
        Ok(Self { pool, clock, operator, mailer, entrance })
    }

    fn author(&self) -> Author {
        self.operator.map_or(Author::System, Author::Operator)
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now().trunc_subsecs(3)
    }

    async fn begin(&self) -> Result<Transaction<'static, Postgres>, ApiError> {
        Ok(self.pool.begin().await?)
    }
}

impl Admin {
    /// Runs the command and prints its result.
    pub async fn run(self, settings: &Settings, clock: Clock) -> anyhow::Result<()> {
        let office = AdminContext::open(settings, self.operator.as_ref(), clock).await?;
        let done = match self.command {
            AdminCommand::Operator(command) => command.run(&office).await,
            AdminCommand::Organization(command) => command.run(&office).await,
            AdminCommand::Key(command) => command.run(&office).await,
            AdminCommand::Domain(command) => command.run(&office).await,
            AdminCommand::AccessRequest(command) => command.run(&office).await,
            AdminCommand::Partner(command) => command.run(&office).await,
            AdminCommand::ManifestHost(command) => command.run(&office).await,
            AdminCommand::Analyst(command) => command.run(&office).await,
        };
        done.map_err(CommandError::from)?.print(self.output.format())
    }
}

fn email(text: &str) -> Result<EmailAddress, &'static str> {
    EmailAddress::parse(text)
}

fn site(text: &str) -> Result<Site, &'static str> {
    parse_ownable(text)
}
