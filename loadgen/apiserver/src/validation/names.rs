//! Formats of names. Each check returns the problem with a string; `None` if there is none.

use compact_str::CompactString;
use podstorm_objects::{NameFormat, SyntaxError, check_label_key, check_label_value};

/// The maximum number of bytes of a DNS-1123 subdomain.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// The maximum number of bytes of a DNS-1123 label.
const LABEL_BYTES_MAX: usize = 63;
/// The maximum number of bytes of a port name.
const PORT_NAME_BYTES_MAX: usize = 15;

/// The number of bytes of `generateName` that a name keeps: 63, less 5 random ones.
const PREFIX_BYTES_KEPT: usize = 58;

/// A function that returns the problem with a string; `None` if there is none.
pub(super) type Rule = fn(&str) -> Option<String>;

/// Returns the rule for names of a format.
pub(super) fn rule(format: NameFormat) -> Rule {
    match format {
        NameFormat::Subdomain => dns_subdomain,
        NameFormat::Label => dns_label,
        NameFormat::PathSegment => path_segment,
    }
}

/// Checks a path segment.
pub(crate) fn path_segment(text: &str) -> Option<String> {
    if text == "." || text == ".." {
        return Some(format!("may not be '{text}'"));
    }
    let found = ["/", "%"].into_iter().find(|part| text.contains(part))?;
    Some(format!("may not contain '{found}'"))
}

/// Checks a DNS subdomain, the format of most names: labels separated by dots, at most 253 bytes in
/// total.
pub(crate) fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > SUBDOMAIN_BYTES_MAX {
        return Some(too_long(SUBDOMAIN_BYTES_MAX));
    }
    (!text.split('.').all(is_dns_part)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
         used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    })
}

/// Like [`dns_subdomain`], with the other wording that upstream uses for ReplicationControllers.
pub(super) fn controller_name(text: &str) -> Option<String> {
    dns_subdomain(text).map(|problem| problem.replace("253 characters", "253 bytes"))
}

/// Checks a DNS label that begins with a letter, the format for Services and custom resources.
pub(crate) fn dns_1035_label(text: &str) -> Option<String> {
    if text.len() > LABEL_BYTES_MAX {
        return Some(too_long(LABEL_BYTES_MAX));
    }
    let begins_well = text.starts_with(|first: char| first.is_ascii_lowercase());
    (!begins_well || !is_dns_part(text)).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
         alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
         'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}

/// Checks a DNS label, the format for namespaces and containers: lowercase letters, digits and
/// inner dashes, at most 63 bytes.
pub(crate) fn dns_label(text: &str) -> Option<String> {
    if text.len() > LABEL_BYTES_MAX {
        return Some(too_long(LABEL_BYTES_MAX));
    }
    if is_dns_part(text) {
        return None;
    }
    if dns_subdomain(text).is_none() {
        return Some("must not contain dots".to_owned());
    }
    Some(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
         and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
         regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned(),
    )
}

/// Returns all problems with a label key. An empty name also counts as one with wrong characters.
pub(crate) fn label_key_problems(text: &str) -> Vec<String> {
    let is_empty = text.is_empty() || text.ends_with('/');
    // `~` is an invalid character, so it yields the error for wrong characters.
    let again = is_empty.then(|| qualified_name("~")).flatten();
    qualified_name(text).into_iter().chain(again).collect()
}

/// Checks a label key: an optional DNS subdomain and a slash, then a name.
pub(crate) fn qualified_name(text: &str) -> Option<String> {
    let whole = match check_label_key(text).err()? {
        SyntaxError::Slashes => {
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
             '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') \
             with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                .to_owned()
        }
        SyntaxError::Prefix => {
            let prefix = text.split('/').next().unwrap_or("");
            match dns_subdomain(prefix) {
                Some(_) if prefix.is_empty() => "prefix part must be non-empty".to_owned(),
                Some(problem) => format!("prefix part {problem}"),
                None => "prefix part must be a DNS subdomain".to_owned(),
            }
        }
        SyntaxError::EmptyName => "name part must be non-empty".to_owned(),
        SyntaxError::TooLong => "name part must be no more than 63 bytes".to_owned(),
        SyntaxError::Characters => {
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
             regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned()
        }
    };
    Some(whole)
}

/// Checks a label value.
pub(crate) fn label_value(text: &str) -> Option<String> {
    Some(match check_label_value(text).err()? {
        SyntaxError::TooLong => "must be no more than 63 bytes".to_owned(),
        _ => {
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned()
        }
    })
}

/// Checks the name of an environment variable: printable ASCII except the equals sign.
pub(super) fn variable(text: &str) -> Option<String> {
    let fits = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (!text.bytes().all(fits)).then(|| {
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='"
            .to_owned()
    })
}

/// Checks an IP address of either version.
pub(crate) fn ip_address(text: &str) -> Option<String> {
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    (!is_address)
        .then(|| "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned())
}

/// Reports whether a string is an address range in CIDR notation.
pub(crate) fn is_range(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let most = match address.parse() {
            Ok(std::net::IpAddr::V4(_)) => 32,
            Ok(std::net::IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    })
}

/// Checks an address range.
pub(crate) fn range(text: &str) -> Option<String> {
    let problem = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    (!is_range(text)).then(|| problem.to_owned())
}

/// Checks the key of a ConfigMap or a Secret.
pub(crate) fn config_key(text: &str) -> Option<String> {
    if text.len() > SUBDOMAIN_BYTES_MAX {
        return Some(too_long(SUBDOMAIN_BYTES_MAX));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || !text.bytes().all(fits) {
        return Some(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
             'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
             '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." | ".." => Some(format!("must not be '{text}'")),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// Checks the name of an HTTP header.
pub(super) fn header(text: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (text.is_empty() || !text.bytes().all(fits)).then(|| {
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
         regex used for validation is '[-A-Za-z0-9]+')"
            .to_owned()
    })
}

/// Returns all problems with the name of a port, which is an IANA service name.
pub(crate) fn port_name_problems(text: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let mut problems = Vec::new();
    if text.len() > PORT_NAME_BYTES_MAX {
        problems.push(too_long(PORT_NAME_BYTES_MAX));
    }
    for (is_so, problem) in [
        (
            !text.bytes().all(fits),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !text.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (
            text.starts_with('-') || text.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ] {
        if is_so {
            problems.push(problem.to_owned());
        }
    }
    problems
}

/// Returns the first problem with the name of a port.
#[cfg(test)]
fn port_name(text: &str) -> Option<String> {
    port_name_problems(text).into_iter().next()
}

/// Checks a name prefix: first the prefix itself, without a trailing dash, then a name that begins
/// with it.
///
/// Like upstream, replaces the last byte of the part before a trailing dash, so that the longest
/// possible name with a dash is a valid prefix.
pub(super) fn prefix(text: &str, rule: Rule) -> Option<String> {
    if !text.is_ascii() {
        return rule(text);
    }
    let own = match text.len() {
        2.. if text.ends_with('-') => rule(&with_a(&text[..text.len() - 2])),
        _ => rule(text),
    };
    let kept = &text[..text.len().min(PREFIX_BYTES_KEPT)];
    own.or_else(|| rule(&with_a(kept)))
}

/// Appends an `a`. Every new pod has a prefix, and this is faster than formatting.
fn with_a(text: &str) -> CompactString {
    let mut text = CompactString::from(text);
    text.push('a');
    text
}

fn is_dns_part(part: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match part.as_bytes() {
        [] => false,
        bytes => {
            plain(&bytes[0])
                && plain(&bytes[bytes.len() - 1])
                && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
        }
    }
}

fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: Rule, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(rule(text), None, "{text:?}");
        }
        for text in bad {
            assert!(rule(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn each_format_accepts_and_refuses_its_examples() {
        let (label, long_label) = ("a".repeat(63), "a".repeat(64));
        let long_name = format!("{}aaa", "a.".repeat(126));
        check(
            dns_subdomain,
            &["a", "web-1", "a.b.c", "1", &long_label],
            &[
                "", "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "a/b", "ä", &long_name,
            ],
        );
        check(
            dns_label,
            &["a", "web-1", "0", &label],
            &["", "a.b", "A", "-a", &long_label],
        );
        check(
            variable,
            &["A", "a-b.c_d", "1 x", "$"],
            &["a=b", "a\tb", "ä"],
        );
        check(
            port_name,
            &["http", "a1", "8080-tcp"],
            &["", "80", "a--b", "-a", "a-", "HTTP", "sixteen-letters-"],
        );
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        let longest = format!("{}-", "a".repeat(253));
        for text in ["web-", "web", "a.b-", "a--", &longest] {
            assert_eq!(prefix(text, dns_subdomain), None, "{text}");
        }
        let long = format!("{}-", "a".repeat(254));
        for text in ["-", "", "web.", "Web-", "A-", "a.-", "ä-", &long] {
            assert!(prefix(text, dns_subdomain).is_some(), "{text}");
        }
        assert_eq!(prefix("web", dns_label), None);
    }
}
