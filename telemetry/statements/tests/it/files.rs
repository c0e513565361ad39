//! Statement, evidence and manifest as files, and both verifiers.

use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use statements::{Verification, verify};
use std::path::PathBuf;
use std::process::Command;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/clients/python/verify_statement.py");

#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) statement: Value,
    /// Rows with their line breaks.
    pub(crate) evidence: String,
    pub(crate) earlier: Vec<String>,
    pub(crate) manifest: Value,
    key: [u8; 32],
}

pub(crate) fn sha256(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text))
}

pub(crate) fn manifest_entry(id: &str, key: [u8; 32]) -> Value {
    let public = SigningKey::from_bytes(&key).verifying_key().to_bytes();
    json!({"id": id, "type": "Ed25519", "publicKey": signatures::PublicKey::from_bytes(&public).unwrap().to_multibase()})
}

impl Files {
    pub(crate) fn new(statement: Value, evidence: String, earlier: Vec<String>) -> Self {
        let key = [7; 32];
        let manifest = json!({"keys": [manifest_entry("key-2025", [6; 32]), manifest_entry("key-2026", key)]});
        let mut files = Self { statement, evidence, earlier, manifest, key };
        files.sign();
        files
    }

    pub(crate) fn sign(&mut self) {
        let members = self.statement.as_object_mut().unwrap();
        members.remove("signature");
        // Members are sorted. All of their characters are below U+E000.
        let signed = Value::from(members.clone()).to_string();
        let value = SigningKey::from_bytes(&self.key).sign(signed.as_bytes()).to_bytes();
        self.statement["signature"] = json!({"keyid": "key-2026", "value": data_encoding::BASE64.encode(&value)});
    }

    /// Sets the evidence digest and signs, as a cheating service would.
    pub(crate) fn name_evidence_and_sign(&mut self) {
        let hours = self.evidence.lines().filter(|row| row.contains(r#""row":"hour""#)).count();
        let reports = self.evidence.lines().count() - hours;
        self.statement["evidence"] = json!({"hours": hours, "reports": reports, "sha256": sha256(&self.evidence)});
        self.sign();
    }

    pub(crate) fn verify(&self) -> Verification {
        self.verify_text(&self.statement.to_string())
    }

    pub(crate) fn verify_text(&self, statement: &str) -> Verification {
        let earlier: Vec<Vec<u8>> = self.earlier.iter().map(|text| text.clone().into_bytes()).collect();
        let manifest = self.manifest.to_string();
        verify(statement.as_bytes(), self.evidence.as_bytes(), &earlier, Some(manifest.as_bytes())).unwrap()
    }

    /// Runs the Python program, and asserts that it prints the crate's findings.
    pub(crate) fn assert_python_agrees(&self, statement: &str, name: &str, found: &Verification) {
        let folder = std::env::temp_dir().join(format!("statements-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| -> PathBuf {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut python = Command::new("python3");
        python.arg(PYTHON).args([file("statement", statement), file("evidence", &self.evidence)]);
        python.arg("--manifest").arg(file("manifest", &self.manifest.to_string()));
        for (n, earlier) in self.earlier.iter().enumerate() {
            python.arg("--previous").arg(file(&format!("earlier-{n}"), earlier));
        }
        let output = python.output().expect("this test needs Python 3.11");
        std::fs::remove_dir_all(&folder).unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, found.to_string(), "{name}");
        assert_eq!(output.status.code(), Some(i32::from(!found.is_ok())), "{name}");
    }
}
