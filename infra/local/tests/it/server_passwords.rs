//! A17: the servers of a clone require the password in its record.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use local::stack::Record;
use local::{Password, ServerKind};

/// A folder that looks like a clone and uses an external Kafka server.
struct TestClone {
    folder: tempfile::TempDir,
    kafka: TcpListener,
}

impl TestClone {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("infra/local")).unwrap();
        fs::write(folder.path().join("infra/local/Cargo.toml"), "").unwrap();
        fs::write(folder.path().join("Cargo.lock"), "").unwrap();
        Self { folder, kafka: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join(".local")
    }

    /// Runs a command, which must succeed. Returns its output.
    fn run_local(&self, word: &str) -> String {
        let (is_done, said) = self.try_local(word);
        assert!(is_done, "{said}");
        said
    }

    /// Runs a command. Returns whether it succeeded, and its output.
    fn try_local(&self, word: &str) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
        command.arg(word).current_dir(self.folder.path()).env_remove("CARGO_MANIFEST_DIR");
        command.env_remove("DATABASE_URL").env_remove("CLICKHOUSE_URL");
        let output = command.env("KAFKA_BROKERS", self.kafka.local_addr().unwrap().to_string()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Returns the ports on which the server's process listens, according to `/proc`.
    #[cfg(target_os = "linux")]
    fn listens_on(&self, kind: ServerKind) -> BTreeSet<u16> {
        let process =
            Path::new("/proc").join(Record::load(&self.state()).running(kind).unwrap().process.unwrap().pid.to_string());
        let files = fs::read_dir(process.join("fd")).unwrap().filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let sockets: BTreeSet<String> = files.map(|file| file.display().to_string()).collect();
        let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(process.join("net").join(table)).unwrap());
        let port = |line: &str| {
            // Slot, local address, remote address, state (0A: listening), …, inode.
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_own = words[3] == "0A" && sockets.contains(&format!("socket:[{}]", words[9]));
            is_own.then(|| u16::from_str_radix(words[1].rsplit(':').next().unwrap(), 16).unwrap())
        };
        tables.iter().flat_map(|table| table.lines().skip(1).filter_map(port)).collect()
    }

    fn password(&self, kind: ServerKind) -> Password {
        Record::load(&self.state()).running(kind).unwrap().password.clone().unwrap()
    }

    fn entry(&self, kind: ServerKind) -> (u16, String) {
        let record = Record::load(&self.state());
        let entry = record.running(kind).unwrap();
        (entry.listen.port, entry.password.as_ref().unwrap().reveal().to_owned())
    }
}

impl Drop for TestClone {
    fn drop(&mut self) {
        let _ = Command::new(env!("CARGO_BIN_EXE_local"))
            .arg("wipe")
            .current_dir(self.folder.path())
            .env_remove("CARGO_MANIFEST_DIR")
            .output();
    }
}

/// Sends a request and returns the response's head and body.
fn http_request(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn post(port: u16, path: &str, headers: &str, statement: &str) -> String {
    let length = statement.len();
    http_request(port, &format!("POST {path} HTTP/1.0\r\n{headers}Content-Length: {length}\r\n\r\n{statement}"))
}

/// Returns the type and first number of PostgreSQL's first message to a user.
fn first_message(port: u16, user: &str) -> (u8, u32) {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    body.extend(format!("user\0{user}\0database\0telemetry\0\0").bytes());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&u32::try_from(body.len() + 4).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    (head[0], u32::from_be_bytes(head[5..9].try_into().unwrap()))
}

/// The `telemetry` user with an empty password, for `Authorization`.
const NO_PASSWORD: &str = "Authorization: Basic dGVsZW1ldHJ5Og==\r\n";

/// Requests that try to get in as `default`, which has no password.
const AS_DEFAULT: [&str; 16] = [
    "/?user=default",
    "/?USER=default",
    "/?%75ser=default",
    "/?user",
    "/?user=&password=",
    "/?password=",
    "/?user=telemetry&user=default",
    "/?user=default&user=telemetry",
    "/?x=1;user=default",
    "/?&user=default",
    "/??user=default",
    "/?+user=default",
    "/x?user=default",
    "/?max_threads=1#&user=default",
    "?user=default",
    "http://127.0.0.1/?user=default",
];

/// If a request names `telemetry` in its headers without the right password, the engine must ignore the user in the parameters, however it
/// is spelled.
fn assert_default_user_is_unreachable(port: u16) {
    for parameters in AS_DEFAULT {
        for headers in [NO_PASSWORD, "X-ClickHouse-User: telemetry\r\n", "X-ClickHouse-User: telemetry\r\nX-ClickHouse-Key: \r\n"]
        {
            for more in ["", "Host: a/?x=\r\n", "Host: a?x_=\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
                let answer = post(port, parameters, &format!("{headers}{more}"), "SELECT 40 + 2, file('/etc/hostname')");
                assert!(!answer.contains(" 200 ") && !answer.contains("\r\n42"), "{parameters} {headers} {more}: {answer}");
            }
        }
    }
    for (kind, body) in [
        ("application/x-www-form-urlencoded", "user=default&query=SELECT+42"),
        ("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\ndefault\r\n--b--\r\n"),
    ] {
        let answer = post(port, "/", &format!("{NO_PASSWORD}Content-Type: {kind}\r\n"), body);
        assert!(answer.contains("AUTHENTICATION_FAILED"), "{kind}: {answer}");
    }
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn a17_servers_reject_web_pages_and_wrong_passwords() {
    let clone = TestClone::new();
    let said = clone.run_local("start");
    let (port, password) = clone.entry(ServerKind::ClickHouse);
    let (postgres, other) = clone.entry(ServerKind::Postgres);
    assert!(!said.contains(&password) && !said.contains(&other), "the output contains a password: {said}");
    for file in ["stack.json", "servers.env"] {
        assert_eq!(mode(&clone.state().join(file)), 0o600, "{file}");
    }
    let settings = fs::read_to_string(clone.state().join("servers.env")).unwrap();
    assert!(settings.contains(&format!("CLICKHOUSE_URL='http://telemetry:{password}@127.0.0.1:{port}'\n")), "{settings}");
    assert!(settings.contains(&format!("DATABASE_URL='postgres://telemetry:{other}@127.0.0.1:{postgres}/telemetry'\n")));

    // There must be no other listener: ClickHouse's native protocol would accept the default user without a password.
    #[cfg(target_os = "linux")]
    for (kind, port) in [(ServerKind::ClickHouse, port), (ServerKind::Postgres, postgres)] {
        assert_eq!(clone.listens_on(kind), BTreeSet::from([port]), "{kind:?}");
    }

    // A page can send bodies and query parameters to other origins, but not these headers.
    for path in [
        "/",
        "/?user=default",
        "/?user=telemetry",
        "/?user=default&query=SYSTEM%20STOP%20LISTEN%20HTTP",
        "/play",
        "/?query=SELECT%201",
    ] {
        let answer = post(port, path, "Content-Type: text/plain\r\n", "SELECT 40 + 2");
        let body = answer.split_once("\r\n\r\n").map_or(answer.as_str(), |(_, body)| body);
        assert!(!answer.contains(" 200 ") && !body.contains("42"), "{path}: {answer}");
    }
    for user in ["default", "telemetry", "telemetry_query", "nobody"] {
        for key in ["", "X-ClickHouse-Key: telemetry\r\n"] {
            let answer = post(port, "/", &format!("X-ClickHouse-User: {user}\r\n{key}"), "SELECT 40 + 2");
            assert!(!answer.contains(" 200 ") && !answer.contains("\r\n42\n"), "{user}: {answer}");
        }
    }
    assert_default_user_is_unreachable(port);
    let with_password = |user: &str, password: &str, statement: &str| {
        post(port, "/", &format!("X-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {password}\r\n"), statement)
    };
    let root = clone.password(ServerKind::ClickHouse);
    let own = ["telemetry_worker", "telemetry_query"].map(|user| (user, root.for_service(user)));
    let own = [("telemetry", root)].into_iter().chain(own).collect::<Vec<_>>();
    for (user, _) in &own {
        for (whose, password) in &own {
            let answer = with_password(user, password.reveal(), "SELECT currentUser()");
            assert_eq!(answer.ends_with(&format!("\r\n{user}\n")), user == whose, "{user} with that of {whose}: {answer}");
        }
    }
    assert!(with_password("telemetry_query", own[2].1.reveal(), "CREATE DATABASE mine").contains("ACCESS_DENIED"));

    const SASL: (u8, u32) = (b'R', 10);
    for user in ["telemetry", "telemetry_owner", "telemetry_gateway", "nobody"] {
        assert_eq!(first_message(postgres, user), SASL, "{user}");
    }

    // Running servers keep their passwords. Servers started by earlier builds have none, and get one at the next start.
    clone.run_local("start");
    assert_eq!(clone.entry(ServerKind::ClickHouse), (port, password.clone()));
    clone.run_local("stop");
    let mut record = Record::load(&clone.state());
    record.servers.values_mut().for_each(|entry| entry.password = None);
    record.save(&clone.state()).unwrap();
    clone.run_local("start");
    assert_ne!(clone.entry(ServerKind::ClickHouse).1, password);
    assert_eq!(first_message(clone.entry(ServerKind::Postgres).0, "telemetry"), SASL);
}

#[test]
fn stop_and_wipe_fail_during_use() {
    let clone = TestClone::new();
    clone.run_local("stop");
    let in_use = fs::File::options().append(true).open(clone.state().join("in-use")).unwrap();
    in_use.lock_shared().unwrap();
    for word in ["stop", "wipe"] {
        let (is_done, said) = clone.try_local(word);
        assert!(!is_done && said.contains("the servers are in use: end `cargo up`"), "{word}: {said}");
    }
    drop(in_use);
    clone.run_local("stop");
    clone.run_local("wipe");
}
