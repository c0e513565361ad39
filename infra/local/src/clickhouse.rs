//! ClickHouse, the engine of the real server as a library: `serve` loads it and never returns, so it has a process of
//! its own, started from the launcher. Tables are the services' job.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::access::Users;
use crate::kind::TELEMETRY;
use crate::password::Password;
use crate::private_files;
use crate::site::Site;

/// Opens the real HTTP listener, then sleeps for ever: the engine ends when its last statement does. The listener of the native
/// protocol stays closed but where a test asks for it: it lets the engine's own user in without a password, and one wrong password
/// given to it ends the engine.
const SERVE: &str = "SYSTEM START LISTEN HTTP; SELECT sleepEachRow(3) FROM system.numbers \
                     SETTINGS function_sleep_max_microseconds_per_block=0, max_block_size=1 FORMAT Null";

/// Where configuration is, of a server that has any.
const CONFIG: &str = "config.xml";

/// What the engine has without configuration.
const OWN_USER: &str = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default><password/>\
    <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota><access_management>1</access_management>\
    </default></users></clickhouse>";

/// The users of the stack's server. Its own statements run as `default`, which has no password there, so that user may do
/// nothing else, and whoever comes over HTTP has to name another one in a header ([`HANDLERS`]), which a web page cannot send to
/// another origin. `file()` needs no right at all: whoever signs in reads every file of this account. HASH is that of the password.
const USERS: &str = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>\
    <default><no_password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>\
    <grants><query>GRANT SYSTEM LISTEN ON *.*</query><query>GRANT SELECT ON system.numbers</query></grants></default>\
    <telemetry><password_sha256_hex>HASH</password_sha256_hex><networks><ip>127.0.0.1</ip></networks>\
    <profile>default</profile><quota>default</quota><access_management>1</access_management></telemetry></users></clickhouse>";

/// `dGVsZW1ldHJ5` is `telemetry` in base64, with which all of our accounts begin. Beside `Authorization` the engine goes by `user`
/// and `password` among the parameters, and either makes it sign in as `default`, so such a request has no parameters; beside
/// `X-ClickHouse-User` it refuses them itself.
const HANDLERS: &str = "<http_handlers>\
    <rule><url>/ping</url><handler><type>static</type><response_content>Ok.&#10;</response_content></handler></rule>\
    <rule><empty_query_string/><methods>GET,POST</methods><headers><Authorization>regex:Basic dGVsZW1ldHJ5.*</Authorization></headers>\
    <handler><type>dynamic_query_handler</type><query_param_name>query</query_param_name></handler></rule>\
    <rule><methods>GET,POST</methods><headers><X-ClickHouse-User>regex:telemetry.*</X-ClickHouse-User></headers>\
    <handler><type>dynamic_query_handler</type><query_param_name>query</query_param_name></handler></rule></http_handlers>";

/// How long dropped tables stay: one that is due and still in use is tried again without a pause, which takes a whole core.
const DROPPED: &str = "<database_atomic_delay_before_drop_table_sec>3600</database_atomic_delay_before_drop_table_sec>";

/// The accounts of the services, as they are deployed.
const ACCOUNTS: &str = include_str!("../../../schemas/clickhouse/accounts.xml");
/// Where `ACCOUNTS` grants something, and the databases of tests and of the load generator, in which the same is granted on every
/// table: no pattern names one.
const GRANTED: &str = " ON telemetry.events</query>";
const BESIDE: [&str; 2] = [" ON test_*.*</query>", " ON load_*.*</query>"];
/// The settings from which `ACCOUNTS` takes passwords, and whose those are.
const PASSWORDS: [(&str, &str); 2] =
    [("CLICKHOUSE_WORKER_PASSWORD", "telemetry_worker"), ("CLICKHOUSE_QUERY_PASSWORD", "telemetry_query")];

/// What the launcher is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The engine, libchdb.so
    #[arg(long)]
    library: PathBuf,
    /// Where the tables are
    #[arg(long)]
    data: PathBuf,
    /// Port of the HTTP interface
    #[arg(long)]
    http_port: u16,
    /// Port of the native protocol, where that is wanted
    #[arg(long)]
    native_port: Option<u16>,
    /// Configuration besides the engine's own
    #[arg(long)]
    config: Option<PathBuf>,
}

/// Becomes the server. Returns only if it failed or was told to end.
pub(crate) fn serve(options: &Serve) -> Result<()> {
    let mut path = b"--path=".to_vec();
    path.extend(options.data.as_os_str().as_bytes());
    let arguments = [
        b"clickhouse".to_vec(),
        path,
        b"--listen_host=127.0.0.1".to_vec(),
        format!("--http_port={}", options.http_port).into_bytes(),
        // the default of two lets one slow task hold up all merges
        b"--background_schedule_pool_size=16".to_vec(),
        b"--logger.console".to_vec(),
        b"--log-level=warning".to_vec(),
        b"--multiquery".to_vec(),
        b"--query".to_vec(),
        [options.native_port.map_or("", |_| "SYSTEM START LISTEN TCP; "), SERVE].concat().into_bytes(),
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

#[expect(unsafe_code, reason = "the engine is a C library that is only known at run time")]
fn run_engine(library: &OsStr, arguments: Vec<CString>) -> Result<()> {
    type QueryCmdline = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut c_void;
    let count = c_int::try_from(arguments.len()).context("too many arguments")?;
    // leaked on purpose: the engine keeps pointers to its arguments for as long as the process lives
    let mut pointers: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: the file is the one whose digest is checked in; it is loaded once and never unloaded
    let engine = unsafe { libloading::Library::new(library) }.context("cannot load ClickHouse")?;
    let engine = Box::leak(Box::new(engine));
    // SAFETY: this is the signature in the library's own header, chdb.h
    let run =
        unsafe { engine.get::<QueryCmdline>(b"chdb_query_cmdline\0") }.context("the ClickHouse library has no entry point")?;
    // SAFETY: `pointers` holds `count` valid strings and a final null, and outlives the call
    unsafe { run(count, pointers.as_mut_ptr()) };
    Ok(())
}

pub(crate) fn prepare(site: &Site) -> Result<()> {
    private_files::create_folder(&site.data)?;
    if !site.shards.is_empty() {
        return name_shards(site).context("cannot write ClickHouse's configuration");
    }
    let written = match (&site.users, &site.password) {
        (Some(users), _) => add_users(site, users),
        (None, Some(password)) => guard(site, password),
        (None, None) => Ok(()),
    };
    written.context("cannot write ClickHouse's configuration")
}

/// Lets nobody in without the password, and the services only with accounts of their own.
fn guard(site: &Site, password: &Password) -> Result<()> {
    let (more, own) = (site.home.join("users.d"), site.home.join("users.xml"));
    private_files::create_folder(&more)?;
    let accounts = ACCOUNTS.lines().flat_map(|line| {
        let further = BESIDE.iter().filter(|_| line.contains(GRANTED)).map(|beside| line.replace(GRANTED, beside));
        std::iter::once(line.to_owned()).chain(further)
    });
    private_files::write(&more.join("accounts.xml"), accounts.collect::<Vec<_>>().join("\n"))?;
    private_files::write(&own, USERS.replace("HASH", &password.sha256()))?;
    let config = format!("<clickhouse><users_config>{}</users_config>{HANDLERS}{DROPPED}</clickhouse>", own.display());
    Ok(private_files::write(&site.home.join(CONFIG), config)?)
}

/// The account there always is, and those of a file where operators put them.
fn add_users(site: &Site, users: &Users) -> Result<()> {
    let (more, own) = (site.home.join("users.d"), site.home.join("users.xml"));
    private_files::create_folder(&more)?;
    private_files::write(&more.join("more.xml"), fs::read(&users.file)?)?;
    private_files::write(&own, OWN_USER)?;
    let config = format!("<clickhouse><users_config>{}</users_config></clickhouse>", own.display());
    Ok(private_files::write(&site.home.join(CONFIG), config)?)
}

/// Names all shards, the server itself among them. Their secret lets each ask the others as the account that it was asked by.
fn name_shards(site: &Site) -> Result<()> {
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

pub(crate) fn command(site: &Site) -> Command {
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
        command.envs(PASSWORDS.map(|(setting, account)| (setting, password.of_service(account).reveal().to_owned())));
    }
    command.current_dir(&site.home);
    command
}

pub(crate) fn probe(port: u16) -> Result<()> {
    request(port, "GET /ping", None, "").map(drop)
}

/// The default database is an overlay over files, so ours is made at once.
pub(crate) fn create_database(site: &Site) -> Result<()> {
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
