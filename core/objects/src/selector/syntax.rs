//! The syntax of label keys and label values.

/// The reason why a string is not a label key or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A key has no name after its prefix, or is empty.
    #[error("the name part must not be empty")]
    EmptyName,
    /// The name of a key, or a value, is too long.
    #[error("must be no more than 63 bytes")]
    TooLong,
    /// A character is not allowed, or not allowed at the start or the end.
    #[error(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character"
    )]
    Characters,
    /// The prefix of a key is not a DNS subdomain.
    #[error("the prefix must be a lower-case DNS subdomain of at most 253 bytes")]
    Prefix,
    /// A key has more than one slash.
    #[error("must have at most one '/', between the prefix and the name")]
    Slashes,
}

/// The maximum number of bytes of the name part of a key, and of a value.
const NAME_BYTES_MAX: usize = 63;
/// The maximum number of bytes of the prefix of a key.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// The bytes allowed inside a name or a value: a table, because every byte is looked up.
const INNER: [bool; 256] = {
    let mut inner = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        inner[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        byte += 1;
    }
    inner
};

/// Checks a label key: an optional DNS subdomain with a slash, then a name.
///
/// # Errors
/// Returns the rule that the key violates.
pub fn check_label_key(key: &str) -> Result<(), SyntaxError> {
    // A loop, because keys are too short for a search that is made for long texts.
    let name = match key.bytes().position(|byte| byte == b'/') {
        None => key,
        Some(slash) if key[slash + 1..].contains('/') => return Err(SyntaxError::Slashes),
        Some(slash) => {
            let (prefix, name) = (&key[..slash], &key[slash + 1..]);
            if !is_dns_subdomain(prefix) {
                return Err(SyntaxError::Prefix);
            }
            name
        }
    };
    if name.is_empty() {
        return Err(SyntaxError::EmptyName);
    }
    check_label_value(name)
}

/// Checks a label value, which may be empty.
///
/// # Errors
/// Returns the rule that the value violates.
pub fn check_label_value(value: &str) -> Result<(), SyntaxError> {
    let bytes = value.as_bytes();
    if bytes.len() > NAME_BYTES_MAX {
        return Err(SyntaxError::TooLong);
    }
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            let edges = first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric();
            if edges && bytes.iter().all(|byte| INNER[usize::from(*byte)]) {
                Ok(())
            } else {
                Err(SyntaxError::Characters)
            }
        }
        _ => Ok(()),
    }
}

/// Reports whether a string is a DNS-1123 subdomain: dot-separated parts of lower-case letters,
/// digits and inner dashes, of at most 253 bytes in total.
pub fn is_dns_subdomain(text: &str) -> bool {
    // One pass, because every create checks label keys.
    let mut before = b'.';
    for byte in text.bytes() {
        let fits = match byte {
            b'a'..=b'z' | b'0'..=b'9' => true,
            b'-' => before != b'.',
            b'.' => before != b'.' && before != b'-',
            _ => false,
        };
        if !fits {
            return false;
        }
        before = byte;
    }
    text.len() <= SUBDOMAIN_BYTES_MAX && before != b'.' && before != b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_with_an_optional_subdomain() {
        let long = "a".repeat(63);
        for key in [
            "app",
            "A",
            "a.b_c-d",
            "example.com/role",
            "1/2",
            "x-y.z/N",
            &long,
        ] {
            assert_eq!(check_label_key(key), Ok(()), "{key}");
        }
        let too_long = "a".repeat(64);
        let wide_prefix = format!("{}com/x", "b.".repeat(126));
        for (key, problem) in [
            ("", SyntaxError::EmptyName),
            ("example.com/", SyntaxError::EmptyName),
            ("/app", SyntaxError::Prefix),
            ("Example.com/app", SyntaxError::Prefix),
            ("ex_ample.com/app", SyntaxError::Prefix),
            ("a..b/x", SyntaxError::Prefix),
            ("a-.b/x", SyntaxError::Prefix),
            (&wide_prefix, SyntaxError::Prefix),
            ("a/b/c", SyntaxError::Slashes),
            ("-app", SyntaxError::Characters),
            ("app.", SyntaxError::Characters),
            ("a b", SyntaxError::Characters),
            ("app\n", SyntaxError::Characters),
            ("ä", SyntaxError::Characters),
            (&too_long, SyntaxError::TooLong),
        ] {
            assert_eq!(check_label_key(key), Err(problem), "{key:?}");
        }
    }

    #[test]
    fn values_may_be_empty() {
        for value in ["", "web", "1", "x-1", "a_b.c", "A"] {
            assert_eq!(check_label_value(value), Ok(()), "{value}");
        }
        for value in ["-w", "w-", "w w", "w/w", ".", "_", "a,b", "!", "ü"] {
            let refused = Err(SyntaxError::Characters);
            assert_eq!(check_label_value(value), refused, "{value}");
        }
    }
}
