//! The dashboards.
