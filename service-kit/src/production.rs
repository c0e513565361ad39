//! Settings that `TELEMETRY_PROFILE=production` rejects because they are only suitable for development. Each error is one line
//! with the setting, its value and the fix.
//!
//! The stores' configuration is checked elsewhere (`kafka::check_topics`, `databases::check_clickhouse`).

mod network_size;

use crate::client_address::{ClientSettings, TrustedProxies};
use crate::database_clients;
use crate::egress::is_this_machine;
use crate::settings::{ClickHouseSettings, KafkaSettings, PostgresSettings, WebhookSettings};
use anyhow::ensure;
use sqlx::postgres::PgSslMode;
use url::Url;

impl KafkaSettings {
    /// Rejects brokers without TLS or client authentication, and requires three copies of each record.
    pub fn harden(&mut self) -> anyhow::Result<()> {
        self.security.harden()?;
        self.must_replicate = true;
        Ok(())
    }
}

impl PostgresSettings {
    /// Rejects unencrypted connections, except through a Unix socket.
    pub fn harden(&self) -> anyhow::Result<()> {
        let options = database_clients::postgres_options(self)?;
        let (host, port) = (options.get_host(), options.get_port());
        let is_encrypted = matches!(options.get_ssl_mode(), PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull);
        ensure!(
            is_encrypted || options.get_socket().is_some() || host.starts_with('/'),
            "DATABASE_URL={host}:{port}: production requires TLS to PostgreSQL; add ?sslmode=verify-full, and &sslrootcert=FILE for a private certificate authority"
        );
        Ok(())
    }
}

impl ClickHouseSettings {
    /// Rejects HTTP without TLS, except for connections to this machine.
    pub fn harden(&self) -> anyhow::Result<()> {
        let url = Url::parse(&self.clickhouse_url).ok();
        let url = url.as_ref().filter(|url| url.scheme() != "https" && !is_this_machine(url));
        let Some(url) = url else { return Ok(()) };
        let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
        anyhow::bail!(
            "CLICKHOUSE_URL={}://{host}:{port}: production requires TLS to ClickHouse; use https:// and the HTTPS port, and set TELEMETRY_CLICKHOUSE_CA for a private certificate authority",
            url.scheme()
        )
    }
}

impl ClientSettings {
    /// Rejects unset proxies (behind an unlisted proxy, all clients would share one address's limits) and networks so large that anyone
    /// could forge an address.
    pub fn harden(&self) -> anyhow::Result<()> {
        ensure!(
            self.trusted_proxies != TrustedProxies::Unset,
            "TELEMETRY_TRUSTED_PROXIES is not set: production requires it; list the networks of the reverse proxies, or use none if clients connect directly"
        );
        if let TrustedProxies::Networks(networks) = &self.trusted_proxies {
            ensure!(
                !network_size::is_too_broad(networks),
                "TELEMETRY_TRUSTED_PROXIES={}: production rejects public networks of /8 or larger (IPv6: /24), because clients could forge addresses; list only the networks of the reverse proxies, or use none if clients connect directly",
                networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            );
        }
        Ok(())
    }
}

impl WebhookSettings {
    /// Rejects settings that weaken the guard for outgoing requests.
    pub fn harden(&self) -> anyhow::Result<()> {
        ensure!(
            self.webhook_allow.allows_only_ports(),
            "WEBHOOK_ALLOW={}: production calls only public servers; remove all entries except those of the form *:PORT",
            self.webhook_allow
        );
        if let Some(file) = &self.webhook_extra_ca {
            anyhow::bail!("WEBHOOK_EXTRA_CA={}: production trusts only the system's authorities; remove it", file.display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres(url: &str) -> anyhow::Result<()> {
        PostgresSettings { database_url: url.to_owned() }.harden()
    }

    #[test]
    fn postgresql_requires_tls_or_a_unix_socket() {
        for taken in ["?sslmode=require", "?sslmode=verify-ca", "?sslmode=verify-full", "?host=/run/postgresql"] {
            postgres(&format!("postgres://u:hunter2@db.test/t{taken}")).unwrap();
        }
        for refused in ["", "?sslmode=disable", "?sslmode=allow", "?sslmode=prefer"] {
            let said = postgres(&format!("postgres://u:hunter2@db.test/t{refused}")).unwrap_err().to_string();
            assert!(said.starts_with("DATABASE_URL=db.test:5432: production requires TLS"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn clickhouse_requires_tls_unless_local() {
        let harden = |url: &str| ClickHouseSettings::at(url, "telemetry").harden();
        for taken in ["https://ch.test:8443", "http://127.0.0.1:8123", "http://[::1]:8123", "http://localhost:8123"] {
            harden(taken).unwrap();
        }
        for refused in ["http://ch.test:8123", "http://u:hunter2@10.0.0.1:8123", "http://localhost.evil.test:8123"] {
            let said = harden(refused).unwrap_err().to_string();
            assert!(said.starts_with("CLICKHOUSE_URL=http://") && said.contains("https://"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn requires_trusted_proxies_to_be_set() {
        let with = |said: &str| ClientSettings { trusted_proxies: said.parse().unwrap(), ..ClientSettings::default() };
        assert!(with("").harden().unwrap_err().to_string().starts_with("TELEMETRY_TRUSTED_PROXIES is not set: "));
        with("none").harden().unwrap();
        with("10.0.0.0/8").harden().unwrap();
    }

    #[test]
    fn rejects_the_internet_as_trusted_proxy() {
        let with = |said: &str| ClientSettings { trusted_proxies: said.parse().unwrap(), ..ClientSettings::default() };
        for said in ["0.0.0.0/0", "::/0", "10.0.0.0/8,0.0.0.0/1,128.0.0.0/1", "8.0.0.0/8"] {
            let refused = with(said).harden().unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("TELEMETRY_TRUSTED_PROXIES={said}: production rejects public networks")),
                "{refused}"
            );
            assert!(
                refused.contains("list only the networks of the reverse proxies") && refused.lines().count() == 1,
                "{refused}"
            );
        }
        with("10.0.0.0/8,104.64.0.0/10,2606:4700::/32").harden().unwrap();
    }

    #[test]
    fn webhooks_may_use_public_servers_on_any_port() {
        let with = |allowed: &str| WebhookSettings { webhook_allow: allowed.parse().unwrap(), ..WebhookSettings::default() };
        with("*:8443,*:9443").harden().unwrap();
        let said = with("*:8443,localhost:9443").harden().unwrap_err().to_string();
        assert!(said.starts_with("WEBHOOK_ALLOW=*:8443,localhost:9443: "), "{said}");
        let extra = WebhookSettings { webhook_extra_ca: Some("own.pem".into()), ..WebhookSettings::default() };
        assert!(extra.harden().unwrap_err().to_string().starts_with("WEBHOOK_EXTRA_CA=own.pem: "));
    }
}
