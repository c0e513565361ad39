//! Runs ClickHouse's engine as a library. `serve` doesn't return while the engine runs, so the launcher starts it as a separate process.
//! The services create their tables.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::password::Password;
use crate::private_files;
use crate::server_config::ServerConfig;
use crate::server_kind::TELEMETRY;
use crate::test_accounts::ClickHouseUsers;

/// Opens the HTTP listener, then sleeps forever, because the engine exits after its last statement. The native protocol's listener stays
/// closed unless a test needs it: it accepts the engine's default user without a password, and a wrong password for that user makes the
/// engine exit.
const SERVE_STATEMENTS: &str = "SYSTEM START LISTEN HTTP; SELECT sleepEachRow(3) FROM system.numbers \
                     SETTINGS function_sleep_max_microseconds_per_block=0, max_block_size=1 FORMAT Null";

/// Name of the configuration file, if the server has one.
const CONFIG: &str = "config.xml";

/// Users section for an engine without a configuration file.
const OWN_USER: &str = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default><password/>\
    <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota><access_management>1</access_management>\
    </default></users></clickhouse>";

/// Users of the stack's server. `default` has no password and runs only the engine's own statements, so it has no other permissions. HTTP
/// requests must name another user in a header ([`HANDLERS`]), which a web page cannot send to another origin. `file()` requires no
/// permission: every user can read all files of this account. HASH stands for the password's hash.
const USERS: &str = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>\
    <default><no_password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>\
    <grants><query>GRANT SYSTEM LISTEN ON *.*</query><query>GRANT SELECT ON system.numbers</query></grants></default>\
    <telemetry><password_sha256_hex>HASH</password_sha256_hex><networks><ip>127.0.0.1</ip></networks>\
    <profile>default</profile><quota>default</quota><access_management>1</access_management></telemetry></users></clickhouse>";

/// `dGVsZW1ldHJ5` is `telemetry` in Base64, the prefix of all our accounts. In a request with `Authorization`, the engine would
/// also use the parameters `user` and `password`, and sign in as `default`, so such requests must not have parameters. With
/// `X-ClickHouse-User`, it rejects them itself.
const HANDLERS: &str = "<http_handlers>\
    <rule><url>/ping</url><handler><type>static</type><response_content>Ok.&#10;</response_content></handler></rule>\
    <rule><empty_query_string/><methods>GET,POST</methods><headers><Authorization>regex:Basic dGVsZW1ldHJ5.*</Authorization></headers>\
    <handler><type>dynamic_query_handler</type><query_param_name>query</query_param_name></handler></rule>\
    <rule><methods>GET,POST</methods><headers><X-ClickHouse-User>regex:telemetry.*</X-ClickHouse-User></headers>\
    <handler><type>dynamic_query_handler</type><query_param_name>query</query_param_name></handler></rule></http_handlers>";

/// Delay before a dropped table is deleted. The engine retries dropping tables that are still in use without pausing, which keeps a core
/// busy.
const DROPPED: &str = "<database_atomic_delay_before_drop_table_sec>3600</database_atomic_delay_before_drop_table_sec>";

/// The services' accounts, as deployed.
const ACCOUNTS: &str = include_str!("../../../schemas/clickhouse/accounts.xml");
/// The grant in `ACCOUNTS`. Test databases and those of the load generator get the same grant on all tables, because grants can't contain
/// patterns.
const GRANT_TEXT: &str = " ON telemetry.events</query>";
const OTHER_GRANTS: [&str; 2] = [" ON test_*.*</query>", " ON load_*.*</query>"];
/// The password settings in `ACCOUNTS`, and the account of each.
const PASSWORDS: [(&str, &str); 2] =
    [("CLICKHOUSE_WORKER_PASSWORD", "telemetry_worker"), ("CLICKHOUSE_QUERY_PASSWORD", "telemetry_query")];

/// Arguments of the launcher.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The engine, libchdb.so
    #[arg(long)]
    library: PathBuf,
    /// Folder of the tables
    #[arg(long)]
    data: PathBuf,
    /// Port of the HTTP interface
    #[arg(long)]
    http_port: u16,
    /// Port of the native protocol, if needed
    #[arg(long)]
    native_port: Option<u16>,
    /// Additional configuration file
    #[arg(long)]
    config: Option<PathBuf>,
}

/// Runs the server in this process. Returns only if it failed or was stopped.
pub(crate) fn serve(options: &Serve) -> Result<()> {
    let mut path = b"--path=".to_vec();
    path.extend(options.data.as_os_str().as_bytes());
    let arguments = [
        b"clickhouse".to_vec(),
        path,
        b"--listen_host=127.0.0.1".to_vec(),
        format!("--http_port={}", options.http_port).into_bytes(),
        // With the default of two, one slow task delays all merges.
        b"--background_schedule_pool_size=16".to_vec(),
        b"--logger.console".to_vec(),
        b"--log-level=warning".to_vec(),
        b"--multiquery".to_vec(),
        b"--query".to_vec(),
        [options.native_port.map_or("", |_| "SYSTEM START LISTEN TCP; "), SERVE_STATEMENTS].concat().into_bytes(),
    ];
    let native = options.native_port.map(|port| format!("--tcp_port={port}").into_bytes());
    let config = options.config.iter().map(|file| [b"--config-file=", file.as_os_str().as_bytes()].concat());
    let arguments: Vec<CString> = arguments
        .into_iter()
        .chain(native)
        .chain(config)
        .map(CString::new)
        .collect::<Result<_, _>>()
        .context("a path contains a zero byte")?;
    run_engine(options.library.as_os_str(), arguments)
}

#[expect(unsafe_code, reason = "the engine is a C library that is loaded at run time")]
fn run_engine(library: &OsStr, arguments: Vec<CString>) -> Result<()> {
    type QueryCmdline = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut c_void;
    let count = c_int::try_from(arguments.len()).context("too many arguments")?;
    // Leaked on purpose: the engine keeps pointers to its arguments for the process's lifetime.
    let mut pointers: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: the file matches its checksum in the repository, and is loaded once and never unloaded.
    let engine = unsafe { libloading::Library::new(library) }.context("cannot load ClickHouse")?;
    let engine = Box::leak(Box::new(engine));
    // SAFETY: this is the signature in the library's own header, chdb.h.
    let run =
        unsafe { engine.get::<QueryCmdline>(b"chdb_query_cmdline\0") }.context("the ClickHouse library has no entry point")?;
    // SAFETY: `pointers` contains `count` valid strings and a final null, and outlives the call.
    unsafe { run(count, pointers.as_mut_ptr()) };
    Ok(())
}

pub(crate) fn prepare(site: &ServerConfig) -> Result<()> {
    private_files::create_folder(&site.data)?;
    if !site.shards.is_empty() {
        return name_shards(site).context("cannot write ClickHouse's configuration");
    }
    let written = match (&site.users, &site.password) {
        (Some(users), _) => add_users(site, users),
        (None, Some(password)) => require_password(site, password),
        (None, None) => Ok(()),
    };
    written.context("cannot write ClickHouse's configuration")
}

/// Requires the password, and gives each service its own account.
fn require_password(site: &ServerConfig, password: &Password) -> Result<()> {
    let (more, own) = (site.home.join("users.d"), site.home.join("users.xml"));
    private_files::create_folder(&more)?;
    let accounts = ACCOUNTS.lines().flat_map(|line| {
        let further = OTHER_GRANTS.iter().filter(|_| line.contains(GRANT_TEXT)).map(|beside| line.replace(GRANT_TEXT, beside));
        std::iter::once(line.to_owned()).chain(further)
    });
    private_files::write(&more.join("accounts.xml"), accounts.collect::<Vec<_>>().join("\n"))?;
    private_files::write(&own, USERS.replace("HASH", &password.sha256()))?;
    let config = format!("<clickhouse><users_config>{}</users_config>{HANDLERS}{DROPPED}</clickhouse>", own.display());
    Ok(private_files::write(&site.home.join(CONFIG), config)?)
}

/// Adds the default account and those in the file.
fn add_users(site: &ServerConfig, users: &ClickHouseUsers) -> Result<()> {
    let (more, own) = (site.home.join("users.d"), site.home.join("users.xml"));
    private_files::create_folder(&more)?;
    private_files::write(&more.join("more.xml"), fs::read(&users.file)?)?;
    private_files::write(&own, OWN_USER)?;
    let config = format!("<clickhouse><users_config>{}</users_config></clickhouse>", own.display());
    Ok(private_files::write(&site.home.join(CONFIG), config)?)
}

/// Configures all shards, including the server itself. Because they share a secret, each shard queries the others as the requesting
/// account.
fn name_shards(site: &ServerConfig) -> Result<()> {
    let own = site.home.join("users.xml");
    private_files::write(&own, OWN_USER)?;
    let shard = |port: &u16| format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>");
    let shards: String = site.shards.iter().map(shard).collect();
    let config = format!(
        "<clickhouse><users_config>{}</users_config>\
         <remote_servers><{TELEMETRY}><secret>of a test</secret>{shards}</{TELEMETRY}></remote_servers></clickhouse>",
        own.display()
    );
    Ok(private_files::write(&site.home.join(CONFIG), config)?)
}

pub(crate) fn command(site: &ServerConfig) -> Command {
    let mut command = private_files::command(&site.launcher);
    command.arg("clickhouse-server").arg("--library").arg(site.software.join("libchdb.so"));
    command.arg("--data").arg(&site.data);
    command.arg("--http-port").arg(site.listen.port.to_string());
    if site.listen.second_port != 0 {
        command.arg("--native-port").arg(site.listen.second_port.to_string());
    }
    if !site.shards.is_empty() {
        command.arg("--config").arg(site.home.join(CONFIG));
    } else if let Some(users) = &site.users {
        command.arg("--config").arg(site.home.join(CONFIG)).envs(users.environment.iter().cloned());
    } else if let Some(password) = &site.password {
        command.arg("--config").arg(site.home.join(CONFIG));
        command.envs(PASSWORDS.map(|(setting, account)| (setting, password.for_service(account).reveal().to_owned())));
    }
    command.current_dir(&site.home);
    command
}

pub(crate) fn probe(port: u16) -> Result<()> {
    request(port, "GET /ping", None, "").map(drop)
}

/// Creates the database, because the default one is an overlay over files.
pub(crate) fn create_database(site: &ServerConfig) -> Result<()> {
    let statement = format!("CREATE DATABASE IF NOT EXISTS {TELEMETRY} ENGINE = Atomic");
    request(site.listen.port, "POST /", site.password.as_ref(), &statement).map(drop)
}

fn request(port: u16, line: &str, password: Option<&Password>, body: &str) -> Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let credentials =
        password.map(|password| format!("X-ClickHouse-User: {TELEMETRY}\r\nX-ClickHouse-Key: {}\r\n", password.reveal()));
    let head = format!(
        "{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n",
        credentials.unwrap_or_default(),
        body.len()
    );
    stream.write_all((head + body).as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.starts_with("HTTP/1.1 200"), "ClickHouse returned {}", answer.trim());
    Ok(answer)
}
