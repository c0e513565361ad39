//! The color theme that a reader chose, stored in a cookie. Without one, the browser's preference applies.

use crate::State;
use crate::cookie::Cookie;
use crate::forms::Form;
use crate::return_cookie;
use axum::extract::State as Shared;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use service_kit::http::Transport;
use std::sync::Arc;

/// Values of the form, with their labels. The first deletes the cookie.
pub(crate) const THEMES: [(&str, &str); 3] = [("", "System"), ("light", "Light"), ("dark", "Dark")];

const COOKIE: Cookie = Cookie { name: "telemetry-theme", same_site: "Lax" };

fn known(theme: &str) -> &'static str {
    THEMES.iter().map(|(name, _)| *name).find(|name| *name == theme).unwrap_or_default()
}

/// Returns the chosen theme; empty without one.
pub(crate) fn chosen(transport: Transport, headers: &HeaderMap) -> &'static str {
    COOKIE.value(transport, headers).map_or("", known)
}

/// `POST /console/theme`: stores the theme and returns to the page.
pub(crate) async fn choose(Shared(state): Shared<Arc<State>>, form: Form) -> Response {
    let (theme, transport) = (form.text("theme"), state.transport());
    let theme = known(&theme);
    let seconds = if theme.is_empty() { 0 } else { 365 * 24 * 60 * 60 };
    let to = Some(form.text("to")).filter(|to| return_cookie::is_page(to)).unwrap_or_else(|| "/console".to_owned());
    (COOKIE.set(transport, theme, seconds), Redirect::to(&to)).into_response()
}
