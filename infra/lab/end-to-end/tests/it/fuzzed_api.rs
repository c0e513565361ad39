//! S8 in small: requests made from the served document, right and wrong, against the real binary.
//!
//! Must not forgive an answer: what the document does not tell is a failure. Many more: `cargo load -- fuzz-api`.

use crate::demo::Demo;
use loadgen::fuzz_api::{self, Plan};
use service_kit::testing::{TestDns, random_seed};
use tokio_util::sync::CancellationToken;

const REQUESTS: u64 = 3_000;

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_to_requests_made_from_the_document_is_documented() {
    let dns = TestDns::start(|_| Vec::new()).await;
    let settings = [
        ("TELEMETRY_DNS_SERVER", dns.address.to_string()),
        ("TELEMETRY_IDENTITY_RATE", "100000".to_owned()),
        ("TELEMETRY_SIGN_IN_RATE", "100000".to_owned()),
        ("TELEMETRY_KEY_RATE", "100000".to_owned()),
    ];
    let demo = Demo::start_with(&settings).await;
    let base = demo.env("BASE_URL").to_owned();
    let plan = Plan { base, env: demo.env.clone(), requests: REQUESTS, seed: random_seed(), connections: 8 };
    let findings = fuzz_api::run(&plan, &CancellationToken::new()).await.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(findings.failed, 0, "{findings}");
    assert!(findings.sent > REQUESTS * 9 / 10, "nearly every shot is a request: {findings}");
    let answered =
        |status: u16| findings.counts.iter().filter(|((_, found), _)| *found == status).map(|(_, count)| count).sum::<u64>();
    // 413 is too rare to be counted on; size limits have tests of their own.
    for status in [200, 201, 204, 400, 401, 403, 404, 405, 409, 415, 422] {
        assert!(answered(status) > 0, "the requests reach {status}: {findings}");
    }
}
