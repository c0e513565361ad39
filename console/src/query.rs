//! What an address says behind its question mark.
//!
//! Must answer people who mistype it with a page, as every other refusal is one.

use crate::failure::Failure;
use axum::extract::{FromRequestParts, Query as Parsed};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// The parameters of an address.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let parsed = Parsed::<T>::from_request_parts(parts, state).await;
        parsed.map(|Parsed(asked)| Self(asked)).map_err(|_| Failure::Unreadable("The address cannot be read.".to_owned()))
    }
}
