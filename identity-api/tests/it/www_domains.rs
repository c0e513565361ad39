//! `www.a.test` is `a.test`: registered, verified and owned without `www.`.

use crate::domains::{app_on, register, verify};
use crate::internet::Internet;

#[tokio::test]
async fn e5_a_domain_with_www_is_the_domain_without_it_and_is_proved_there() {
    let internet = Internet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    let registered = register(&app, &key, "www.a.test").await;
    assert_eq!((registered.status, registered.text("domain")), (201, "a.test"));
    let proof = format!("svc-verify={}", registered.text("verification_token"));
    internet.publish_text("_content-telemetry.www.a.test", &proof);
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.status, 422, "that proves nothing of a.test");
    internet.publish_text("_content-telemetry.a.test", &proof);
    let verified = verify(&app, &key, &registered, &["dns_txt"]).await;
    assert_eq!((verified.status, verified.text("domain")), (200, "a.test"));
    let (_, rival) = app.org("rival").await;
    let theirs = register(&app, &rival, "WWW.a.test.").await;
    assert_eq!(verify(&app, &rival, &theirs, &["dns_txt"]).await.refusal().0, 409, "it has an owner");
    let twice = register(&app, &key, "www.www.a.test").await;
    assert_eq!(twice.refusal(), (422, "invalid_request"));
}
