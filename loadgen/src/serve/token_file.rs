//! `--token-auth-file`: each line contains a token, its user, the user's UID and, in quotes, the
//! user's groups.
//!
//! Source: `authentication/token/tokenfile` of Kubernetes' apiserver, which skips lines that are
//! errors here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use podstorm_http::User;

/// Reads the tokens in a file, with their users.
///
/// # Errors
/// The file can't be read, contains no token, or has an invalid line; the error contains the line's
/// number.
pub fn read_tokens(path: &Path) -> Result<Vec<(String, User)>> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("--token-auth-file {shown}"))?;
    let tokens = parse(&bytes).with_context(|| format!("--token-auth-file {shown}"))?;
    if tokens.is_empty() {
        bail!(
            "--token-auth-file {shown}: the file contains no token, so no client could authenticate"
        );
    }
    Ok(tokens)
}

fn parse(bytes: &[u8]) -> Result<Vec<(String, User)>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(bytes);
    let mut seen = BTreeSet::new();
    let mut tokens = Vec::new();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let member = |at: usize| record.get(at).unwrap_or("");
        let (token, name) = (member(0), member(1));
        if record.len() < 3 {
            bail!("line {line}: expected token,user,uid,\"group,group\"; the groups may be absent");
        }
        if record.len() > 4 {
            bail!("line {line}: several groups need quotes: \"group,group\"");
        }
        if token.is_empty() || name.is_empty() {
            bail!("line {line}: token and user can't be empty");
        }
        // Any other character could not be sent in a header.
        if token.contains(|c: char| !c.is_ascii_graphic()) {
            bail!("line {line}: a token consists of visible ASCII characters");
        }
        if !seen.insert(token.to_owned()) {
            bail!("line {line}: the token is a duplicate of an earlier line");
        }
        let groups = member(3).split(',').filter(|group| !group.is_empty());
        let user = User {
            name: name.to_owned(),
            uid: member(2).to_owned(),
            groups: groups.map(str::to_owned).collect(),
            ..User::default()
        };
        tokens.push((token.to_owned(), user));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_token_with_its_user() {
        let text = b"t1,jane,jane-uid,\"dev,ops\"\n\nt2,bob,,dev\nt3,eve,7\n";
        let tokens = parse(text).unwrap();
        let shown: Vec<String> = tokens
            .iter()
            .map(|(token, user)| format!("{token} {} {} {:?}", user.name, user.uid, user.groups))
            .collect();
        assert_eq!(
            shown,
            [
                "t1 jane jane-uid [\"dev\", \"ops\"]",
                "t2 bob  [\"dev\"]",
                "t3 eve 7 []"
            ]
        );
    }

    #[test]
    fn a_byte_order_mark_is_ignored() {
        let tokens = parse(b"\xef\xbb\xbft1,jane,1\n").unwrap();
        assert_eq!(tokens[0].0, "t1");
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        for (text, problem) in [
            ("t1,jane,1\nt2,bob\n", "line 2: expected token"),
            ("t1,jane,1,dev,ops\n", "line 1: several groups"),
            (",jane,1\n", "line 1: token and user"),
            ("t1,,1\n", "line 1: token and user"),
            (
                "t1,a,1\nt2,b,2\nt1,c,3\n",
                "line 3: the token is a duplicate",
            ),
            ("t 1,a,1\n", "line 1: a token consists"),
            ("\u{e4},a,1\n", "line 1: a token consists"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
        assert!(parse(b"\xff,a,1\n").is_err());
    }
}
