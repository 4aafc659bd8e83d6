//! What the tests of the `gate` command have in common: stand-ins for the programs it starts, and a look at
//! what it said.
#![expect(
    clippy::unwrap_used,
    reason = "a file that can't be written is a failed test"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

/// Writes a program that does what the shell is told.
pub(crate) fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
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
