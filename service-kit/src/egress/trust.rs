//! Whom to trust over HTTPS: who the system trusts, and the authority that the operator adds.

use anyhow::{Context, ensure};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Which check of a server's certificate failed: what its operator has to mend, and nothing else about the inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsFault {
    Expired,
    NotYetValid,
    /// Nobody who is trusted vouches for it.
    UnknownAuthority,
    OtherName,
    AuthorityAsServer,
    /// Anything else: no TLS at all, no version or cipher in common, a certificate that cannot be read.
    Other,
}

impl TlsFault {
    pub(super) fn of(error: &io::Error) -> Self {
        let fault = error.get_ref().and_then(|inside| inside.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(fault)) = fault else { return Self::Other };
        match fault {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            // A signature that is not right: an authority of the same name as one that is trusted.
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

/// TLS 1.2 and 1.3, no certificate of our own; `setting` named the authority that is trusted besides.
pub(crate) fn client_config(setting: &str, extra_authority: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // What is unreadable among them is the system's matter: the rest still counts.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = extra_authority {
        add_from(file, &mut roots).with_context(|| format!("{setting}={}", file.display()))?;
    }
    if roots.is_empty() {
        tracing::warn!("this system trusts no certificate authority: nothing can be called; install ca-certificates");
    }
    trusting(roots)
}

pub(crate) fn trusting_nobody() -> anyhow::Result<ClientConfig> {
    trusting(RootCertStore::empty())
}

fn trusting(roots: RootCertStore) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

fn add_from(file: &Path, roots: &mut RootCertStore) -> anyhow::Result<()> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| anyhow::anyhow!("not a file of PEM certificates ({error})"))?;
    ensure!(!certificates.is_empty(), "the file holds no certificate");
    for certificate in certificates {
        roots.add(certificate).context("a certificate in it cannot be an authority")?;
    }
    Ok(())
}
