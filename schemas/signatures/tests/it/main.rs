//! What other programs sign.

mod clients;
mod documented;
