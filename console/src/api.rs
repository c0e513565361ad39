//! Client for the public API.
//!
//! It sends only the signed-in person's session, so the console can't do more than that person can.

use crate::failure::Failure;
use crate::responses::List;
use anyhow::Context;
use axum::http::Method;
use reqwest::{RequestBuilder, Response};
use schemas::problem::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use uuid::Uuid;

/// Shorter than the console's own response timeout (25 s, `service_kit::http`), so that pages can show the error.
const DEADLINE: Duration = Duration::from_secs(20);
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// Path of the domain list.
pub(crate) const DOMAINS: &str = "/api/v1/identity/domains";

/// Query parameters, in order.
pub(crate) type Parameters = Vec<(&'static str, String)>;

pub(crate) struct Api {
    client: reqwest::Client,
    base: Url,
}

impl Api {
    pub(crate) fn at(base: Url) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(DEADLINE)
            .connect_timeout(CONNECT_DEADLINE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .context("failed to build the console's HTTP client")?;
        Ok(Self { client, base })
    }
}

/// API client for one person during one request.
#[derive(Clone)]
pub(crate) struct SessionClient {
    pub(crate) api: Arc<Api>,
    /// Session from the cookie. Without it, only sign-in works.
    pub(crate) session: Option<String>,
    /// Cookie header of a browser that requested a sign-in link.
    pub(crate) requested_link: Option<String>,
    /// The person's IP address, for the API's rate limits.
    pub(crate) client: String,
    /// Shown on pages and logged by the API.
    pub(crate) request_id: String,
    /// Organization that requests are sent for.
    pub(crate) organization: Option<Uuid>,
}

impl SessionClient {
    /// Returns a client that sends requests for one organization.
    pub(crate) fn about(&self, organization: Uuid) -> Self {
        Self { organization: Some(organization), ..self.clone() }
    }

    /// Returns the JSON response of a read.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str, parameters: &Parameters) -> Result<T, Failure> {
        let request = self.request(Method::GET, path, parameters).header("accept", "application/json");
        read(self.answered(request).await?).await
    }

    /// Returns one page of a list and the next page's cursor.
    pub(crate) async fn get_with_next<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &Parameters,
    ) -> Result<(List<T>, Option<String>), Failure> {
        let response = self.answered(self.request(Method::GET, path, parameters)).await?;
        let next = response.headers().get("x-next-after").and_then(|next| next.to_str().ok()).map(str::to_owned);
        Ok((read(response).await?, next))
    }

    /// Returns a list in the given media type.
    pub(crate) async fn text(&self, path: &str, parameters: &Parameters, media: &str) -> Result<Response, Failure> {
        self.answered(self.request(Method::GET, path, parameters).header("accept", media)).await
    }

    /// Sends a change and returns its JSON response.
    pub(crate) async fn change<T: DeserializeOwned>(&self, method: Method, path: &str, body: &Value) -> Result<T, Failure> {
        read(self.answered(self.request(method, path, &Vec::new()).json(body)).await?).await
    }

    /// Sends a change and returns the whole response, including its headers.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, Failure> {
        let request = self.request(method, path, &Vec::new());
        self.answered(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    fn request(&self, method: Method, path: &str, parameters: &Parameters) -> RequestBuilder {
        let mut url = self.api.base.clone();
        url.set_path(path);
        let about = self.organization.map(|organization| ("organization_id", organization.to_string()));
        let all: Vec<_> = about.iter().chain(parameters).collect();
        if !all.is_empty() {
            url.query_pairs_mut().extend_pairs(all.iter().map(|(name, value)| (name, value)));
        }
        let mut request = self.api.client.request(method, url);
        if let Some(session) = &self.session {
            request = request.bearer_auth(session);
        }
        if let Some(cookie) = &self.requested_link {
            request = request.header("cookie", cookie);
        }
        request.header("x-request-id", &self.request_id).header("x-forwarded-for", &self.client)
    }

    async fn answered(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| Failure::away(error.without_url()))?;
        let status = response.status().as_u16();
        if status < 400 {
            return Ok(response);
        }
        if status == 401 && self.session.is_some() {
            return Err(Failure::SignedOut);
        }
        let problem: Problem = read(response).await?;
        Err(Failure::Refused(Box::new(problem)))
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
    response.json().await.map_err(|error| Failure::away(error.without_url()))
}
