//! Email addresses, in the one spelling that identifies an account.
//!
//! Rejects addresses that could end a header line or be read as two addresses. Emails are sent to the lowercase spelling, never to the
//! entered one, because all spellings of an account share one mailbox.

use lettre::Address;
use std::fmt;

/// Maximum length of an SMTP path (RFC 5321).
const MAX_BYTES: usize = 254;

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EmailAddress(String);

impl EmailAddress {
    /// Parses an address; the error continues "email ...".
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("must have at most 254 bytes");
        }
        // Quotes and spaces are valid in addresses, but rare, and programs parse them differently.
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"(),:;<>[\\]".contains(&byte)) {
            return Err("must contain only plain ASCII characters; write an international domain with xn--");
        }
        let address: Address = text.parse().map_err(|_| "must be an address such as name@example.com")?;
        if address.domain().parse::<std::net::IpAddr>().is_ok() {
            return Err("must contain a domain name, not an IP address");
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first character and the domain, enough for the owner to recognize the address.
    pub(crate) fn masked(&self) -> String {
        let (local, domain) = self.0.rsplit_once('@').unwrap_or((&self.0, ""));
        format!("{}…@{domain}", local.chars().next().unwrap_or_default())
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_an_email_address_are_equal() {
        for text in ["Jane.Doe+x@Example.COM", "jane.doe+x@example.com"] {
            assert_eq!(EmailAddress::parse(text).unwrap().as_str(), "jane.doe+x@example.com");
        }
        assert!(EmailAddress::parse("a@xn--bcher-kva.example").is_ok());
        assert!(EmailAddress::parse("root@localhost").is_ok(), "local mail servers have such addresses");
    }

    #[test]
    fn masks_the_local_part_except_its_first_character() {
        assert_eq!(EmailAddress::parse("Jane.Doe@Example.com").unwrap().masked(), "j…@example.com");
        assert_eq!(EmailAddress::parse("a@b.test").unwrap().masked(), "a…@b.test");
    }

    #[test]
    fn i5_rejects_unusual_addresses() {
        let long = format!("{}@example.com", "x".repeat(243));
        for text in [
            "",
            "@",
            "a",
            "a@",
            "@b.test",
            "a b@c.test",
            " a@b.test",
            "a@b.test ",
            "a@b.test\r\nBcc: x@y.test",
            "a@b.test\n",
            "a\r@b.test",
            "a\0@b.test",
            "a@b.test,c@d.test",
            "a@b.test;c@d.test",
            "<a@b.test>",
            "A <a@b.test>",
            "\"a b\"@c.test",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "a@::1",
            "a@b..test",
            "a@-b.test",
            "\u{212a}im@b.test",
            "a@b\u{fc}cher.test",
            "a@b@c.test",
            "mailto:a@b.test",
            &long,
        ] {
            assert!(EmailAddress::parse(text).is_err(), "{text:?}");
        }
    }
}
