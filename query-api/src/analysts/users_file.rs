//! The file in ClickHouse's users.d that contains the analyst accounts. It contains password hashes, so only the account that ClickHouse
//! and this process run as can read it. The profile and the views' grants are in schemas/clickhouse/analysts.xml.

use super::analyst_accounts::Account;
use anyhow::Context;
use service_kit::private_files;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// One account, which may read only the views of `analytics`.
const USER: &str = "        <LOGIN>
            <password_sha256_hex>HASH</password_sha256_hex>
            <networks><ip>::/0</ip></networks>
            <profile>telemetry_analyst</profile>
            <quota>default</quota>
            <default_database>analytics</default_database>
            <grants>
                <query>GRANT SELECT ON analytics.events</query>
                <query>GRANT SELECT ON analytics.reports</query>
            </grants>
        </LOGIN>
";

pub(super) fn text(accounts: &[Account]) -> String {
    let user = |account: &Account| USER.replace("LOGIN", &account.login).replace("HASH", &account.password_hash);
    let users: String = accounts.iter().map(user).collect();
    format!(
        "<!-- Analyst accounts. `telemetry query-api analysts` overwrites this file. -->\n<clickhouse>\n    <users>\n{users}    </users>\n</clickhouse>\n"
    )
}

/// Atomically replaces the file if its text differs. Returns whether it did.
pub(super) fn write(file: &Path, text: &str) -> anyhow::Result<bool> {
    if fs::read_to_string(file).is_ok_and(|found| found == text) {
        return Ok(false);
    }
    let replace = || {
        // ClickHouse ignores files with this extension.
        let draft = file.with_extension("new");
        let mut written = private_files::create(&draft)?;
        written.write_all(text.as_bytes())?;
        written.sync_all()?;
        fs::rename(&draft, file)
    };
    replace().with_context(|| format!("TELEMETRY_ANALYST_USERS={}: failed to write the file", file.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn users_file_is_readable_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.xml");
        fs::write(file.with_extension("new"), "left by a crash").unwrap();
        assert!(write(&file, &text(&[])).unwrap());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
