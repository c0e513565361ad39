//! Parsers of untrusted input. Each has a module with the properties that must hold. No input may cause a panic.

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
    /// Name of the target, and of the folder with its seeds.
    pub name: &'static str,
    /// Checks the properties for one input. Returns whether the service would accept it.
    pub run: fn(&[u8]) -> bool,
}

pub const TARGETS: [Target; 6] = [
    Target { name: "address", run: address::run },
    Target { name: "drain", run: drain::run },
    Target { name: "event", run: event::run },
    Target { name: "site", run: site::run },
    Target { name: "parameters", run: parameters::run },
    Target { name: "token", run: token::run },
];

impl Target {
    /// Returns whether the service would accept the input, or the message of the violated property.
    pub fn try_run(&self, input: &[u8]) -> Result<bool, String> {
        std::panic::catch_unwind(|| (self.run)(input)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        })
    }
}
