//! Rows with the names of their organizations.

use crate::access::organization_names::OrganizationNames;
use crate::reads::{ListPage, Rows};
use service_kit::http::ApiError;
use uuid::Uuid;

/// Rows, each with the name of its platform.
pub(crate) struct NamedRows<R: Rows> {
    pub(crate) rows: R,
    pub(crate) names: OrganizationNames,
    pub(crate) platform: fn(&R::Row) -> Uuid,
}

impl<R: Rows> Rows for NamedRows<R> {
    type Row = (R::Row, String);

    async fn next(&mut self) -> Result<Option<Self::Row>, ApiError> {
        let Some(row) = self.rows.next().await? else { return Ok(None) };
        let name = self.names.name((self.platform)(&row)).await;
        Ok(Some((row, name)))
    }
}

impl<R: ListPage> ListPage for NamedRows<R> {
    fn total(&self) -> u64 {
        self.rows.total()
    }

    fn next_page(&self) -> Option<&str> {
        self.rows.next_page()
    }
}
