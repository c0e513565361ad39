//! Common imports of handlers.

pub(crate) use crate::State;
pub(crate) use crate::access::actor::{IdentityReader, IdentityWriter};
pub(crate) use crate::access::audit::{self, Author, Change};
pub(crate) use crate::access::organization_rows;
pub(crate) use crate::request::bodies;
pub(crate) use crate::request::bodies::paging::{BoundedPaging, ListResponse};
pub(crate) use axum::Json;
pub(crate) use axum::body::Body;
pub(crate) use axum::extract::{Path, State as Shared};
pub(crate) use axum::http::{Request, StatusCode};
pub(crate) use chrono::{DateTime, Utc};
pub(crate) use schemas::ids::{OrgId, UserId};
pub(crate) use schemas::problem::Code;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::json;
pub(crate) use service_kit::http::{ApiError, Parameters};
pub(crate) use sqlx::{PgConnection, PgExecutor, PgPool};
pub(crate) use std::sync::Arc;
pub(crate) use uuid::Uuid;
