//! Whether a token is published where only the owner of a domain can publish it.
//!
//! Must go out through the guard only, over HTTPS only, and must say in coarse words why it found nothing: neither
//! what came back nor an address (threats.md, 2.9; S5).

use schemas::identity::VerificationMethod;
use schemas::identity::domain::{MANIFEST_MEMBER, MANIFEST_PATH, META_NAME, TXT_LABEL, TXT_PREFIX};
use schemas::problem::Fault;
use scraper::{Html, Selector};
use serde_json::Value;
use service_kit::egress::Egress;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// What all ways together may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// Of a document so much is read; a head fits, and a manifest too.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

/// Why a way proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// There is nothing at the place, or it cannot be reached.
    NoAnswer,
    /// There is something, without the token.
    NoToken,
}

/// Where to look, and for what.
pub(super) struct Claim<'a> {
    pub(super) domain: &'a str,
    pub(super) port: u16,
    pub(super) token: &'a str,
}

impl Claim<'_> {
    /// The first of these ways by which the token is found, or what each of them lacks.
    pub(super) async fn find(&self, egress: &Egress, methods: &[VerificationMethod]) -> Result<VerificationMethod, Vec<Fault>> {
        let until = Instant::now() + DEADLINE;
        let look = async |method: VerificationMethod| {
            if !methods.contains(&method) {
                return None;
            }
            Some((method, self.look(egress, method, until.saturating_duration_since(Instant::now())).await))
        };
        let [dns_txt, well_known, meta_tag] = VerificationMethod::ALL.map(look);
        let found = tokio::join!(dns_txt, well_known, meta_tag);
        let found: Vec<_> = [found.0, found.1, found.2].into_iter().flatten().collect();
        match found.iter().find(|(_, outcome)| outcome.is_ok()) {
            Some((method, _)) => Ok(*method),
            None => Err(found.into_iter().filter_map(|(method, outcome)| Some(self.fault(method, outcome.err()?))).collect()),
        }
    }

    async fn look(&self, egress: &Egress, method: VerificationMethod, deadline: Duration) -> Result<(), Lack> {
        let has_token = match method {
            VerificationMethod::DnsTxt => {
                let texts = egress.texts(&format!("{TXT_LABEL}.{}", self.domain), deadline).await;
                let texts = texts.map_err(|_| Lack::NoAnswer)?;
                let expected = format!("{TXT_PREFIX}{}", self.token);
                texts.iter().any(|text| text.trim() == expected)
            }
            VerificationMethod::WellKnown => {
                // One that is cut off does not parse.
                manifest_holds(&self.fetch(egress, MANIFEST_PATH, deadline).await?, self.token)
            }
            VerificationMethod::MetaTag => page_holds(&self.fetch(egress, "/", deadline).await?, self.token),
        };
        if has_token { Ok(()) } else { Err(Lack::NoToken) }
    }

    /// What a server of the domain says; anything but a 200 is no answer.
    async fn fetch(&self, egress: &Egress, path: &str, deadline: Duration) -> Result<Vec<u8>, Lack> {
        let url = Url::parse(&format!("https://{}:{}{path}", self.domain, self.port)).map_err(|_| Lack::NoAnswer)?;
        let answer = egress.get(&url, deadline, MAX_DOCUMENT_BYTES).await.map_err(|_| Lack::NoAnswer)?;
        if answer.status == 200 { Ok(answer.body) } else { Err(Lack::NoAnswer) }
    }

    fn fault(&self, method: VerificationMethod, lack: Lack) -> Fault {
        let place = match method {
            VerificationMethod::DnsTxt => format!("a TXT record {TXT_LABEL}.{} with {TXT_PREFIX}<token>", self.domain),
            VerificationMethod::WellKnown => {
                format!("a 200 at https://{}{MANIFEST_PATH} with the token in {MANIFEST_MEMBER}", self.domain)
            }
            VerificationMethod::MetaTag => {
                format!("a 200 at https://{}/ with <meta name=\"{META_NAME}\"> in its head", self.domain)
            }
        };
        let (code, what) = match lack {
            Lack::NoAnswer => ("no_answer", "nothing answers as expected"),
            Lack::NoToken => ("no_token", "the token is not in what answers"),
        };
        Fault {
            index: None,
            field: method.as_str().to_owned(),
            code: code.to_owned(),
            detail: format!("{what}; expected {place}"),
        }
    }
}

/// Whether a manifest names the token, alone or in a list.
fn manifest_holds(document: &[u8], token: &str) -> bool {
    let Ok(Value::Object(manifest)) = serde_json::from_slice(document) else { return false };
    match manifest.get(MANIFEST_MEMBER) {
        Some(Value::String(text)) => text == token,
        Some(Value::Array(texts)) => texts.iter().any(|text| text == token),
        _ => false,
    }
}

/// Whether a page names the token in its head: what stands in the body may be anybody's.
fn page_holds(page: &[u8], token: &str) -> bool {
    let selector = Selector::parse("html > head > meta[name][content]").expect("the selector is a constant and valid");
    let html = Html::parse_document(&String::from_utf8_lossy(page));
    html.select(&selector).any(|meta| {
        meta.attr("name").is_some_and(|name| name.eq_ignore_ascii_case(META_NAME))
            && meta.attr("content").is_some_and(|content| content.trim() == token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_the_token_in_its_own_member() {
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

    #[test]
    fn a_page_names_the_token_in_its_head_and_not_where_visitors_write() {
        let tag = r#"<meta name="content-telemetry-verification" content="t1">"#;
        for good in [
            format!("<!doctype html><html><head><title>x</title>{tag}</head><body></body></html>"),
            format!("{tag}<p>a page without a head"),
            "<head><META CONTENT=' t1 ' NAME=Content-Telemetry-Verification />".to_owned(),
            format!("<html><head><script>if (1 < 2) {{}}</script>{tag}{}", "<p>cut off"),
        ] {
            assert!(page_holds(good.as_bytes(), "t1"), "{good}");
        }
        for bad in [
            String::new(),
            format!("<html><head></head><body>{tag}</body></html>"),
            format!("<p>a comment of a visitor {tag}"),
            format!("<head><!-- {tag} --></head>"),
            format!("<head><script>'{tag}'</script></head>"),
            format!("<head><title>{tag}</title></head>"),
            format!("<head><style>{tag}</style><noscript><p>{tag}</noscript></head>"),
            format!("<head><template>{tag}</template></head>"),
            r#"<head><meta name="content-telemetry-verification" content="t12"></head>"#.to_owned(),
            r#"<head><meta property="content-telemetry-verification" content="t1"></head>"#.to_owned(),
            r#"<head><meta name="other" content="t1"></head>"#.to_owned(),
        ] {
            assert!(!page_holds(bad.as_bytes(), "t1"), "{bad}");
        }
    }
}
