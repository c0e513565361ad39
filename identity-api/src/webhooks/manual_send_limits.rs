//! Limits tests and redeliveries per endpoint and organization (docs/api/http.md#rates).

use schemas::ids::{OrgId, WebhookEndpointId};
use service_kit::http::ApiError;
use service_kit::rate_limits::RateLimits;

const PER_ENDPOINT: u32 = 5;
const PER_ORGANIZATION: u32 = 20;

pub(crate) struct ManualSendLimits {
    endpoints: RateLimits<WebhookEndpointId>,
    organizations: RateLimits<OrgId>,
}

impl Default for ManualSendLimits {
    fn default() -> Self {
        Self { endpoints: RateLimits::per_minute(PER_ENDPOINT), organizations: RateLimits::per_minute(PER_ORGANIZATION) }
    }
}

impl ManualSendLimits {
    /// Admits a test or redelivery to an endpoint of the organization, or returns 429.
    pub(crate) fn admit(&self, endpoint: WebhookEndpointId, organization: OrgId) -> Result<(), ApiError> {
        let slower = |refusal: ApiError| {
            refusal.with_detail("Too many tests and redeliveries. Wait for the time in Retry-After, then try again.")
        };
        self.endpoints.admit(endpoint).map_err(slower)?;
        self.organizations.admit(organization).map_err(slower)
    }
}
