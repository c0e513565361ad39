//! Accepts each form that creates a secret only once, so that reloading the page doesn't create another secret.
//!
//! Only form numbers are stored, in a cookie. Secrets are not stored.

use crate::api::SessionClient;
use crate::cookie::Cookie;
use crate::failure::Failure;
use axum::http::{HeaderMap, Method};
use schemas::problem::{Code, Problem};
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_kit::http::Transport;
use uuid::Uuid;

/// Form field with the number (`Layout::once`).
pub(crate) const FIELD: &str = "once";
const SENT_BEFORE: &str =
    "This form was already sent, so nothing new was created. A secret is shown only once. Lost it? Create a new one.";
const WITHOUT_NUMBER: &str = "This form is out of date, so nothing was created. Fill it in again.";
/// Maximum number of forms in the cookie.
const KEPT: usize = 16;
/// One week: longer than a page is likely to stay open.
const SECONDS: u32 = 7 * 24 * 60 * 60;

const COOKIE: Cookie = Cookie { name: "telemetry-sent", same_site: "Strict" };

/// A form's number, and the numbers of forms that the browser sent before, newest first.
pub(crate) struct SingleUseForm {
    transport: Transport,
    number: Option<Uuid>,
    sent: Vec<Uuid>,
}

impl SingleUseForm {
    pub(crate) fn from_request(transport: Transport, headers: &HeaderMap, number: &str) -> Self {
        let kept = COOKIE.values(transport, headers).into_iter().flat_map(|kept| kept.split('.'));
        Self { transport, number: number.parse().ok(), sent: kept.filter_map(|number| number.parse().ok()).collect() }
    }

    /// Creates what the form requests, and returns the cookie that marks the form as used. Rejects forms that were used before.
    pub(crate) async fn submit<T: DeserializeOwned>(
        &self,
        api: &SessionClient,
        path: &str,
        asked: &Value,
    ) -> Result<(T, HeaderMap), Failure> {
        let number = self.first().map_err(|detail| Failure::Refused(Box::new(refusal(detail, &api.request_id))))?;
        let made = api.change(Method::POST, path, asked).await?;
        Ok((made, self.remembering(number)))
    }

    fn first(&self) -> Result<Uuid, &'static str> {
        match self.number {
            None => Err(WITHOUT_NUMBER),
            Some(number) if self.sent.contains(&number) => Err(SENT_BEFORE),
            Some(number) => Ok(number),
        }
    }

    fn remembering(&self, number: Uuid) -> HeaderMap {
        let numbers: Vec<String> =
            [number].iter().chain(&self.sent).take(KEPT).map(|number| number.simple().to_string()).collect();
        COOKIE.set(self.transport, &numbers.join("."), SECONDS)
    }
}

fn refusal(detail: &str, request_id: &str) -> Problem {
    let code = Code::Conflict;
    Problem {
        kind: format!("urn:problem:{}", code.as_str()),
        title: "Form not accepted".to_owned(),
        status: code.status(),
        detail: detail.to_owned(),
        code: code.as_str().to_owned(),
        request_id: request_id.to_owned(),
        see: None,
        errors: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, header};

    /// Returns the request headers of a browser that stored the cookie.
    fn sent_back(set: &HeaderMap) -> HeaderMap {
        let set = set[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(set).unwrap())])
    }

    #[test]
    fn remembers_recent_forms_and_requires_a_number() {
        for transport in [Transport::Plain, Transport::Https] {
            let numbers: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
            let mut cookies = HeaderMap::new();
            for number in &numbers {
                let once = SingleUseForm::from_request(transport, &cookies, &number.to_string());
                assert_eq!(once.first(), Ok(*number));
                let set = once.remembering(*number);
                let text = set[header::SET_COOKIE].to_str().unwrap();
                assert!(text.contains("HttpOnly; SameSite=Strict") && text.len() < 700, "{text}");
                assert_eq!(text.ends_with("; Secure") && text.starts_with("__Host-"), transport == Transport::Https, "{text}");
                cookies = sent_back(&set);
            }
            for (at, number) in numbers.iter().enumerate() {
                let is_taken = SingleUseForm::from_request(transport, &cookies, &number.to_string()).first().is_ok();
                assert_eq!(is_taken, at < numbers.len() - KEPT, "{transport:?}: form {at}");
            }
            for none in ["", "1", "null"] {
                assert!(SingleUseForm::from_request(transport, &cookies, none).first().is_err(), "{none}");
            }
        }
    }
}
