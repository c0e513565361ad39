//! `webhook/` in the state folder: a certificate for `localhost`, so that webhooks can be sent to `telemetry webhook listen --tls` on this
//! machine.

use crate::all::private_file;
use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};
use service_kit::settings::WebhookSettings;
use std::path::Path;

/// Default address of `telemetry webhook listen`.
const RECEIVER: &str = "localhost:8787";
const AUTHORITY: &str = "authority.pem";
/// The receiver's certificate and key.
const SERVER: &str = "localhost.pem";

/// Allows the receiver on this machine, unless receivers or a certificate authority are configured.
pub(crate) fn allow_local_receiver(set: WebhookSettings, folder: &Path) -> anyhow::Result<WebhookSettings> {
    if !set.webhook_allow.is_empty() || set.webhook_extra_ca.is_some() {
        return Ok(set);
    }
    let folder = folder.join("webhook");
    if ![AUTHORITY, SERVER].iter().all(|file| folder.join(file).exists()) {
        create_certificates(&folder).with_context(|| format!("TELEMETRY_STATE_DIR: cannot create {}", folder.display()))?;
    }
    let allowed = RECEIVER.parse().map_err(anyhow::Error::msg)?;
    Ok(WebhookSettings { webhook_allow: allowed, webhook_extra_ca: Some(folder.join(AUTHORITY)), ..set })
}

/// Creates an authority and one certificate that it signs. The authority's key is not stored.
fn create_certificates(folder: &Path) -> anyhow::Result<()> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.not_after = date_time_ymd(2096, 1, 1);
    authority.distinguished_name.push(DnType::CommonName, "Webhook receivers on this machine");
    let (signing, key) = (KeyPair::generate()?, KeyPair::generate()?);
    let trusted = authority.self_signed(&signing)?.pem();
    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.not_after = authority.not_after;
    let shown = server.signed_by(&key, &Issuer::new(authority, signing))?.pem();
    private_file::write_atomically(&folder.join(AUTHORITY), &trusted)?;
    Ok(private_file::write_atomically(&folder.join(SERVER), &format!("{shown}{}", key.serialize_pem()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    #[test]
    fn allows_the_local_receiver_unless_configured() {
        let folder = tempfile::tempdir().unwrap();
        let allowed = allow_local_receiver(WebhookSettings::default(), folder.path()).unwrap();
        assert_eq!(allowed.webhook_allow.to_string(), RECEIVER);
        let server = folder.path().join("webhook").join(SERVER);
        let first = fs::read_to_string(&server).unwrap();
        assert!(first.contains("BEGIN CERTIFICATE") && first.contains("PRIVATE KEY"), "{first}");
        assert_eq!(fs::metadata(&server).unwrap().permissions().mode() & 0o777, 0o600);
        allow_local_receiver(WebhookSettings::default(), folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&server).unwrap(), first);
        fs::remove_file(allowed.webhook_extra_ca.as_ref().unwrap()).unwrap();
        let again = allow_local_receiver(WebhookSettings::default(), folder.path()).unwrap();
        assert!(
            again.webhook_extra_ca.unwrap().exists() && fs::read_to_string(&server).unwrap() != first,
            "both files are created again"
        );
        let set = WebhookSettings { webhook_allow: "a.test:8443".parse().unwrap(), ..WebhookSettings::default() };
        let left = allow_local_receiver(set, folder.path()).unwrap();
        assert_eq!((left.webhook_allow.to_string(), left.webhook_extra_ca), ("a.test:8443".to_owned(), None));
    }

    #[tokio::test]
    async fn authority_signs_the_receiver_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let trusted = allow_local_receiver(WebhookSettings::default(), folder.path()).unwrap().webhook_extra_ca.unwrap();
        let server = folder.path().join("webhook").join(SERVER);
        let provider = || Arc::new(crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
        let client = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let client = TlsConnector::from(Arc::new(client.with_root_certificates(roots).with_no_client_auth()));
        let shown = vec![CertificateDer::from_pem_file(&server).unwrap()];
        let acceptor = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let acceptor = acceptor.with_no_client_auth().with_single_cert(shown, PrivateKeyDer::from_pem_file(&server).unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(acceptor.unwrap()));
        for (name, is_trusted) in [("localhost", true), ("example.com", false)] {
            let (one, other) = tokio::io::duplex(65_536);
            let (called, _) = tokio::join!(client.connect(name.try_into().unwrap(), one), acceptor.accept(other));
            assert_eq!(called.is_ok(), is_trusted, "{name}");
        }
    }
}
