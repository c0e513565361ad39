//! Trusted certificate authorities: the system's, and the one that the operator adds.

use anyhow::{Context, ensure};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Reason why a server's certificate was rejected: enough to fix it, without details about the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsError {
    Expired,
    NotYetValid,
    /// Not signed by a trusted authority.
    UnknownAuthority,
    OtherName,
    AuthorityAsServer,
    /// Any other reason: no TLS, no common version or cipher, an unreadable certificate.
    Other,
}

impl TlsError {
    pub(super) fn from_io_error(error: &io::Error) -> Self {
        let fault = error.get_ref().and_then(|inside| inside.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(fault)) = fault else { return Self::Other };
        match fault {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            // A bad signature means that an untrusted authority has the same name as a trusted one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::OtherName,
            CertificateError::Other(other)
                if matches!(other.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity)) =>
            {
                Self::AuthorityAsServer
            }
            _ => Self::Other,
        }
    }
}

/// Returns a client configuration for TLS 1.2 and 1.3 without a client certificate. Errors about `extra_authority` name `setting`.
pub(crate) fn client_config(setting: &str, extra_authority: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // Ignore the system's unreadable certificates.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = extra_authority {
        add_from(file, &mut roots).with_context(|| format!("{setting}={}", file.display()))?;
    }
    if roots.is_empty() {
        tracing::warn!("no certificate authorities found on this system, so every HTTPS call will fail; install ca-certificates");
    }
    trusting(roots)
}

pub(crate) fn trusting_no_authority() -> anyhow::Result<ClientConfig> {
    trusting(RootCertStore::empty())
}

fn trusting(roots: RootCertStore) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

fn add_from(file: &Path, roots: &mut RootCertStore) -> anyhow::Result<()> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| anyhow::anyhow!("not a PEM certificate file ({error})"))?;
    ensure!(!certificates.is_empty(), "the file contains no certificate");
    for certificate in certificates {
        roots.add(certificate).context("a certificate in the file is not a valid certificate authority")?;
    }
    Ok(())
}
