//! A DNS server for one test, over UDP on its own port.

use hickory_resolver::proto::op::{Message, MessageType, OpCode};
use hickory_resolver::proto::rr::rdata::TXT;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

#[derive(Clone, Debug)]
pub enum DnsRecord {
    Address(IpAddr),
    Text(String),
}

pub struct TestDns {
    pub address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl TestDns {
    /// Serves the records that `zone` returns for a name in lower case without the final dot.
    pub async fn start(zone: impl Fn(&str) -> Vec<DnsRecord> + Send + Sync + 'static) -> Self {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("port 0 is always free"));
        let address = socket.local_addr().expect("a bound socket has an address");
        let serving = tokio::spawn(async move {
            let mut datagram = [0; 2_048];
            while let Ok((length, asker)) = socket.recv_from(&mut datagram).await {
                if let Some(answer) = answer(&datagram[..length], &zone) {
                    let _ = socket.send_to(&answer, asker).await;
                }
            }
        });
        Self { address, _serving: AbortOnDropHandle::new(serving) }
    }
}

fn answer(datagram: &[u8], zone: &impl Fn(&str) -> Vec<DnsRecord>) -> Option<Vec<u8>> {
    let asked = Message::from_vec(datagram).ok()?;
    let query = asked.queries.first()?.clone();
    let mut message = Message::new(asked.metadata.id, MessageType::Response, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.metadata.recursion_available = true;
    let name = query.name().to_ascii().to_ascii_lowercase();
    for record in zone(name.trim_end_matches('.')) {
        let data = match (query.query_type(), record) {
            (RecordType::A, DnsRecord::Address(IpAddr::V4(address))) => RData::A(address.into()),
            (RecordType::AAAA, DnsRecord::Address(IpAddr::V6(address))) => RData::AAAA(address.into()),
            // Split into several strings, as long text requires.
            (RecordType::TXT, DnsRecord::Text(text)) => RData::TXT(TXT::from_bytes(text.as_bytes().chunks(20).collect())),
            _ => continue,
        };
        message.add_answer(Record::from_rdata(query.name().clone(), 60, data));
    }
    message.add_query(query);
    message.to_vec().ok()
}
