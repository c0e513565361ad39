//! The pages behind a sign-in email: one with a button that signs in, and one that confirms the sign-in.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

/// Allows only forms to this service, and no other resources.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
/// Form target on the link's page. Relative, so that it works below any path.
const ACTION: &str = "magic-link/verify";
/// Form target on the page after a rejected form.
const ACTION_AGAIN: &str = "verify";
const MAX_TOKEN_BYTES: usize = 128;

/// Returns whether the text can be a token, which is safe to insert into a page unescaped.
pub(super) fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_TOKEN_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

pub(super) struct LinkPage {
    /// The token from the link. Escaped in the page.
    pub(super) token: String,
    pub(super) email: String,
    pub(super) is_requesting_browser: bool,
    pub(super) signed_in_as: Option<String>,
}

impl LinkPage {
    /// Returns the page again with 422, for a form with the wrong address.
    pub(super) fn with_wrong_address(&self) -> Response {
        let problem = "<p role=\"alert\">This link was sent to another address. Enter the address that you requested it for.</p>";
        (StatusCode::UNPROCESSABLE_ENTITY, self.html(ACTION_AGAIN, problem)).into_response()
    }

    fn html(&self, action: &str, problem: &str) -> Response {
        let email = escaped(&self.email);
        let field = if self.is_requesting_browser {
            format!("<p>To sign in as {email}, click the button. The link works only once.</p>")
        } else {
            format!(
                "<p>This link was requested in another browser or app. It signs you in as {email}. \
                 If you requested it, enter the full address. If you didn't, close this page.</p>\
                 <p><label>Email address <input type=\"email\" name=\"email\" required autocomplete=\"email\"></label></p>"
            )
        };
        let session = self.signed_in_as.as_deref().map_or(String::new(), |address| {
            format!("<p>You are signed in as {}. Signing in ends that session.</p>", escaped(address))
        });
        page(
            "Sign in",
            &format!(
                "{problem}{session}<form method=\"post\" action=\"{action}\"><input type=\"hidden\" name=\"token\" value=\"{}\">\
                 {field}<button>Sign in</button></form>",
                escaped(&self.token)
            ),
        )
    }
}

impl IntoResponse for LinkPage {
    fn into_response(self) -> Response {
        self.html(ACTION, "")
    }
}

/// Response to a form that signed a person in.
pub(super) fn signed_in(email: &str) -> Response {
    page("Signed in", &format!("<p>You are signed in as {}. You can close this page.</p>", escaped(email)))
}

/// Returns a page. Without the exception for this origin, browsers omit the form's origin, and the form would be rejected.
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
    fn escapes_user_text() {
        assert_eq!(escaped("a&b'<\"c\">@d.test"), "a&amp;b&#39;&lt;&quot;c&quot;&gt;@d.test");
    }
}
