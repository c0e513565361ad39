//! Whom to trust over HTTPS: who the system trusts, and the authority that the operator adds.
//!
//! Must not be able to switch the check of a certificate off.

use anyhow::{Context, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

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
