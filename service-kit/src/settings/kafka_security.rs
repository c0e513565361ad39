//! Authentication and encryption of Kafka connections: TLS, SASL, both or neither.

use super::SecretSetting;
use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use rdkafka::ClientConfig;
use std::path::{Path, PathBuf};

/// Kafka's security protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// No encryption, no authentication.
    #[default]
    Plaintext,
    /// TLS, with a client certificate if one is set.
    Ssl,
    /// SASL without encryption.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

/// SASL mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mechanism {
    /// Sends the password itself; use it only with TLS.
    Plain,
    /// SCRAM with SHA-256.
    #[value(name = "scram-sha-256")]
    ScramSha256,
    /// SCRAM with SHA-512.
    #[default]
    #[value(name = "scram-sha-512")]
    ScramSha512,
}

/// Security settings of the Kafka clients.
#[derive(Args, Clone, Debug, Default)]
pub struct KafkaSecurity {
    /// Security protocol for broker connections
    #[arg(long, env = "TELEMETRY_KAFKA_SECURITY", default_value = "plaintext", value_enum)]
    pub kafka_security: Protocol,
    /// PEM file with the brokers' certificate authorities, instead of the system's
    #[arg(long, env = "TELEMETRY_KAFKA_CA", value_name = "FILE")]
    pub kafka_ca: Option<PathBuf>,
    /// PEM file with the client certificate, followed by its chain
    #[arg(long, env = "TELEMETRY_KAFKA_CERTIFICATE", value_name = "FILE", requires = "kafka_certificate_key")]
    pub kafka_certificate: Option<PathBuf>,
    /// PEM file with the client certificate's private key
    #[arg(long, env = "TELEMETRY_KAFKA_CERTIFICATE_KEY", value_name = "FILE", requires = "kafka_certificate")]
    pub kafka_certificate_key: Option<PathBuf>,
    /// SASL mechanism
    #[arg(long, env = "TELEMETRY_KAFKA_SASL_MECHANISM", default_value = "scram-sha-512", value_enum)]
    pub kafka_sasl_mechanism: Mechanism,
    /// SASL user name
    #[arg(long, env = "TELEMETRY_KAFKA_USER", value_name = "NAME", requires = "kafka_password")]
    pub kafka_user: Option<String>,
    /// SASL password
    #[arg(long, env = "TELEMETRY_KAFKA_PASSWORD", value_name = "PASSWORD", hide_env_values = true, requires = "kafka_user")]
    pub kafka_password: Option<SecretSetting>,
}

impl Protocol {
    fn is_encrypted(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    fn signs_in(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }

    fn spelling(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }
}

impl KafkaSecurity {
    /// Configures the client library. First checks for mistakes that the library would report late and verbosely.
    pub(crate) fn apply(&self, config: &mut ClientConfig) -> anyhow::Result<()> {
        let protocol = self.kafka_security;
        config.set("security.protocol", protocol.name());
        for (setting, key, file) in [
            ("TELEMETRY_KAFKA_CA", "ssl.ca.location", &self.kafka_ca),
            ("TELEMETRY_KAFKA_CERTIFICATE", "ssl.certificate.location", &self.kafka_certificate),
            ("TELEMETRY_KAFKA_CERTIFICATE_KEY", "ssl.key.location", &self.kafka_certificate_key),
        ] {
            let Some(file) = file else { continue };
            ensure!(
                protocol.is_encrypted(),
                "{setting}={}: TELEMETRY_KAFKA_SECURITY={} does not use TLS; set it to ssl or sasl-ssl, or remove this setting",
                file.display(),
                protocol.spelling()
            );
            config.set(key, readable(setting, file)?);
        }
        if protocol.is_encrypted() {
            config.set("ssl.endpoint.identification.algorithm", "https");
            if self.kafka_ca.is_none() {
                // Use the system's certificate authorities, wherever the linked OpenSSL would look for its own.
                config.set("ssl.ca.location", "probe");
            }
        }
        if !protocol.signs_in() {
            if let Some(user) = &self.kafka_user {
                bail!(
                    "TELEMETRY_KAFKA_USER={user}: TELEMETRY_KAFKA_SECURITY={} does not authenticate users; set it to sasl-ssl, or remove this setting",
                    protocol.spelling()
                );
            }
            return Ok(());
        }
        let (Some(user), Some(password)) = (&self.kafka_user, &self.kafka_password) else {
            bail!(
                "TELEMETRY_KAFKA_SECURITY={}: a user and a password are required; set TELEMETRY_KAFKA_USER and TELEMETRY_KAFKA_PASSWORD",
                protocol.spelling()
            );
        };
        let mechanism = match self.kafka_sasl_mechanism {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        };
        config.set("sasl.mechanism", mechanism).set("sasl.username", user).set("sasl.password", password.reveal());
        Ok(())
    }

    /// Rejects unencrypted connections and brokers without client authentication.
    pub(crate) fn harden(&self) -> anyhow::Result<()> {
        let protocol = self.kafka_security;
        ensure!(
            protocol.is_encrypted(),
            "TELEMETRY_KAFKA_SECURITY={}: production requires TLS to the brokers; set it to sasl-ssl, or to ssl with a certificate",
            protocol.spelling()
        );
        ensure!(
            protocol.signs_in() || self.kafka_certificate.is_some(),
            "TELEMETRY_KAFKA_SECURITY=ssl: production requires client authentication; set TELEMETRY_KAFKA_CERTIFICATE, or use sasl-ssl and a user"
        );
        Ok(())
    }
}

fn readable<'a>(setting: &str, file: &'a Path) -> anyhow::Result<&'a str> {
    let opened = std::fs::File::open(file);
    opened.map_err(|error| anyhow::anyhow!("{setting}={}: {error}; use a readable PEM file", file.display()))?;
    file.to_str().ok_or_else(|| anyhow::anyhow!("{setting}={}: the path is not UTF-8; rename the file", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(security: &KafkaSecurity) -> String {
        security.apply(&mut ClientConfig::new()).unwrap_err().to_string()
    }

    #[test]
    fn rejects_contradictions_without_showing_passwords() {
        let user = || (Some("telemetry".to_owned()), Some(SecretSetting::from("hunter2".to_owned())));
        let (kafka_user, kafka_password) = user();
        let plain = KafkaSecurity { kafka_user, kafka_password, ..KafkaSecurity::default() };
        assert!(refusal(&plain).starts_with("TELEMETRY_KAFKA_USER=telemetry: TELEMETRY_KAFKA_SECURITY=plaintext"));
        let no_user = KafkaSecurity { kafka_security: Protocol::SaslSsl, ..KafkaSecurity::default() };
        assert!(
            refusal(&no_user).starts_with("TELEMETRY_KAFKA_SECURITY=sasl-ssl: a user and a password are required"),
            "{}",
            refusal(&no_user)
        );
        let ca = KafkaSecurity { kafka_ca: Some("/nowhere.pem".into()), ..KafkaSecurity::default() };
        assert!(refusal(&ca).contains("does not use TLS"));
        let absent = KafkaSecurity { kafka_security: Protocol::Ssl, ..ca };
        assert!(refusal(&absent).starts_with("TELEMETRY_KAFKA_CA=/nowhere.pem: "), "{}", refusal(&absent));
        assert!(!format!("{plain:?}").contains("hunter2"));
    }

    #[test]
    fn trusts_system_or_configured_authorities() {
        let authorities = |security: &KafkaSecurity| {
            let mut config = ClientConfig::new();
            security.apply(&mut config).unwrap();
            config.get("ssl.ca.location").map(str::to_owned)
        };
        let tls = KafkaSecurity { kafka_security: Protocol::Ssl, ..KafkaSecurity::default() };
        assert_eq!(authorities(&tls).as_deref(), Some("probe"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = KafkaSecurity { kafka_ca: Some(file.path().to_owned()), ..tls };
        assert_eq!(authorities(&own).as_deref(), file.path().to_str());
        assert_eq!(authorities(&KafkaSecurity::default()), None);
    }

    #[test]
    fn production_requires_tls_and_authentication() {
        let with = |kafka_security| KafkaSecurity { kafka_security, ..KafkaSecurity::default() };
        for refused in [Protocol::Plaintext, Protocol::SaslPlaintext, Protocol::Ssl] {
            let said = with(refused).harden().unwrap_err().to_string();
            assert!(said.starts_with(&format!("TELEMETRY_KAFKA_SECURITY={}", refused.spelling())), "{said}");
        }
        with(Protocol::SaslSsl).harden().unwrap();
        KafkaSecurity { kafka_certificate: Some("client.pem".into()), ..with(Protocol::Ssl) }.harden().unwrap();
    }
}
