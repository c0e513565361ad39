//! The console over HTTP without scripts, and in a real browser.

mod attacks;
mod browser;
mod drains;
mod figures;
mod first_steps;
mod invites;
mod keyboard;
mod click_token;
mod live_updates;
mod looks;
mod picture;
mod plain_members;
mod protection;
mod providers;
#[expect(dead_code, reason = "the console's own tests use the rest")]
#[path = "../../../../console/src/view_tests/reader.rs"]
mod reader;
mod sign_in_attacks;
mod sign_up;

use crate::demo::DemoApp;
use reader::Reader;

impl Reader {
    fn signed_out(demo: &DemoApp) -> Self {
        Self::new(demo.env("BASE_URL"))
    }

    /// Returns a reader with a session of `demo.env`.
    fn signed_in(demo: &DemoApp, variable: &str) -> Self {
        Self::with_session(demo, demo.env(variable))
    }

    fn with_session(demo: &DemoApp, session: &str) -> Self {
        Self::signed_out(demo).signed_in_with(session)
    }
}

/// Screens of an owner's organization.
const OWNER_SCREENS: [&str; 18] = [
    "overview",
    "events",
    "pages",
    "corroboration",
    "reconciliation",
    "funnel",
    "assistants",
    "robots",
    "start",
    "domains",
    "drains",
    "keys",
    "partners",
    "webhooks",
    "members",
    "settings",
    "audit",
    "refused",
];

/// Screens that only agents and platforms have.
const AGENT_SCREENS: [&str; 3] = ["reported", "reports", "clicks"];
