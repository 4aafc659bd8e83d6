//! The `loadgen` command for tests: builds the command if it is out of date, runs it, and checks
//! its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// Returns the path of the command next to the running test. Brings the command up to date first.
///
/// # Panics
/// Panics if the command can neither be built nor found.
pub fn loadgen() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of the test program is known");
        // target/<profile>/deps/cli-<hash>
        let directory = test
            .ancestors()
            .nth(2)
            .expect("test programs are two levels below")
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
                // With an example, cargo resolves the same features as for the tests, so it reuses
                // their build.
                "--example",
                "replica_set_name",
            ])
            .args(["--profile", profile, "--target-dir"])
            .arg(
                directory
                    .parent()
                    .expect("profiles are in the target directory"),
            )
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .status();
        match built {
            // Otherwise, the tests would run an outdated command.
            Ok(status) => assert!(status.success(), "the build of loadgen failed"),
            Err(_) => assert!(binary.exists(), "{} is missing", binary.display()),
        }
        binary
    })
}

/// Returns the cargo that runs the test, without the environment variables of the test's package: a
/// build script that depends on them, such as ring's, would run again, and everything that depends
/// on it would be rebuilt.
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

/// Splits a command line into words like a shell, but supports only single quotes.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Parses a text with one case per line, whose parts are separated by ` => `. The last part may be
/// empty. Lines without ` => ` are comments.
///
/// # Panics
/// Panics if a case has more or fewer parts.
#[track_caller]
pub fn cases<const PARTS: usize>(text: &str) -> Vec<[&str; PARTS]> {
    let cases = text.lines().filter(|line| line.contains(" =>"));
    let parts = cases.map(|line| {
        let (line, empty) = match line.strip_suffix(" =>") {
            Some(line) => (line, Some("")),
            None => (line, None),
        };
        let parts: Vec<&str> = line.split(" => ").chain(empty).collect();
        parts.try_into().expect("a case must have all its parts")
    });
    parts.collect()
}

/// Returns the command with the [words] of a line as arguments, and with empty standard input.
pub fn command(line: &str) -> Command {
    let mut command = Command::new(loadgen());
    command.args(words(line)).stdin(Stdio::null());
    command
}

/// Runs the command in a folder, with empty standard input.
///
/// # Panics
/// Panics if the command does not start.
pub fn run_in(folder: impl AsRef<Path>, line: &str) -> Output {
    command(line)
        .current_dir(folder.as_ref())
        .env("RUST_BACKTRACE", "1")
        .output()
        .expect("the command starts")
}

/// Runs the command in the test's folder.
///
/// # Panics
/// Panics if the command does not start.
pub fn run(line: &str) -> Output {
    run_in(".", line)
}

/// Runs the command in a folder and interrupts it, like Ctrl-C, after its first line on standard
/// error. The second part of the result is the rest of its standard error.
///
/// # Panics
/// Panics if the command does not start, or ends before it is interrupted.
#[cfg(unix)]
pub fn run_until_interrupted(folder: impl AsRef<Path>, line: &str) -> (Output, String) {
    use std::io::{BufRead, BufReader};

    let mut child = command(line)
        .current_dir(folder.as_ref())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("standard error is piped"));
    let mut line = String::new();
    errors
        .read_line(&mut line)
        .expect("the command writes a line");
    send("INT", &child);
    // Continue to read, or the command would write to a closed pipe.
    let rest = std::thread::spawn(move || std::io::read_to_string(errors));
    let output = child.wait_with_output().expect("it ends");
    let rest = rest.join().expect("nothing panics");
    (output, rest.expect("standard error is text"))
}

/// Sends a signal to a running process.
///
/// # Panics
/// Panics if the process has ended.
#[track_caller]
pub fn send(signal: &str, process: &Child) {
    let kill = Command::new("kill")
        .args(["-s", signal, &process.id().to_string()])
        .status();
    assert!(
        kill.is_ok_and(|status| status.success()),
        "the process has ended"
    );
}

/// Returns the standard error of the command.
///
/// # Panics
/// Panics if the output is not UTF-8.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

/// Returns the standard output of the command.
///
/// # Panics
/// Panics if the output is not UTF-8.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("reports are UTF-8")
}

/// Asserts that a string contains all of these phrases, which are separated by bars: `--engine |
/// virtual`.
///
/// # Panics
/// Panics if a phrase is missing.
#[track_caller]
pub fn holds(text: &str, words: &str) {
    for word in words.split(" | ") {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

/// Checks that a command was rejected with one message that [holds] these phrases, and without
/// other output.
///
/// # Errors
/// Returns the first deviation from that.
pub fn refusal(output: &Output, words: &str) -> Result<(), String> {
    let (text, status) = (stderr(output), output.status);
    if status.code() != Some(2) || text.matches("error: ").count() != 1 {
        return Err(format!("{status}, or not exactly one message: {text}"));
    }
    if let Some(word) = words.split(" | ").find(|word| !text.contains(word)) {
        return Err(format!("{word:?} is missing in: {text}"));
    }
    let mut noise = ["panicked", "backtrace", "RUST_", "src/"].into_iter();
    if let Some(noise) = noise.find(|noise| text.contains(noise)) {
        return Err(format!("{noise:?} in: {text}"));
    }
    match output.stdout.is_empty() {
        true => Ok(()),
        false => Err(stdout(output)),
    }
}

/// Asserts a [refusal] of a command.
///
/// # Panics
/// Panics if the command was not rejected in this way.
#[track_caller]
pub fn assert_refused(output: &Output, words: &str) {
    if let Err(wrong) = refusal(output, words) {
        panic!("{wrong}");
    }
}

/// Asserts that a command ended with this exit code. Returns its standard output.
///
/// # Panics
/// Panics if the command ended with another code.
#[track_caller]
pub fn ended(output: &Output, code: i32) -> String {
    let (told, printed) = (stderr(output), stdout(output));
    assert_eq!(output.status.code(), Some(code), "{told}{printed}");
    printed
}

/// Asserts that a command succeeded without messages. Returns its standard output.
///
/// # Panics
/// Panics if the command failed or printed a message.
#[track_caller]
pub fn told(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", stderr(output));
    ended(output, 0)
}

/// Runs the command with a text on its standard input, such as an exported cluster.
///
/// # Panics
/// Panics if the command does not start.
pub fn run_with_stdin(line: &str, text: &str) -> Output {
    let mut child = command(line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // Ignore errors: a command may stop reading early, and the caller checks its output.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the command ends")
}
