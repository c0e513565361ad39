//! The pages behind a sign-in mail: one that asks whether to sign in, and one that says that it is done.
//!
//! Must redeem nothing by being opened: programs that read mail open links too. Must do without scripts, and say nothing about
//! a token that was not redeemed.

use super::Visitor;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::{ApiError, Parameters};

/// Forms go to this surface, nothing else is loaded.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
/// Where the form goes, from this page: relative, so that it works beneath whatever path people reach this surface.
const ACTION: &str = "magic-link/verify";
/// More than any token has.
const MAX_TOKEN_BYTES: usize = 128;

/// What the link holds.
#[derive(Deserialize)]
pub(crate) struct Linked {
    token: String,
}

/// `GET /api/v1/identity/auth/magic-link?token=`: the page that the mail's link opens.
pub(crate) async fn show_sign_in_page(
    _: Visitor,
    Parameters(Linked { token }): Parameters<Linked>,
) -> Result<Response, ApiError> {
    // Also what makes it safe to stand in the page.
    let is_shaped = |token: &str| token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES || !is_shaped(&token) {
        return Err(ApiError::new(Code::InvalidParameter, "The link is incomplete. Open the whole link from the email."));
    }
    Ok(page(
        "Sign in",
        &format!(
            "<form method=\"post\" action=\"{ACTION}\"><input type=\"hidden\" name=\"token\" value=\"{token}\">\
             <p>To finish signing in, click the button. The link works only once.</p><button>Sign in</button></form>"
        ),
    ))
}

/// Of a form that has signed somebody in.
pub(super) fn signed_in(email: &str) -> Response {
    page("Signed in", &format!("<p>You are signed in as {}. You can close this page.</p>", escaped(email)))
}

/// Without the exception for this origin the browser would not say where a form comes from, and it would be refused.
fn page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"referrer\" content=\"same-origin\"><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>\n"
    );
    ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)).into_response()
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut safe, char| {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
        safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_chose_acts_on_no_page() {
        assert_eq!(escaped("a&b'<\"c\">@d.test"), "a&amp;b&#39;&lt;&quot;c&quot;&gt;@d.test");
    }
}
