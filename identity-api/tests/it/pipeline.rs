//! What operators see of the pipeline, from addresses that answer well, badly, without end and not at all.

use crate::test_app::{Answer, Shows, TestApp};
use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::routing::get;
use identity_api::pipeline::MetricsTarget;
use serde_json::{Value, json};
use service_kit::testing::{TestServer, eventually, free_address};
use std::convert::Infallible;
use tokio::net::TcpListener;

const PIPELINE: &str = "/api/v1/identity/operator/pipeline";
const WELL: &str = "lookups_stale_total 0\ndependency_up{dependency=\"kafka\"} 1\ngateway_spill_bytes 701\n\
    gateway_spill_quota_bytes 1000\ngateway_spill_pending_records 0\nworker_lag_seconds 30\n\
    worker_duplicate_keys NaN\n";

async fn servers() -> TestServer {
    let endless = || async {
        let forever = futures::stream::repeat_with(|| Ok::<_, Infallible>("worker_lag_seconds 31\n".repeat(1_000)));
        Body::from_stream(forever)
    };
    let away = || async { (StatusCode::FOUND, [(header::LOCATION, "/well")]) };
    let router = Router::new()
        .route("/well", get(|| async { WELL }))
        .route("/moved", get(away))
        .route("/garbage", get(|| async { "<script>alert(1)</script> worker_lag_seconds 3\nsecret-of-a-stranger 1\n" }))
        .route("/bytes", get(|| async { vec![0xff_u8; 1_000] }))
        .route("/endless", get(endless));
    TestServer::start(router).await
}

async fn told(app: &TestApp) -> Answer {
    let operator = app.operator("op@svc.test").await;
    let answer = app.get(operator.shows(), PIPELINE).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
}

fn figure<'a>(target: &'a Value, metric: &str) -> &'a Value {
    let mut figures = target["figures"].as_array().unwrap().iter();
    figures.find(|figure| figure["metric"] == metric).unwrap_or_else(|| panic!("no {metric}: {target}"))
}

#[tokio::test]
async fn a_target_that_hangs_lies_or_never_ends_is_said_to_be_away_and_hides_no_other_one() {
    let server = servers().await;
    // takes connections into its backlog, and never answers one
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut targets: Vec<String> =
        ["well", "moved", "garbage", "bytes", "endless", "nowhere"].map(|path| format!("{}/{path}", server.url)).to_vec();
    targets.push(format!("http://{}/metrics", hanging.local_addr().unwrap()));
    targets.push(format!("http://{}/metrics", free_address()));
    let app = TestApp::open_with_targets(&targets).await;
    let operator = app.operator("op@svc.test").await;
    let expected = json!([
        Value::Null,
        json!("bad_status"),
        json!("not_metrics"),
        json!("not_metrics"),
        json!("too_large"),
        json!("bad_status"),
        json!("no_answer_in_time"),
        json!("no_connection"),
    ]);
    // On a busy machine one that answers may take longer than it has.
    let answer = eventually("each is told apart", || async {
        let answer = app.get(operator.shows(), PIPELINE).await;
        let all = answer.body["targets"].as_array()?;
        let problems: Vec<&Value> = all.iter().map(|target| &target["problem"]).collect();
        (json!(problems) == expected).then_some(answer)
    })
    .await;
    let all = answer.body["targets"].as_array().unwrap();
    for (target, address) in all.iter().zip(&targets) {
        assert_eq!(target["address"], *address);
        assert_eq!(target["is_reachable"], target["problem"].is_null());
        assert!(target["is_reachable"] == true || target["figures"] == json!([]), "no figure where nothing is known: {target}");
    }
    assert!(!answer.body.to_string().contains("stranger") && !answer.body.to_string().contains("script"), "{}", answer.body);
}

#[tokio::test]
async fn a_figure_is_what_the_metrics_say_beside_its_limit_and_null_where_they_do_not_say_it() {
    let server = servers().await;
    let app = TestApp::open_with_targets(&[format!("{}/well", server.url)]).await;
    let body = told(&app).await.body;
    let target = &body["targets"][0];
    assert_eq!(target["processes"], json!(["ingest-gateway", "stream-workers"]));
    assert_eq!(target["dependencies"], json!({"kafka": true}));
    let shown = |metric: &str| {
        let figure = figure(target, metric);
        (figure["value"].clone(), figure["limit"].clone(), figure["is_over"].clone())
    };
    assert_eq!(shown("gateway_spill_bytes"), (json!(701.0), json!(700.0), json!(true)));
    assert_eq!(shown("gateway_spill_pending_records"), (json!(0.0), json!(0.0), json!(false)));
    assert_eq!(shown("worker_lag_seconds"), (json!(30.0), json!(30.0), json!(false)), "at its limit is not over it");
    assert_eq!(shown("worker_duplicate_keys"), (Value::Null, json!(0.0), Value::Null), "not known is not zero");
    assert_eq!(shown("worker_records_rejected_total"), (Value::Null, Value::Null, Value::Null));
}

#[tokio::test]
async fn only_operators_see_the_pipeline_and_without_the_setting_nobody_is_asked() {
    let app = TestApp::open().await;
    assert_eq!(told(&app).await.body["targets"], json!([]));
    let ada = app.person("ada@a.test").await;
    assert_eq!(app.get(ada.shows(), PIPELINE).await.refusal(), (403, "forbidden"));
    assert_eq!(app.get(Shows::Nothing, PIPELINE).await.refusal(), (401, "unauthenticated"));
}

#[test]
fn a_target_is_an_address_without_secrets() {
    for good in ["http://ingest-gateway:9464/metrics", "http://[::1]:9464/metrics"] {
        assert_eq!(good.parse::<MetricsTarget>().unwrap().to_string(), good);
    }
    for bad in
        ["", "gateway:9464", "https://a/metrics", "file:///etc/passwd", "http://u:p@a/metrics", "http://a/?q=1", "http://a/#b"]
    {
        assert!(bad.parse::<MetricsTarget>().unwrap_err().contains("write it as in"), "{bad}");
    }
}
