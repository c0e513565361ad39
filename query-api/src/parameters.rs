//! What a read is asked for: which time, which part of a list, and where a walk goes on. Pure.

pub(crate) mod period;
pub(crate) mod paging;
pub(crate) mod cursor;
pub(crate) mod event_filter;
pub(crate) mod pages;
pub(crate) mod view;

pub(crate) use service_kit::http::sort;
