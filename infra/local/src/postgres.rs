//! PostgreSQL with the database and user `telemetry`. The services create their tables. fsync stays on, because tests rely on
//! durability.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::password::{OWNER, Password};
use crate::private_files;
use crate::process::{Process, pid_of};
use crate::process_account::ProcessAccount;
use crate::server_config::ServerConfig;
use crate::server_kind::TELEMETRY;

/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 196_608;

/// The services' accounts. `telemetry` administers the server; `telemetry_owner` owns the tables.
const SERVICES: [&str; 5] =
    ["telemetry_gateway", "telemetry_worker", "telemetry_deliverer", "telemetry_query", "telemetry_identity"];

/// Requires a password for every connection.
const PG_HBA: &str = "# written at each start
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
";

/// Creates the cluster and the database if necessary, and removes the lock file of a killed run.
pub(crate) fn prepare(site: &ServerConfig) -> Result<()> {
    let account = site.account.context("there is no account that can run PostgreSQL")?;
    if site.data.join("PG_VERSION").exists() {
        remove_stale_lock(&site.data)?;
    } else {
        create(site, account)?;
    }
    site.password.as_ref().map_or(Ok(()), |password| set_passwords(site, account, password))
}

fn create(site: &ServerConfig, account: ProcessAccount) -> Result<()> {
    // Created in a temporary folder and renamed, so that an incomplete cluster is never used.
    let draft = site.data.with_extension("new");
    if draft.exists() {
        fs::remove_dir_all(&draft).context("cannot delete PostgreSQL's incomplete data")?;
    }
    account.own_folder(&draft)?;
    let mut initdb = program(site, account, "initdb");
    initdb.arg("-D").arg(&draft).args(["-U", TELEMETRY, "-A", "trust", "-E", "UTF8", "--locale=C"]);
    initdb.args(["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]);
    finish(initdb, "", "create PostgreSQL's data")?;
    run_single_user(site, account, &draft, "postgres", &format!("CREATE DATABASE {TELEMETRY}\n"))?;
    fs::rename(&draft, &site.data).context("cannot move PostgreSQL's data into place")
}

/// Sets the passwords of all accounts and the owner of all tables, also in clusters of earlier builds.
fn set_passwords(site: &ServerConfig, account: ProcessAccount, password: &Password) -> Result<()> {
    // Created by initdb, so the file belongs to the server's account.
    fs::write(site.data.join("pg_hba.conf"), PG_HBA).context("cannot write pg_hba.conf")?;
    let (note, wanted) = (site.home.join("guarded"), password.sha256());
    if fs::read_to_string(&note).is_ok_and(|set| set == wanted) {
        return Ok(());
    }
    let services = SERVICES.map(|name| (name, password.for_service(name)));
    let own = [(TELEMETRY, password.clone()), (OWNER, password.for_owner())];
    let statements = own.iter().chain(&services).map(|(name, password)| {
        let make = format!("IF to_regrole('{name}') IS NULL THEN CREATE ROLE {name} LOGIN; END IF;");
        format!("{make} ALTER ROLE {name} PASSWORD '{}';", password.reveal())
    });
    let accounts =
        format!("DO $$ BEGIN {} END $$\nALTER DATABASE {TELEMETRY} OWNER TO {OWNER}\n", statements.collect::<Vec<_>>().join(" "));
    run_single_user(site, account, &site.data, "postgres", &accounts)?;
    run_single_user(site, account, &site.data, TELEMETRY, SET_OWNER)?;
    private_files::write(&note, wanted).context("cannot record that PostgreSQL has its password")
}

/// Written as one line, because the single-user server ends statements at line breaks. Skips objects that belong to extensions. Large
/// objects are not used.
const SET_OWNER: &str = "DO $$ DECLARE s text; BEGIN FOR s IN \
    SELECT format('ALTER %s public.%I OWNER TO telemetry_owner', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, relname) \
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v') \
    UNION ALL SELECT format('ALTER FUNCTION %s OWNER TO telemetry_owner', f.oid::regprocedure) FROM pg_proc f \
    WHERE pronamespace = 'public'::regnamespace AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e') \
    UNION ALL SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', oid::regprocedure) FROM pg_proc \
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)' \
    LOOP EXECUTE s; END LOOP; END $$\n";

/// Iterations protect guessable passwords; this one has 160 random bits. Thousands of iterations would add 0.1 s to each connection in
/// debug builds.
const SCRAM_ITERATIONS: &str = "scram_iterations=16";

/// Runs these lines while no server uses the data.
fn run_single_user(site: &ServerConfig, account: ProcessAccount, data: &Path, database: &str, lines: &str) -> Result<()> {
    let mut single = program(site, account, "postgres");
    // No -j, because it would end statements at empty lines. A failed statement must fail the whole run.
    single.arg("--single").arg("-D").arg(data).args(["-c", "unix_socket_directories=", "-c", "exit_on_error=on"]);
    single.args(["-c", SCRAM_ITERATIONS, database]);
    finish(single, lines, "set up PostgreSQL")
}

pub(crate) fn command(site: &ServerConfig) -> Command {
    let mut command = Command::new(site.software.join("bin/postgres"));
    command.arg("-D").arg(&site.data).arg("-p").arg(site.listen.port.to_string());
    for setting in
        ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300", "timezone=UTC", "log_timezone=UTC"]
    {
        command.arg("-c").arg(setting);
    }
    command.current_dir("/").env("LC_ALL", "C");
    if let Some(account) = site.account {
        account.apply(&mut command);
    }
    command
}

/// Succeeds once the server accepts the `telemetry` user for the `telemetry` database, or asks for a password. A server that isn't ready
/// rejects connections earlier.
pub(crate) fn probe(port: u16) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut startup = PROTOCOL.to_be_bytes().to_vec();
    startup.extend(format!("user\0{TELEMETRY}\0database\0{TELEMETRY}\0\0").bytes());
    let length = i32::try_from(startup.len() + 4).context("the request is too long")?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&startup)?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [tag, length @ ..] = head;
        let length = usize::try_from(i32::from_be_bytes(length)).context("the server is not PostgreSQL")?;
        ensure!((4..1 << 20).contains(&length), "the server is not PostgreSQL");
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body)?;
        match tag {
            b'R' if body.get(..4).is_some_and(|kind| kind != [0; 4]) => return Ok(()),
            b'Z' => {
                // Disconnect cleanly to avoid a log line. The result is already known.
                let _ = stream.write_all(b"X\0\0\0\x04");
                return Ok(());
            }
            b'E' => bail!("{}", String::from_utf8_lossy(&body).replace('\0', " ")),
            _ => {}
        }
    }
}

/// PostgreSQL trusts the process id in its lock file. If another process has that id now, PostgreSQL would not start.
fn remove_stale_lock(data: &Path) -> Result<()> {
    let lock = data.join("postmaster.pid");
    let Ok(text) = fs::read_to_string(&lock) else {
        return Ok(());
    };
    let holder = text.lines().next().and_then(|pid| pid.trim().parse::<u32>().ok());
    let is_held = holder.is_some_and(|pid| pid_of(pid).is_some() && Process::find(pid).is_some_and(|_| is_postgres(pid, data)));
    if is_held {
        return Ok(());
    }
    fs::remove_file(lock).context("cannot delete the lock file of a killed PostgreSQL server")
}

fn is_postgres(pid: u32, data: &Path) -> bool {
    crate::process::with_argument("postgres", &data.to_string_lossy()).iter().any(|process| process.pid == pid)
}

fn program(site: &ServerConfig, account: ProcessAccount, name: &str) -> Command {
    let mut command = Command::new(site.software.join("bin").join(name));
    command.current_dir("/").env("LC_ALL", "C");
    account.apply(&mut command);
    command
}

/// Runs a short program with this input. Its output becomes part of the error.
fn finish(mut command: Command, input: &str, purpose: &str) -> Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot {purpose}"))?;
    child.stdin.take().context("the program's input is closed")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot {purpose}: {}", said.trim());
    Ok(())
}
