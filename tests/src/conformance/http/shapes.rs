//! The shapes of the values that symbols replace.

/// Reports whether a string may be the value of a symbol, whose name is given without its number.
#[must_use]
pub fn fits(symbol: &str, text: &str) -> bool {
    match symbol {
        "rv" | "lrv" => is_number(text),
        "gen" => {
            let is_of_them = |byte: u8| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte);
            text.len() == 5 && text.bytes().all(is_of_them)
        }
        // The address may be from any range.
        "clusterIP" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "nodePort" => {
            let port = text.parse::<u32>();
            port.is_ok_and(|port| (30_000..=32_767).contains(&port))
        }
        "time" => looks_like("0000-00-00T00:00:00Z", text),
        "microtime" => looks_like("0000-00-00T00:00:00.000000Z", text),
        "age" => is_age(text),
        _ => !text.is_empty(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reports whether a string matches a pattern in which a 0 matches any digit.
fn looks_like(pattern: &str, text: &str) -> bool {
    let same = |(wanted, found): (u8, u8)| match wanted {
        b'0' => found.is_ascii_digit(),
        other => found == other,
    };
    pattern.len() == text.len() && pattern.bytes().zip(text.bytes()).all(same)
}

/// Reports whether a string is a duration in the short form: `5s`, `2m30s`, `2y204d`.
fn is_age(text: &str) -> bool {
    let parts = text.split_inclusive(|c: char| !c.is_ascii_digit());
    let is_part = |part: &str| {
        let number = part.trim_end_matches(['s', 'm', 'h', 'd', 'y']);
        number.len() + 1 == part.len() && is_number(number)
    };
    matches!(text, "<unknown>" | "<invalid>") || !text.is_empty() && parts.clone().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_symbol_accepts_only_its_own_kind_of_value() {
        for (symbol, good, bad) in [
            ("rv", "17", "x"),
            ("gen", "x2v9k", "x2v9a"),
            ("clusterIP", "10.0.3.4", "None"),
            ("nodePort", "30000", "29999"),
            ("time", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1Z"),
            (
                "microtime",
                "2026-01-02T03:04:05.000001Z",
                "2026-01-02T03:04:05Z",
            ),
            ("age", "2y204d", "204"),
            ("uid", "anything", ""),
        ] {
            assert!(fits(symbol, good), "{symbol}: {good}");
            assert!(!fits(symbol, bad), "{symbol}: {bad}");
        }
    }
}
