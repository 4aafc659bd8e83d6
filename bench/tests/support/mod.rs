//! What the tests of the `gate` command have in common: stand-ins for the programs it starts, and a look at
//! what it said.
#![expect(
    clippy::unwrap_used,
    reason = "a file that can't be written is a failed test"
)]

use std::path::Path;
use std::process::{Command, Output};

/// Writes a program that does what the shell is told. Another process writes the file: one that this
/// process has open for writing, a child that another test starts at the same time would have open too,
/// and a file open for writing can't be run.
pub(crate) fn program(path: &Path, script: &str) {
    let wrote = Command::new("sh")
        .args(["-c", r#"printf '%s\n' "$1" >"$0" && chmod 755 "$0""#])
        .arg(path)
        .arg(format!("#!/bin/sh\n{script}"))
        .status();
    assert!(wrote.unwrap().success(), "{}", path.display());
}

/// Both streams.
pub(crate) fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

/// Holds a command to its exit status and to words in either stream.
#[track_caller]
pub(crate) fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
}
