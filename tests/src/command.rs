//! The `loadgen` command for tests: built when it is not up to date, started, and its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The built command beside the running test, brought up to date first.
///
/// # Panics
/// When it can neither be built nor found.
pub fn loadgen() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("a process knows its program");
        // target/<profile>/deps/cli-<hash>
        let directory = test
            .ancestors()
            .nth(2)
            .expect("tests lie two levels below")
            .to_owned();
        let name = format!("loadgen{}", std::env::consts::EXE_SUFFIX);
        let binary = directory.join(name);
        let profile = match directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let built = cargo()
            .args([
                "build",
                "--quiet",
                "--workspace",
                "--bin",
                "loadgen",
                // An example has the features of tests: all is as the tests were built, not built again.
                "--example",
                "replica_set_name",
            ])
            .args(["--profile", profile, "--target-dir"])
            .arg(
                directory
                    .parent()
                    .expect("profiles lie in the target directory"),
            )
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .status();
        match built {
            // An old command would be tested in place of the new one.
            Ok(status) => assert!(status.success(), "loadgen does not build"),
            Err(_) => assert!(binary.exists(), "{} is missing", binary.display()),
        }
        binary
    })
}

/// The cargo that runs the test, without what it has told the test of its package: a build script that
/// depends on that, as ring's does, would run again, and everything above it be built again.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Runs the command in a directory, with nothing on its standard input.
///
/// # Panics
/// When it does not start.
pub fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(loadgen())
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env("RUST_BACKTRACE", "1")
        .output()
        .expect("the command starts")
}

/// Runs the command where the test runs.
///
/// # Panics
/// When it does not start.
pub fn run(arguments: &[&str]) -> Output {
    run_in(Path::new("."), arguments)
}

/// Runs the command in a directory and interrupts it, as Ctrl-C does, once it has written a line to its
/// standard error. The second part of the result is all that it wrote there afterwards.
///
/// # Panics
/// When it does not start, or ends before it is interrupted.
#[cfg(unix)]
pub fn run_until_interrupted(arguments: &[&str], directory: &Path) -> (Output, String) {
    use std::io::{BufRead, BufReader};

    let mut child = Command::new(loadgen())
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("it says something");
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(
        kill.is_ok_and(|status| status.success()),
        "the command goes on: {line}"
    );
    // Read on, or the command would meet a closed pipe.
    let rest = std::thread::spawn(move || std::io::read_to_string(errors));
    let output = child.wait_with_output().expect("it ends");
    let rest = rest.join().expect("nothing panics");
    (output, rest.expect("it is text"))
}

/// What the command wrote to its standard error.
///
/// # Panics
/// When it is not UTF-8.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

/// What the command wrote to its standard output.
///
/// # Panics
/// When it is not UTF-8.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("reports are UTF-8")
}

/// Asserts that a command was refused with one message that holds every word, and nothing else. Words in one
/// text stand between bars: `--engine | virtual`.
///
/// # Panics
/// When it was not.
#[track_caller]
pub fn assert_refused(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.matches("error: ").count(), 1, "one message: {text}");
    for word in words.iter().flat_map(|words| words.split(" | ")) {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    for noise in ["panicked", "backtrace", "RUST_", "src/"] {
        assert!(!text.contains(noise), "{noise:?} in: {text}");
    }
    assert!(output.stdout.is_empty(), "{}", stdout(output));
}

/// Asserts that a command succeeded without a message; gives what it printed.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn told(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    assert!(output.stderr.is_empty(), "{}", stderr(output));
    stdout(output)
}

/// Runs the command with that text on its standard input, which a dump comes through.
///
/// # Panics
/// When it does not start.
pub fn run_with_stdin(arguments: &[&str], text: &str) -> Output {
    let mut child = Command::new(loadgen())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // A command may stop reading early; what it says is checked by the caller.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the command ends")
}
