//! The error type of handlers: a public part for the caller and an internal part for the log.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemas::problem::{Code, Fault};
use std::sync::Arc;
use std::time::Duration;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A handler's error. The request middleware renders and logs it.
#[derive(Clone, Debug)]
pub struct ApiError {
    pub(super) code: Code,
    pub(super) detail: String,
    pub(super) faults: Vec<Fault>,
    pub(super) see: Option<&'static str>,
    pub(super) cause: Option<Arc<anyhow::Error>>,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after = (code == Code::Unavailable).then_some(RETRY_AFTER);
        Self { code, detail: detail.into(), faults: Vec::new(), see: None, cause: None, retry_after }
    }

    pub fn faults(code: Code, faults: Vec<Fault>) -> Self {
        let first = faults.first().map(as_sentence).unwrap_or_default();
        let detail = match faults.len() {
            0 | 1 => format!("{first}."),
            2 => format!("{first} (and 1 more problem)."),
            n => format!("{first} (and {} more problems).", n - 1),
        };
        Self { faults, ..Self::new(code, detail) }
    }

    /// Returns 401 with the same text for every reason, so a caller can't find out which part of a credential was wrong.
    pub fn unauthenticated() -> Self {
        Self::new(Code::Unauthenticated, "A valid API key or user session is required.")
    }

    /// Returns 503, for an unavailable dependency. `inside` is only logged.
    pub fn unavailable(inside: impl Into<anyhow::Error>) -> Self {
        Self {
            cause: Some(Arc::new(inside.into())),
            ..Self::new(Code::Unavailable, "The service is temporarily unavailable. Try again.")
        }
    }

    /// Returns 500, for an internal error. `inside` is only logged.
    pub fn internal(inside: impl Into<anyhow::Error>) -> Self {
        Self {
            cause: Some(Arc::new(inside.into())),
            ..Self::new(Code::Internal, "The request failed because of an internal error. Try again later.")
        }
    }

    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    #[must_use]
    pub fn see(self, path: &'static str) -> Self {
        Self { see: Some(path), ..self }
    }

    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the cause, for the log and operators. API callers must not see it.
    pub fn cause(&self) -> Option<&anyhow::Error> {
        self.cause.as_deref()
    }

    /// Returns detail and cause on one line, for an operator's terminal.
    pub fn one_line(&self) -> String {
        let inside = self.cause().map(|inside| format!(" ({inside:#})")).unwrap_or_default();
        format!("{}{}", self.detail, inside.replace('\n', " "))
    }

    pub fn listed(&self) -> &[Fault] {
        &self.faults
    }

    pub fn code(&self) -> Code {
        self.code
    }
}

/// Capitalizes the fault's detail, unless it begins with an API name such as `session_id`.
fn as_sentence(fault: &Fault) -> String {
    let detail = &fault.detail;
    let first_word = detail.split(' ').next().unwrap_or_default();
    let is_word = first_word.bytes().all(|byte| byte.is_ascii_lowercase()) && first_word != fault.field;
    match detail.get(..1) {
        Some(initial) if is_word => format!("{}{}", initial.to_ascii_uppercase(), &detail[1..]),
        _ => detail.clone(),
    }
}

/// A statement rejected by PostgreSQL is an internal error. Any other error means that PostgreSQL is unavailable.
impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        // 57xxx: operator intervention (statement timeout, shutdown); 53xxx: out of resources; 08xxx: connection; 25006: not the
        // primary yet; 25P03: idle transaction timeout.
        let is_passing = |code: &str| ["57", "53", "08", "40", "25006", "25P03"].iter().any(|class| code.starts_with(class));
        match &error {
            sqlx::Error::Database(refusal) if !refusal.code().is_some_and(|code| is_passing(&code)) => Self::internal(error),
            sqlx::Error::RowNotFound
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_) => Self::internal(error),
            _ => Self::unavailable(error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("every code has a valid status");
        let mut response = status.into_response();
        if self.code == Code::Unauthenticated {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey, Bearer"));
        }
        if let Some(wait) = self.retry_after {
            // Round up to whole seconds.
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_millis().div_ceil(1_000).max(1) as u64));
        }
        response.extensions_mut().insert(self);
        response
    }
}
