//! Resource versions. Clients may only compare them, and only in the way that Kubernetes 1.36
//! allows.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;

/// The `metadata.resourceVersion` of an object or a list; 16 bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum ResourceVersion {
    /// The empty string.
    #[default]
    Unset,
    /// A decimal number without leading zeros that fits in 64 bits. All versions of our own server
    /// have this form.
    Number(u64),
    /// Any other string.
    Opaque(Box<CompactString>),
}

impl ResourceVersion {
    /// Creates a version from its string form.
    pub fn new(text: &str) -> ResourceVersion {
        if text.is_empty() {
            return ResourceVersion::Unset;
        }
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if plain => ResourceVersion::Number(number),
            _ => ResourceVersion::Opaque(Box::new(text.into())),
        }
    }

    /// Reports whether the version is the empty string.
    pub fn is_unset(&self) -> bool {
        matches!(self, ResourceVersion::Unset)
    }

    /// Returns the number; `None` if the version is not a 64-bit number.
    pub fn number(&self) -> Option<u64> {
        match self {
            ResourceVersion::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Compares two versions like apimachinery: both are decimal strings without leading zeros, the
    /// longer one is newer, and equal lengths compare digit by digit. `None` for anything else.
    pub fn compare(&self, other: &ResourceVersion) -> Option<Ordering> {
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return Some(a.cmp(&b));
        }
        let (a, b) = (self.to_string(), other.to_string());
        let comparable = |text: &str| {
            !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
        };
        (comparable(&a) && comparable(&b)).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(&b)))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceVersion::Unset => Ok(()),
            ResourceVersion::Number(number) => write!(f, "{number}"),
            ResourceVersion::Opaque(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        ResourceVersion::Number(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_decimal_strings() {
        let compare = |a: &str, b: &str| ResourceVersion::new(a).compare(&ResourceVersion::new(b));
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("10", "10"), Some(Ordering::Equal));
        let long = "99999999999999999999999";
        assert_eq!(compare(long, "3"), Some(Ordering::Greater));
        for bad in ["", "010", "0", "x1", "-1", "1 "] {
            assert_eq!(compare(bad, "1"), None, "{bad:?}");
        }
    }
}
