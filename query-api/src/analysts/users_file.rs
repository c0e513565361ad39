//! The file of `users.d` with the accounts of analysts: users, their profiles, and the row policies of the users that their views run
//! by.
//!
//! Must hold no password, only hashes; must grant an analyst nothing but its own views, and let nobody sign in as the user that
//! those run by.

use crate::read_model::EXACT_SETTINGS;
use anyhow::Context;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// What one account may take of the server. Nothing of it can be changed by a session, but the time, to a shorter one.
const LIMITS: &[(&str, &str)] = &[
    ("readonly", "1"),
    ("allow_ddl", "0"),
    ("allow_introspection_functions", "0"),
    ("max_execution_time", "60"),
    ("max_memory_usage", "2147483648"),
    ("max_memory_usage_for_user", "3221225472"),
    ("max_concurrent_queries_for_user", "4"),
    ("max_threads", "4"),
    ("max_bytes_before_external_group_by", "536870912"),
    ("max_bytes_before_external_sort", "536870912"),
    ("max_temporary_data_on_disk_size_for_user", "34359738368"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
];

/// A hash that no password is known to have.
const NO_PASSWORD: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// An account as the file has it.
pub(super) struct User<'a> {
    /// The user of ClickHouse, and its database.
    pub(super) login: &'a str,
    /// SHA-256 of the password, in hexadecimal.
    pub(super) password_hash: &'a str,
    /// Which rows of the index it may see, as a condition.
    pub(super) hosts: &'a str,
    /// The number of that condition.
    pub(super) generation: u64,
}

/// The user that an account's views run by.
pub(super) fn definer(login: &str) -> String {
    format!("{login}_views")
}

/// The whole file.
pub(super) fn text(database: &str, accounts: &[User<'_>]) -> String {
    let users: String = accounts.iter().map(|account| users(database, account)).collect();
    format!(
        "<!-- Accounts of analysts. Written by `telemetry query-api analysts`; what is changed here is overwritten. -->\n\
         <clickhouse>\n    <profiles>\n        <telemetry_analyst>\n{limits}{exact}            <constraints>\n                \
         <max_execution_time><min>1</min><max>60</max><changeable_in_readonly/></max_execution_time>\n            </constraints>\n        \
         </telemetry_analyst>\n        <telemetry_analyst_views>\n{exact}        </telemetry_analyst_views>\n    </profiles>\n    \
         <users>\n{users}    </users>\n</clickhouse>\n",
        limits = settings(LIMITS),
        exact = settings(EXACT_SETTINGS) + &settings(&[("use_query_condition_cache", "0")]),
    )
}

fn settings(settings: &[(&str, &str)]) -> String {
    settings.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "            <{name}>{value}</{name}>");
        text
    })
}

fn users(database: &str, account: &User<'_>) -> String {
    let login = account.login;
    let analyst = user(
        login,
        account.password_hash,
        "<ip>::/0</ip>",
        "telemetry_analyst",
        &format!("<default_database>{login}</default_database>"),
        &[format!("GRANT SELECT ON {login}.*")],
    );
    let policies = format!(
        "<databases><{database}>\n                <retrieval_index><filter>{hosts}</filter></retrieval_index>\n                \
         <analyst_leases><filter>login = '{login}' AND generation = {generation}</filter></analyst_leases>\n            \
         </{database}></databases>",
        hosts = escaped(account.hosts),
        generation = account.generation,
    );
    let granted = ["retrieval_index", "analyst_leases"].map(|table| format!("GRANT SELECT ON {database}.{table}"));
    analyst + &user(&definer(login), NO_PASSWORD, "", "telemetry_analyst_views", &policies, &granted)
}

fn user(name: &str, hash: &str, networks: &str, profile: &str, more: &str, grants: &[String]) -> String {
    let grants: String = grants.iter().map(|grant| format!("<query>{grant}</query>")).collect();
    format!(
        "        <{name}>\n            <password_sha256_hex>{hash}</password_sha256_hex>\n            <networks>{networks}</networks>\n            \
         <profile>{profile}</profile>\n            <quota>default</quota>\n            {more}\n            <grants>{grants}</grants>\n        </{name}>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Puts the file in place of what it was, whole, and says whether that was something else.
pub(super) fn write(file: &Path, text: &str) -> anyhow::Result<bool> {
    if fs::read_to_string(file).is_ok_and(|found| found == text) {
        return Ok(false);
    }
    let replace = || {
        let mut beside = tempfile_beside(file)?;
        beside.1.write_all(text.as_bytes())?;
        beside.1.sync_all()?;
        fs::rename(&beside.0, file)
    };
    replace().with_context(|| format!("TELEMETRY_ANALYST_USERS={}: the file cannot be written", file.display()))?;
    Ok(true)
}

/// A file of another name in the same folder; not one that ClickHouse reads.
fn tempfile_beside(file: &Path) -> std::io::Result<(std::path::PathBuf, fs::File)> {
    let beside = file.with_extension("new");
    Ok((beside.clone(), fs::File::create(beside)?))
}
