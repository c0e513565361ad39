//! Credentials revoked while the body of a change arrives.

use crate::test_app::{Identity, Requests as _, TestApp, UNKNOWN_ID};
use identity_api::DRY_RUNS;
use schemas::identity::OrgType;
use schemas::identity::Scope;
use service_kit::auth::API_KEY_HEADER;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends the head of a request with a body of `length` bytes, and a credential as a header. Returns `None` if the server rejects it before
/// asking for the body.
pub(crate) async fn begin(app: &TestApp, (method, path): (&str, &str), credential: &str, length: usize) -> Option<TcpStream> {
    let url = app.url("");
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{credential}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    (status(&mut stream).await == "100").then_some(stream)
}

async fn status(stream: &mut TcpStream) -> String {
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    // Skip the rest of an interim response.
    if start.ends_with(b"100") {
        stream.read_exact(&mut [0; 13]).await.unwrap();
    }
    String::from_utf8_lossy(&start[9..]).into_owned()
}

/// Every route with a body and a credential: method and path.
fn write_routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    DRY_RUNS.iter().map(|(method, path, _)| (*method, *path)).filter(|(_, path)| !path.contains("/auth/"))
}

/// Changes the database while every write route that accepts the credential waits for its body. Returns their final statuses.
async fn statuses(app: &TestApp, credential: &str, change: &'static str) -> Vec<(&'static str, String)> {
    let mut begun = Vec::new();
    for (method, path) in write_routes() {
        let named = path.replace("{id}", UNKNOWN_ID).replace("{user_id}", UNKNOWN_ID);
        begun.extend(begin(app, (method, &named), credential, 2).await.map(|stream| (path, stream)));
    }
    assert_ne!(sqlx::query(change).execute(&app.stores.pool).await.unwrap().rows_affected(), 0);
    let mut statuses = Vec::new();
    for (path, mut stream) in begun {
        stream.write_all(b"{}").await.unwrap();
        statuses.push((path, status(&mut stream).await));
    }
    statuses
}

#[tokio::test]
async fn s4_rejects_credentials_revoked_during_an_upload() {
    let app = Identity::open().await;
    let (org, _) = app.org("owner").await;
    sqlx::query("UPDATE organizations SET is_trusted_partner = true").execute(&app.stores.pool).await.unwrap();
    let session = async || format!("authorization: Bearer {}", app.session("ann@example.com", &[org]).await);
    let key = async || format!("{API_KEY_HEADER}: {}", app.seed().key(org, OrgType::ContentOwner, &Scope::ALL).await);
    let operator = session().await;
    sqlx::query("UPDATE users SET is_operator = true").execute(&app.stores.pool).await.unwrap();
    let by_key = statuses(&app, &key().await, "UPDATE api_keys SET revoked_at = now()").await;
    let by_session = statuses(&app, &operator, "UPDATE user_sessions SET ended_at = now()").await;
    for (_, path) in write_routes() {
        assert!(by_key.iter().chain(&by_session).any(|(begun, _)| *begun == path), "{path} asks for no body");
    }
    for (path, status) in by_key.iter().chain(&by_session) {
        assert_eq!(status, "401", "{path}");
    }
    let untrusted = "UPDATE organizations SET is_trusted_partner = false";
    let (by_partner, by_member) =
        (statuses(&app, &key().await, untrusted).await, statuses(&app, &session().await, "DELETE FROM memberships").await);
    let of_partner = by_partner.iter().filter(|(path, _)| path.contains("/partner/"));
    let of_organization = by_member.iter().filter(|(path, _)| by_key.iter().any(|(known, _)| known == path));
    let rejected: Vec<_> = of_partner.chain(of_organization).collect();
    assert_eq!(rejected.len(), by_key.len());
    for (path, status) in rejected {
        assert_eq!(status, "403", "{path}");
    }
}
