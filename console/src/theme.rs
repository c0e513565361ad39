//! The color theme that a reader chose, in a cookie. Without one, the browser's preference applies.

use crate::State;
use crate::forms::Form;
use crate::return_cookie;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use service_kit::http::Transport;
use service_kit::session_cookie_auth::values;
use std::sync::Arc;

/// Values of the form, with their labels. The first deletes the cookie.
pub(crate) const THEMES: [(&str, &str); 3] = [("", "System"), ("light", "Light"), ("dark", "Dark")];

fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Https => "__Host-telemetry-theme",
        Transport::Plain => "telemetry-theme",
    }
}

fn known(theme: &str) -> &'static str {
    THEMES.iter().map(|(name, _)| *name).find(|name| *name == theme).unwrap_or_default()
}

/// Returns the chosen theme; empty without one.
pub(crate) fn chosen(transport: Transport, headers: &HeaderMap) -> &'static str {
    let sent = values(headers, name(transport));
    let [theme] = sent.as_slice() else { return "" };
    known(theme)
}

/// `POST /console/theme`: stores the theme and returns to the page.
pub(crate) async fn choose(Shared(state): Shared<Arc<State>>, form: Form) -> Response {
    let (theme, transport) = (form.text("theme"), state.transport());
    let theme = known(&theme);
    let seconds = if theme.is_empty() { 0 } else { 365 * 24 * 60 * 60 };
    let secure = if transport == Transport::Https { "; Secure" } else { "" };
    let cookie = format!("{}={theme}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}", name(transport));
    let to = Some(form.text("to")).filter(|to| return_cookie::is_page(to)).unwrap_or_else(|| "/console".to_owned());
    let mut response = Redirect::to(&to).into_response();
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
