//! The console, as people reach it: pages over HTTP without a script, and in a real browser.
//!
//! Must not look inside the console: a page is what its reader sees.

mod attacks;
mod browser;
mod buttons;
mod clicks;
mod contract;
mod drains;
mod failures;
mod figures;
mod files;
mod first_steps;
mod headings;
mod invites;
mod keyboard;
mod looks;
mod more_figures;
mod one_event;
mod operator_webhooks;
mod pages;
mod partners;
mod picture;
mod plain_members;
mod protection;
mod providers;
mod reader;
mod records;
mod reported;
mod requests;
mod sign_in_attacks;
mod sorting;
mod story;
mod webhooks;

use reader::Reader;

/// The screens of an owner's organisation, beneath its address.
const OWNER_SCREENS: [&str; 17] = [
    "overview",
    "events",
    "pages",
    "corroboration",
    "funnel",
    "agents",
    "crawlers",
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

/// The screens that only an agent's or a platform's organisation has.
const AGENT_SCREENS: [&str; 3] = ["reported", "reports", "clicks"];
