//! IP addresses as the API writes them. An IPv4 address in dotted-decimal form takes four bytes.

use core::net::{IpAddr, Ipv4Addr};
use std::fmt;

use super::Str;

/// An IP address as the API writes it. Two addresses are equal if their texts are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// Four decimal numbers without leading zeros. Each address has exactly one such text.
    V4([u8; 4]),
    /// Any other text. An IPv6 address has many texts.
    Text(Str),
}

impl Default for Address {
    /// Returns an address with an empty text.
    fn default() -> Self {
        Address(Repr::Text(Str::default()))
    }
}

/// The start of a pod contains two addresses and a time, so each of them must be small.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Address>() == 16);

impl Address {
    /// Reports whether the text is empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    /// Reports whether this is an IPv6 address.
    pub fn is_v6(&self) -> bool {
        match &self.0 {
            Repr::V4(_) => false,
            Repr::Text(text) => text.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6()),
        }
    }

    /// Returns the text, so that equal texts can be shared; `None` for an address in four bytes.
    pub(super) fn text_mut(&mut self) -> Option<&mut Str> {
        match &mut self.0 {
            Repr::V4(_) => None,
            Repr::Text(text) => Some(text),
        }
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        // The parser accepts exactly the form that `Display` writes: no leading zeros, nothing
        // omitted.
        Address(match text.parse::<Ipv4Addr>() {
            Ok(address) => Repr::V4(address.octets()),
            Err(_) => Repr::Text(text.into()),
        })
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Self {
        Address(Repr::V4(address.octets()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::V4(octets) => Ipv4Addr::from(*octets).fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_reads_back_as_written() {
        for (text, packed) in [
            ("10.64.42.17", true),
            ("0.0.0.0", true),
            ("255.255.255.255", true),
            ("010.1.1.1", false),
            ("10.1.1", false),
            ("10.1.1.256", false),
            (" 10.1.1.1", false),
            ("fd00::1", false),
            ("::ffff:10.1.1.1", false),
            ("", false),
        ] {
            let address = Address::from(text);
            assert_eq!(address.to_string(), text);
            assert_eq!(matches!(address.0, Repr::V4(_)), packed, "{text}");
            assert_eq!(address.is_empty(), text.is_empty());
        }
        let octets = Ipv4Addr::new(10, 64, 42, 17);
        assert_eq!(Address::from(octets), Address::from("10.64.42.17"));
    }
}
