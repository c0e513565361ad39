//! Checks whether a token is published where only a domain's owner can publish it.
//!
//! It connects only over HTTPS through the egress guard, and reports failures in coarse terms, without the response or an address
//! (docs/api/webhooks.md#webhook-url; S5). For TXT records under this service's own label, it reports their number and a token found in
//! place of the expected one.

use super::html_head;
use schemas::identity::VerificationMethod;
use schemas::identity::domain::{MANIFEST_MEMBER, MANIFEST_PATH, META_NAME, TXT_LABEL, TXT_PREFIX};
use schemas::ids::OrgId;
use schemas::problem::Fault;
use serde_json::Value;
use service_kit::egress::Egress;
use service_kit::slots::{Pool, Slots};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use url::Url;

const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of bytes to read from a document, enough for a head or a manifest.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Maximum number of documents parsed concurrently, each on its own thread.
const READERS: usize = 4;

const MAX_TOKEN_BYTES: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
enum LookupFault {
    /// Not found, or unreachable.
    NoResponse,
    /// Reachable, but the token is missing.
    NoToken,
    /// TXT records exist, but not with the token.
    OtherTexts(OtherTexts),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OtherTexts {
    records: usize,
    /// Another token from this service, for example copied from another registration.
    token: Option<String>,
}

/// Searches for published tokens; cheap to clone.
#[derive(Clone)]
pub(crate) struct TokenFinder {
    egress: Egress,
    /// Port of the domains' HTTPS servers.
    port: u16,
    readers: Arc<Slots>,
}

#[derive(Clone, Copy)]
pub(super) struct ExpectedToken<'a> {
    pub(super) domain: &'a str,
    pub(super) token: &'a str,
    /// The organization that registered the domain. It shares the parsing threads with others.
    pub(super) organization: OrgId,
}

impl TokenFinder {
    pub(super) fn new(egress: Egress, port: u16) -> Self {
        Self { egress, port, readers: Slots::new(Pool::DomainChecks, READERS) }
    }

    /// Returns the first of these methods that finds the token, or each method's fault.
    pub(super) async fn find(
        &self,
        claim: ExpectedToken<'_>,
        methods: &[VerificationMethod],
    ) -> Result<VerificationMethod, Vec<Fault>> {
        let until = Instant::now() + DEADLINE;
        let look = async |method: VerificationMethod| {
            if !methods.contains(&method) {
                return None;
            }
            Some((method, self.check(claim, method, until).await))
        };
        let [dns_txt, well_known, meta_tag] = VerificationMethod::ALL.map(look);
        let found = tokio::join!(dns_txt, well_known, meta_tag);
        let found: Vec<_> = [found.0, found.1, found.2].into_iter().flatten().collect();
        match found.iter().find(|(_, outcome)| outcome.is_ok()) {
            Some((method, _)) => Ok(*method),
            None => Err(found.into_iter().filter_map(|(method, outcome)| Some(claim.fault(method, outcome.err()?))).collect()),
        }
    }

    async fn check(&self, claim: ExpectedToken<'_>, method: VerificationMethod, until: Instant) -> Result<(), LookupFault> {
        let token = claim.token.to_owned();
        let has_token = match method {
            VerificationMethod::DnsTxt => {
                let remaining = until.saturating_duration_since(Instant::now());
                let texts = self.egress.txt_records(&format!("{TXT_LABEL}.{}", claim.domain), remaining).await;
                let texts = texts.map_err(|_| LookupFault::NoResponse)?;
                let expected = format!("{TXT_PREFIX}{token}");
                if !texts.iter().any(|text| unquoted(text) == expected) {
                    return Err(LookupFault::OtherTexts(OtherTexts::among(&texts)));
                }
                true
            }
            VerificationMethod::WellKnown => {
                let document = self.fetch(claim, MANIFEST_PATH, until).await?;
                self.in_manifest(claim.organization, document, token, until).await?
            }
            VerificationMethod::MetaTag => {
                let page = self.fetch(claim, "/", until).await?;
                self.in_head(claim.organization, page, token, until).await?
            }
        };
        if has_token { Ok(()) } else { Err(LookupFault::NoToken) }
    }

    /// Returns a page's body. Any status except 200 is an error.
    async fn fetch(&self, claim: ExpectedToken<'_>, path: &str, until: Instant) -> Result<Vec<u8>, LookupFault> {
        let remaining = until.saturating_duration_since(Instant::now());
        match self.get(claim.domain, path, (remaining, MAX_DOCUMENT_BYTES)).await {
            Some((200, body)) => Ok(body),
            _ => Err(LookupFault::NoResponse),
        }
    }

    /// Returns whether a manifest contains the token. A truncated manifest can't be parsed.
    async fn in_manifest(
        &self,
        organization: OrgId,
        document: Vec<u8>,
        token: String,
        until: Instant,
    ) -> Result<bool, LookupFault> {
        self.read(organization, until, move || manifest_holds(&document, &token)).await
    }

    async fn in_head(&self, organization: OrgId, page: Vec<u8>, token: String, until: Instant) -> Result<bool, LookupFault> {
        self.read(organization, until, move || html_head::scan(&page, &token, until).has_token).await
    }

    /// Fetches a document of at most 64 KiB by the same rules, and parses it. Returns the reason if that fails.
    pub(crate) async fn document<T: Send + 'static>(
        &self,
        organization: OrgId,
        url: &Url,
        parse: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        const NO_RESPONSE: &str = "no response with status 200 within ten seconds";
        let until = Instant::now() + DEADLINE;
        let response = self.egress.get(url, DEADLINE, MAX_DOCUMENT_BYTES).await.map_err(|_| NO_RESPONSE)?;
        if response.status != 200 {
            return Err(NO_RESPONSE);
        }
        if response.is_truncated {
            return Err("the document is larger than 64 KiB");
        }
        self.read(organization, until, move || parse(&response.body)).await.map_err(|_| NO_RESPONSE)
    }

    /// Returns the status and at most `cap` bytes of the body of a path, or `None` if there is no response.
    pub(super) async fn get(&self, host: &str, path: &str, (deadline, cap): (Duration, usize)) -> Option<(u16, Vec<u8>)> {
        let url = Url::parse(&format!("https://{host}:{}{path}", self.port)).ok()?;
        let response = self.egress.get(&url, deadline, cap).await.ok()?;
        Some((response.status, response.body))
    }

    /// Parses an untrusted document on a blocking thread, so that only its own request waits.
    async fn read<T: Send + 'static>(
        &self,
        organization: OrgId,
        until: Instant,
        reading: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, LookupFault> {
        let patience = until.saturating_duration_since(Instant::now());
        let slot = self.readers.wait(organization, patience).await.map_err(|_| LookupFault::NoResponse)?;
        let read = spawn_blocking(move || {
            let read = reading();
            drop(slot);
            read
        });
        timeout_at(until, read).await.ok().and_then(Result::ok).ok_or(LookupFault::NoResponse)
    }
}

impl ExpectedToken<'_> {
    fn fault(self, method: VerificationMethod, lack: LookupFault) -> Fault {
        let (place, expected) = match method {
            VerificationMethod::DnsTxt => (format!("{TXT_LABEL}.{}", self.domain), format!("{TXT_PREFIX}<token>")),
            VerificationMethod::WellKnown => {
                (format!("https://{}{MANIFEST_PATH}", self.domain), format!("the token in {MANIFEST_MEMBER}"))
            }
            VerificationMethod::MetaTag => {
                (format!("https://{}/", self.domain), format!("the token in <meta name=\"{META_NAME}\"> in its head"))
            }
        };
        let (code, what) = match lack {
            LookupFault::NoResponse if method == VerificationMethod::DnsTxt => {
                ("no_answer", format!("No TXT record found at {place}"))
            }
            LookupFault::NoResponse => ("no_answer", format!("No response with status 200 from {place}")),
            LookupFault::NoToken => ("no_token", format!("The token is missing at {place}")),
            LookupFault::OtherTexts(texts) => ("no_token", texts.describe(&place)),
        };
        Fault {
            index: None,
            field: method.as_str().to_owned(),
            code: code.to_owned(),
            detail: format!("{what}; expected {expected}"),
        }
    }
}

/// Removes quotation marks from a TXT value, because some providers store pasted ones.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map_or(text, str::trim)
}

impl OtherTexts {
    fn among(texts: &[String]) -> Self {
        let token = texts.iter().find_map(|text| unquoted(text).strip_prefix(TXT_PREFIX)).filter(|token| {
            let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=MAX_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(is_of_token)
        });
        Self { records: texts.len(), token: token.map(str::to_owned) }
    }

    fn describe(&self, place: &str) -> String {
        let instead = match self.records {
            1 => format!("The TXT record at {place} has another value"),
            more => format!("None of the {more} TXT records at {place} has the token"),
        };
        match &self.token {
            Some(token) => format!("{instead}; found {TXT_PREFIX}{token}"),
            None => instead,
        }
    }
}

/// Returns whether a manifest contains the token, as a string or in an array.
fn manifest_holds(document: &[u8], token: &str) -> bool {
    let Ok(Value::Object(manifest)) = serde_json::from_slice(document) else { return false };
    match manifest.get(MANIFEST_MEMBER) {
        Some(Value::String(text)) => text == token,
        Some(Value::Array(texts)) => texts.iter().any(|text| text == token),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::settings::WebhookSettings;
    use std::sync::mpsc;
    use uuid::Uuid;

    const ORG: OrgId = OrgId(Uuid::from_u128(99));

    fn finder() -> TokenFinder {
        TokenFinder::new(Egress::new(&WebhookSettings::default()).unwrap(), 443)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    /// There is one thread, so blocking it would block every request.
    #[tokio::test]
    async fn parsing_documents_does_not_block_requests() {
        let (served, is_served) = mpsc::channel();
        let reading = move || is_served.recv_timeout(Duration::from_secs(60)).is_ok();
        let serve = async move { served.send(()) };
        let (finder, until) = (finder(), later());
        // `join!` polls in order, so when the second future runs, the document is being parsed or was handed to another thread.
        let (read, _) = tokio::join!(finder.read(ORG, until, reading), serve);
        assert_eq!(read, Ok(true), "the other request was served meanwhile");
    }

    #[tokio::test]
    async fn parsing_a_document_requires_a_slot() {
        let finder = finder();
        let manifest = || finder.in_manifest(ORG, br#"{"verification_token":"t1"}"#.to_vec(), "t1".to_owned(), later());
        let page = format!("<meta name={META_NAME} content=t1>");
        let head = || finder.in_head(ORG, page.clone().into_bytes(), "t1".to_owned(), later());
        assert_eq!((manifest().await, head().await), (Ok(true), Ok(true)));
        assert_eq!(finder.readers.free(), READERS, "every slot is returned");
        let others = (1..).map_while(|org| finder.readers.take(OrgId(Uuid::from_u128(org)), usize::MAX).ok());
        let taken: Vec<_> = others.collect();
        assert_eq!(taken.len(), READERS);
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(finder.read(ORG, soon, || true).await, Err(LookupFault::NoResponse));
    }

    #[test]
    fn accepts_txt_records_with_pasted_quotes() {
        for text in ["svc-verify=t", " svc-verify=t ", "\"svc-verify=t\"", " \" svc-verify=t \" "] {
            assert_eq!(unquoted(text), "svc-verify=t", "{text}");
        }
        for other in ["\"svc-verify=t", "svc-verify=t\"", "\"\"svc-verify=t\"\"", "'svc-verify=t'", "\""] {
            assert_ne!(unquoted(other), "svc-verify=t", "{other}");
        }
    }

    #[test]
    fn reports_the_number_and_tokens_of_other_txt_records() {
        let told = |texts: &[&str]| {
            OtherTexts::among(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).describe("a.test")
        };
        assert_eq!(told(&["svc-verify=t-0_Z "]), "The TXT record at a.test has another value; found svc-verify=t-0_Z");
        assert_eq!(told(&["v=spf1", "svc-verify=t0"]), "None of the 2 TXT records at a.test has the token; found svc-verify=t0");
        for other in
            ["v=spf1 10.0.0.1", "svc-verify=", "svc-verify=a b", "svc-verify=<b>", &format!("svc-verify={}", "a".repeat(129))]
        {
            assert_eq!(told(&[other]), "The TXT record at a.test has another value", "{other}");
        }
    }

    #[test]
    fn finds_the_token_in_the_manifest() {
        for good in [
            r#"{"verification_token":"t1"}"#,
            r#"{"keys":[],"verification_token":["t0","t1"]}"#,
            "\n {\"verification_token\":\"\\u00741\"}",
        ] {
            assert!(manifest_holds(good.as_bytes(), "t1"), "{good}");
        }
        for bad in [
            "",
            "t1",
            "\"t1\"",
            "[\"t1\"]",
            "{}",
            r#"{"token":"t1"}"#,
            r#"{"verification_token":"t12"}"#,
            r#"{"verification_token":" t1"}"#,
            r#"{"verification_token":null}"#,
            r#"{"verification_token":[["t1"]]}"#,
            r#"{"a":{"verification_token":"t1"}}"#,
            r#"{"verification_token":"t1""#,
        ] {
            assert!(!manifest_holds(bad.as_bytes(), "t1"), "{bad}");
        }
    }
}
