//! Parsers of untrusted input, one module each with the properties that must hold. No input may cause a panic.

pub mod address;
pub mod drain;
pub mod event;
pub mod mutate;
pub mod parameters;
pub mod site;
pub mod token;

/// A parser of untrusted input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target and of its seeds' folder.
    pub name: &'static str,
    /// Checks the properties for one input. Returns whether the service would accept it.
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
    /// Returns whether the service would accept the input, or the message of the violated property.
    pub fn try_enter(&self, input: &[u8]) -> Result<bool, String> {
        std::panic::catch_unwind(|| (self.enter)(input)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        })
    }
}
