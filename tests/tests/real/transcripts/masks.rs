//! Comparison of a text with a recorded one, in which symbols replace values that differ between
//! runs.

use podstorm_tests::conformance::http::fits;

/// The symbols. They are independent: each occurrence may have another value.
const SYMBOLS: &str = "age client clusterIP count dnserror evhash gen host minute nodePort podIP rv \
                       server time tmpdir uid";

/// A piece of a recorded line.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Text(&'a str),
    Symbol(&'a str),
}

/// Compares line by line, or as sets of lines if `is_unordered`.
///
/// # Errors
/// The first line that differs, with the whole text.
pub(super) fn compare(recorded: &str, found: &str, is_unordered: bool) -> Result<(), String> {
    let recorded = without_client(recorded);
    let found = squeezed(&without_client(found));
    let mut wanted: Vec<&str> = recorded.trim_end().lines().collect();
    let mut lines: Vec<&str> = found.trim_end().lines().collect();
    let different = |line: &str| Err(format!("recorded {line:?}, found:\n{found}"));
    if is_unordered {
        wanted.retain(|line| !line.is_empty());
        lines.retain(|line| !line.is_empty());
        for line in wanted {
            match lines.iter().position(|found| is_same(line, found)) {
                Some(at) => drop(lines.remove(at)),
                None => return different(line),
            }
        }
        return match lines.first() {
            Some(line) => Err(format!("recorded nothing, found {line:?} in:\n{found}")),
            None => Ok(()),
        };
    }
    for at in 0..wanted.len().max(lines.len()) {
        match (wanted.get(at), lines.get(at)) {
            (Some(wanted), Some(line)) if is_same(wanted, line) => {}
            (Some(wanted), _) => return different(wanted),
            (None, line) => return Err(format!("recorded no line {line:?}, found:\n{found}")),
        }
    }
    Ok(())
}

/// Reduces runs of spaces inside a line to two, as in the recording, and removes trailing spaces
/// and the numbers of temporary files.
fn squeezed(text: &str) -> String {
    let squeeze = |line: &str| {
        let line = line.trim_end();
        let inside = line.trim_start();
        let mut out = line[..line.len() - inside.len()].to_owned();
        let mut blanks = 0;
        for char in inside.chars() {
            blanks = if char == ' ' { blanks + 1 } else { 0 };
            if blanks <= 2 {
                out.push(char);
            }
        }
        ["LIVE-", "MERGED-", "kubectl-edit-"]
            .iter()
            .fold(out, |line, name| without_number(&line, name))
    };
    text.lines().map(|line| squeeze(line) + "\n").collect()
}

/// Removes the dash, the number and the type from the names of temporary files.
fn without_number(line: &str, name: &str) -> String {
    let mut parts = line.split(name);
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        out.push_str(name.trim_end_matches('-'));
        let part = part.trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(part.strip_prefix(".yaml").unwrap_or(part));
    }
    out
}

/// Masks the client's version, and the server's version except for the three members that the
/// recording compares.
fn without_client(text: &str) -> String {
    const COMPARED: [&str; 3] = ["\"major\"", "\"minor\"", "\"gitVersion\""];
    let (mut is_client, mut is_server) = (false, false);
    let mask = |line: &str| {
        is_client = (is_client || line.contains("\"clientVersion\": {")) && !line.contains('}');
        is_server = (is_server || line.contains("\"serverVersion\": {")) && !line.contains('}');
        match line.split_once(": ") {
            Some((name @ ("Client Version" | "Kustomize Version"), _)) => {
                format!("{name}: $client")
            }
            Some((name, value)) if is_client && value != "{" => format!("{name}: $client"),
            Some((name, value))
                if is_server && value != "{" && !COMPARED.contains(&name.trim_start()) =>
            {
                format!("{name}: $client")
            }
            _ if line.contains("\"kustomizeVersion\"") => "$client".to_owned(),
            _ => line.to_owned(),
        }
    };
    let lines: Vec<String> = text.split('\n').map(mask).collect();
    lines.join("\n").replace("xN over ", "x$count over ")
}

fn is_same(recorded: &str, found: &str) -> bool {
    // One age in the recording was not masked.
    if let Some(row) = recorded.strip_suffix("  1s") {
        return is_same(&format!("{row}  $age"), found);
    }
    matches(&pieces(recorded), found)
}

fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('$').map(|at| at + from) {
        let after = &text[at + 1..];
        let name = SYMBOLS.split(' ').filter(|name| after.starts_with(*name));
        let Some(name) = name.max_by_key(|name| name.len()) else {
            from = at + 1;
            continue;
        };
        pieces.extend([Piece::Text(&text[..at]), Piece::Symbol(name)]);
        text = &after[name.len()..];
        from = 0;
    }
    pieces.push(Piece::Text(text));
    pieces
}

fn matches(pieces: &[Piece<'_>], text: &str) -> bool {
    match pieces {
        [] => text.is_empty(),
        [Piece::Text(wanted), rest @ ..] => text
            .strip_prefix(wanted)
            .is_some_and(|text| matches(rest, text)),
        [Piece::Symbol(name), rest @ ..] => {
            let mut ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
            ends.any(|end| may_be(name, &text[..end]) && matches(rest, &text[end..]))
        }
    }
}

fn may_be(symbol: &str, value: &str) -> bool {
    match symbol {
        // Both texts have the symbol already.
        "client" => value == "$client",
        "count" => fits("rv", value),
        "podIP" => fits("clusterIP", value),
        // In any of kubectl's formats.
        "time" => value.contains(':') && value.len() >= 19,
        "uid" => value.len() == 36,
        "dnserror" => true,
        "evhash" => value.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "host" | "minute" | "server" | "tmpdir" => !value.contains(' '),
        other => fits(other, value),
    }
}

#[test]
fn symbols_match_values_by_their_form() {
    let same = |recorded: &str, found: &str| compare(recorded, found, false).is_ok();
    assert!(same(
        "NAME  AGE\nweb-$gen  $age\n",
        "NAME        AGE\nweb-x2v9k   5s  \n"
    ));
    assert!(!same("web-$gen  $age\n", "web-x2v9k  soon\n"));
    assert!(!same("a\n", "a\nb\n") && !same("a\nb\n", "a\n"));
    assert!(same(
        "  Age: $age (xN over $age)",
        "  Age: 5s (x12 over 3m)"
    ));
    assert!(same(
        "Client Version: v1.32.4\n",
        "Client Version: v1.32.3\n"
    ));
    assert!(same("$tmpdir/LIVE/a", "/x/LIVE-123/a"));
    assert!(compare("\na\nb", "b\na\n", true).is_ok() && compare("a", "a\nb", true).is_err());
}
