//! A session's initiator is a user unless a report says otherwise, however the session is created.

use crate::pipeline::Pipeline;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::Seed;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_have_a_user_initiator_by_default() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.spawn_worker(&stop);
    let key = Seed(&front.stores.pool).org("agent", OrgType::Agent).await.key;
    let ids = [Uuid::new_v4(), Uuid::new_v4()];
    let started = front.post("/sessions/start", &key, &json!({})).await.body["session_id"].clone();
    let event = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://a.test/"});
    front.post("/sessions/bulk", &key, &json!({"session_id": ids[0], "events": [event]})).await;
    front.post("/events", &key, &json!({"session_id": ids[1], "events": [event]})).await;
    front.caught_up().await;
    let sessions = [started, json!(ids[0]), json!(ids[1])];
    let initiator = |session: Value| {
        let (front, key) = (&front, &key);
        async move {
            let read = front.get(&format!("/sessions/{}/document", session.as_str().unwrap()), key).await;
            assert_eq!(read.status, 200, "{}", read.body);
            read.body["extensions"]["initiator_type"].clone()
        }
    };
    for session in &sessions {
        assert_eq!(initiator(session.clone()).await, "user", "{session}");
    }
    for (says, initiates) in [("agent", "agent"), ("user", "agent")] {
        for session in &sessions {
            front.post("/sessions/bulk", &key, &json!({"session_id": session, "initiator_type": says})).await;
            assert_eq!(initiator(session.clone()).await, initiates, "the first initiator must remain: {session}");
        }
    }
}
