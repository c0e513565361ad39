//! Where outside bytes enter, one module for each place, and what must hold for all of them: no panic, and the laws
//! that the module lists.

pub mod address;
pub mod drain;
pub mod event;
pub mod mutate;
pub mod parameters;
pub mod site;
pub mod token;

/// A place where outside bytes enter.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its seeds' folder.
    pub name: &'static str,
    /// Checks the laws for one input; whether the service would take it.
    pub enter: fn(&[u8]) -> bool,
}

pub const TARGETS: [Target; 6] = [
    Target { name: "address", enter: address::enter },
    Target { name: "drain", enter: drain::enter },
    Target { name: "event", enter: event::enter },
    Target { name: "site", enter: site::enter },
    Target { name: "parameters", enter: parameters::enter },
    Target { name: "token", enter: token::enter },
];

impl Target {
    /// Whether the service would take the input, or what the broken law says.
    pub fn try_enter(&self, input: &[u8]) -> Result<bool, String> {
        std::panic::catch_unwind(|| (self.enter)(input)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        })
    }
}
