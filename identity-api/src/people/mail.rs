//! Sends emails over SMTP or, if no server is configured, stores each as an `.eml` file.
//!
//! Email content isn't logged, because it contains tokens.

use crate::request::email_address::EmailAddress;
use anyhow::{Context, bail, ensure};
use chrono::{DateTime, Utc};
use clap::Args;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Mailbox};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use service_kit::settings::SecretSetting;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;
use uuid::Uuid;

/// Timeout of one step in an SMTP session.
const SMTP_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum line length in bytes (RFC 5322).
const MAX_LINE_BYTES: usize = 998;
const LOCAL_SENDER: &str = "Telemetry <telemetry@localhost>";

#[derive(Args, Clone, Debug, Default)]
pub struct MailSettings {
    /// Mail server, such as `smtps://user:password@mail.example.com` or `smtp://host:587?tls=required` (STARTTLS)
    #[arg(long, env = "TELEMETRY_SMTP_URL", value_name = "URL", hide_env_values = true)]
    pub smtp_url: Option<SecretSetting>,
    /// Sender of emails, such as `Telemetry <telemetry@example.com>`; required with a mail server
    #[arg(long, env = "TELEMETRY_MAIL_FROM", value_name = "ADDRESS")]
    pub mail_from: Option<String>,
    /// Folder for emails as `.eml` files, if no mail server is set
    #[arg(long, env = "TELEMETRY_MAIL_DIR", value_name = "DIR")]
    pub mail_dir: Option<PathBuf>,
}

/// Returns whether the connection requires TLS, whatever the server offers.
fn must_encrypt(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let said: Vec<_> = url.query_pairs().filter(|(name, _)| name == "tls").map(|(_, value)| value).collect();
    let is_demanded = |value: &str| matches!(value, "required" | "wrapper");
    said.iter().all(|value| is_demanded(value)) && (url.scheme() == "smtps" || !said.is_empty())
}

impl MailSettings {
    /// Rejects mail files, because they contain sign-in links, and mail servers without TLS.
    pub(crate) fn harden(&self) -> anyhow::Result<()> {
        let Some(url) = &self.smtp_url else {
            let folder = self.mail_dir.as_deref().unwrap_or(Path::new("")).display();
            bail!("TELEMETRY_MAIL_DIR={folder}: production requires SMTP; set TELEMETRY_SMTP_URL and TELEMETRY_MAIL_FROM");
        };
        ensure!(
            must_encrypt(url.reveal()),
            "TELEMETRY_SMTP_URL: production requires TLS to the mail server; use smtps://, or add ?tls=required"
        );
        Ok(())
    }

    /// Creates the mailer, or returns an error that names the fix.
    pub fn mailer(&self) -> anyhow::Result<Mailer> {
        let from = match (&self.mail_from, &self.smtp_url) {
            (Some(from), _) => from.as_str(),
            (None, None) => LOCAL_SENDER,
            (None, Some(_)) => bail!("TELEMETRY_MAIL_FROM is not set: TELEMETRY_SMTP_URL requires a sender"),
        };
        let from: Mailbox = from.parse().ok().with_context(|| {
            format!("TELEMETRY_MAIL_FROM={from:?}: invalid address; use the form `Telemetry <telemetry@example.com>`")
        })?;
        let outlet = match (&self.smtp_url, &self.mail_dir) {
            (Some(url), _) => MailTransport::Server(smtp(url)?),
            (None, Some(folder)) => MailTransport::Folder(folder.clone()),
            (None, None) => {
                bail!("no email delivery: set TELEMETRY_SMTP_URL, or TELEMETRY_MAIL_DIR to write each email to a file")
            }
        };
        Ok(Mailer { from, outlet })
    }
}

fn smtp(url: &SecretSetting) -> anyhow::Result<AsyncSmtpTransport<Tokio1Executor>> {
    // lettre's error can contain the password.
    let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.reveal()).map_err(|_| {
        anyhow::anyhow!("TELEMETRY_SMTP_URL: not a valid URL; use the form smtps://user:password@mail.example.com")
    })?;
    Ok(builder.timeout(Some(SMTP_TIMEOUT)).build())
}

#[derive(Clone)]
pub struct Mailer {
    from: Mailbox,
    outlet: MailTransport,
}

#[derive(Clone)]
enum MailTransport {
    Server(AsyncSmtpTransport<Tokio1Executor>),
    Folder(PathBuf),
}

impl Mailer {
    /// Sends an email and waits until the server has accepted it or the file is written.
    pub async fn send(&self, to: &EmailAddress, subject: &str, text: &str) -> anyhow::Result<()> {
        let to: Address = to.as_str().parse().context("a parsed address is valid")?;
        // Subjects contain names that people chose, which must not end the header line.
        let subject: String = subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mail = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(subject)
            .header(ContentType::TEXT_PLAIN)
            .body(body(text))?;
        match &self.outlet {
            MailTransport::Server(server) => server.send(mail).await.map(drop).context("the mail server rejected an email"),
            MailTransport::Folder(folder) => {
                let folder = folder.clone();
                let bytes = mail.formatted();
                tokio::task::spawn_blocking(move || keep(&folder, &bytes)).await?
            }
        }
    }

    /// Sends the same email to each address. Failures are logged, because the change is already committed.
    pub(crate) async fn send_each(&self, addresses: Result<Vec<String>, sqlx::Error>, subject: &str, text: &str) {
        let addresses = addresses.inspect_err(|error| tracing::error!("failed to read an email's recipients: {error}"));
        for address in addresses.unwrap_or_default() {
            let Ok(to) = EmailAddress::parse(&address) else { continue };
            if let Err(error) = self.send(&to, subject, text).await {
                tracing::error!("failed to send an email: {error:#}");
            }
        }
    }
}

/// Returns a time as emails show it, rounded down to the minute.
pub(crate) fn minute(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Keeps ASCII text unchanged, so that links and commands can be copied from a file; lettre would fold long lines.
fn body(text: &str) -> Body {
    let text = text.replace(['\0', '\r'], "");
    let lines = text.lines().collect::<Vec<_>>().join("\r\n") + "\r\n";
    if text.is_ascii() && text.lines().all(|line| line.len() <= MAX_LINE_BYTES) {
        return Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit);
    }
    Body::new(lines)
}

/// Writes the file atomically, readable only by its owner. File names start with a time and a counter, so they sort by age.
fn keep(folder: &Path, mail: &[u8]) -> anyhow::Result<()> {
    let name = Uuid::now_v7();
    let fresh = folder.join(format!(".{name}.new"));
    let kept = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).and_then(|()| {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?.write_all(mail)?;
        fs::rename(&fresh, folder.join(format!("{name}.eml")))
    });
    kept.with_context(|| format!("TELEMETRY_MAIL_DIR={}: failed to write an email", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn refusal(settings: &MailSettings) -> String {
        settings.mailer().err().unwrap().to_string()
    }

    #[test]
    fn detects_required_tls_from_scheme_or_parameter() {
        for url in [
            "smtps://mail.test",
            "smtps://u:p@mail.test?tls=required",
            "smtp://mail.test:587?tls=required",
            "smtp://mail.test?tls=wrapper",
        ] {
            assert!(must_encrypt(url), "{url}");
        }
        for url in [
            "smtp://mail.test",
            "smtp://u:tls=required@mail.test",
            "smtp://mail.test?nottls=required",
            "smtp://mail.test?tls=opportunistic&x=tls=required",
            "smtp://mail.test?tls=required&tls=opportunistic",
            "smtps://mail.test?tls=opportunistic",
        ] {
            assert!(!must_encrypt(url), "{url}");
        }
    }

    #[tokio::test]
    async fn email_files_sort_by_age() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mail");
        let mailer = MailSettings { mail_dir: Some(folder.clone()), ..MailSettings::default() }.mailer().unwrap();
        let to = EmailAddress::parse("jane@example.com").unwrap();
        for number in 0..50 {
            mailer.send(&to, "Gr\u{fc}\u{df}e\r\nBcc: evil@example.com", &format!("mail {number}\n")).await.unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        assert_eq!(names.len(), 50, "only emails");
        for (number, path) in names.iter().enumerate() {
            let mail = fs::read_to_string(path).unwrap();
            let (head, body) = mail.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.trim_end(), format!("mail {number}"), "{}", path.display());
            assert!(head.contains("To: jane@example.com") && !head.contains("\r\nBcc"), "{head}");
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn keeps_long_ascii_lines_and_encodes_other_text() {
        let long = "x".repeat(900);
        assert_eq!(body(&format!("{long}\nb\n")).as_ref(), format!("{long}\r\nb\r\n").as_bytes());
        for encoded in ["Gr\u{fc}\u{df}e", "\0\r", &"x".repeat(999)] {
            let body = body(encoded);
            assert!(body.as_ref().is_ascii() && !body.as_ref().contains(&0), "{encoded}");
            assert!(body.as_ref().split(|byte| *byte == b'\n').all(|line| line.len() <= 998), "{encoded}");
        }
    }

    #[test]
    fn rejects_bad_settings_without_showing_the_password() {
        let nothing = refusal(&MailSettings::default());
        assert!(nothing.contains("TELEMETRY_SMTP_URL") && nothing.contains("TELEMETRY_MAIL_DIR"), "{nothing}");
        let server = |url: &str, from: Option<&str>| MailSettings {
            smtp_url: Some(url.to_owned().into()),
            mail_from: from.map(str::to_owned),
            mail_dir: None,
        };
        assert!(refusal(&server("smtps://mail.example.com", None)).starts_with("TELEMETRY_MAIL_FROM is not set"));
        assert!(refusal(&server("smtps://mail.example.com", Some("nobody"))).starts_with("TELEMETRY_MAIL_FROM=\"nobody\""));
        for url in ["", "hunter2", "http://user:hunter2@mail.example.com", "smtp://"] {
            let refused = refusal(&server(url, Some("a@example.com")));
            assert!(refused.starts_with("TELEMETRY_SMTP_URL") && !refused.contains("hunter2"), "{refused}");
        }
        let shown = format!("{:?}", server("smtps://user:hunter2@mail.example.com", None));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
