//! Apache Kafka in KRaft mode, with broker and controller in one process. The stack has one node. The services create their
//! topics.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::fetch;
use crate::private_files;
use crate::server_config::{Broker, ServerConfig};
use crate::test_accounts::ScramListener;

/// Any 16 bytes in Base64 work, because clusters are distinguished by their ports.
const CLUSTER_ID: &str = "bG9jYWwtdGVsZW1ldHJ5LQ";
/// Loggers that print whole configurations or one line per partition during startup.
const VERBOSE_LOGGERS: [&str; 3] = ["org.apache.kafka.common.config", "kafka.server.KafkaConfig", "org.apache.kafka.storage"];

pub(crate) fn config_file(site: &ServerConfig) -> PathBuf {
    site.home.join("server.properties")
}

/// Writes the configuration and, if necessary, formats the data folder.
pub(crate) fn prepare(site: &ServerConfig) -> Result<()> {
    private_files::write(&config_file(site), config(site)).context("cannot write Kafka's configuration")?;
    // Written last and outside of the data folder, so that an interrupted format is repeated.
    let formatted = site.home.join("formatted");
    if formatted.exists() && site.data.join("meta.properties").exists() {
        return Ok(());
    }
    if site.data.exists() {
        fs::remove_dir_all(&site.data).context("cannot delete Kafka's incomplete data")?;
    }
    private_files::create_folder(&site.data)?;
    let mut command = java(&site.software, true);
    command.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]).arg(config_file(site));
    if let Some(guard) = &site.scram_listener {
        command.arg("--add-scram").arg(format!("SCRAM-SHA-512=[name={},password={}]", guard.user, guard.password));
    }
    let output = command.stdin(Stdio::null()).output().context("cannot run java")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "cannot format Kafka's data folder: {}", said.trim());
    private_files::write(&formatted, CLUSTER_ID).context("cannot record that Kafka's data is formatted")
}

pub(crate) fn command(site: &ServerConfig) -> Command {
    let mut command = java(&site.software, site.is_short_lived);
    command.args(site.class_archive.iter().map(|file| format!("-XX:ArchiveClassesAtExit={}", file.display())));
    command.arg("kafka.Kafka").arg(config_file(site)).current_dir(&site.home);
    command
}

/// Succeeds once Kafka responds to ApiVersions and lists itself as a broker.
pub(crate) fn probe(port: u16) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let versions = send_request(&mut stream, 18, 0, &[])?;
    ensure!(versions.get(..2) == Some(&[0, 0]), "Kafka rejected the version request");
    // The topic list is empty, because only the brokers matter.
    let metadata = send_request(&mut stream, 3, 1, &0_i32.to_be_bytes())?;
    ensure!(metadata.get(..4).is_some_and(|count| count != [0; 4]), "the Kafka broker is not ready yet");
    Ok(())
}

/// Sends a Kafka request without a client id. Returns the response after its correlation id.
fn send_request(stream: &mut TcpStream, key: i16, version: i16, body: &[u8]) -> Result<Vec<u8>> {
    const CORRELATION: i32 = 1;
    const NO_CLIENT_ID: i16 = -1;
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(CORRELATION.to_be_bytes());
    request.extend(NO_CLIENT_ID.to_be_bytes());
    request.extend(body);
    let length = i32::try_from(request.len()).context("the request is too long")?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&request)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).context("the server is not Kafka")?;
    ensure!((4..1 << 20).contains(&length), "the server is not Kafka");
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(answer.split_off(4))
}

fn java(software: &Path, is_short_lived: bool) -> Command {
    let mut command = private_files::command("java");
    if is_short_lived {
        // In a short run, the second compiler and concurrent collectors cost more CPU time than they save.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    }
    command.args(fetch::kafka_classes().map(|file| format!("-XX:SharedArchiveFile={}", file.display())));
    command.arg("-Xmx512m").arg("-cp").arg(software.join("*"));
    command.args(["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"]);
    command.args(VERBOSE_LOGGERS.map(|logger| format!("-Dorg.slf4j.simpleLogger.log.{logger}=warn")));
    command
}

fn config(site: &ServerConfig) -> String {
    let (port, controller) = (site.listen.port, site.listen.second_port);
    let data = site.data.display();
    let alone = Broker { number: 1, advertised: port, internal: 0, controllers: vec![controller] };
    let Broker { number, advertised, internal, controllers } = site.broker.as_ref().unwrap_or(&alone);
    let voters = controllers.iter().zip(1..).map(|(port, number)| format!("{number}@127.0.0.1:{port}"));
    let voters = voters.collect::<Vec<_>>().join(",");
    let guarded = site.scram_listener.as_ref().map(scram_config).unwrap_or_default();
    let (secure, at) = site.scram_listener.as_ref().map_or((String::new(), String::new()), |guard| {
        (",SECURE:SASL_SSL".into(), format!(",SECURE://127.0.0.1:{}", guard.port))
    });
    let (replicas, in_sync) = (controllers.len(), controllers.len().min(2));
    // Brokers connect to each other directly, without the proxy.
    let (listener, inter_broker) = match internal {
        0 => (String::new(), "PLAINTEXT"),
        port => (format!(",INTERNAL://127.0.0.1:{port}"), "INTERNAL"),
    };
    format!(
        "# written at each start
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{listener}{at}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}{listener}{at}
inter.broker.listener.name={inter_broker}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT{secure}
{guarded}log.dirs={data}
auto.create.topics.enable=false
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
# fifty partitions of bookkeeping only slow down the start
offsets.topic.num.partitions=8
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4
# a restart after kill -9 waits for the old session to end
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"
    )
}

fn scram_config(guard: &ScramListener) -> String {
    format!(
        "listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={}
",
        guard.keystore.display()
    )
}
