//! The `loadgen` command for tests: built when it is not up to date, started, and its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
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

/// The words of a command line as a shell parts them; quotes are single ones.
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

/// The cases that a text holds, one a line: their parts, between which stands ` => `; the last may be empty.
/// Other lines are remarks.
///
/// # Panics
/// When one has more parts, or fewer.
#[track_caller]
pub fn cases<const PARTS: usize>(text: &str) -> Vec<[&str; PARTS]> {
    let cases = text.lines().filter(|line| line.contains(" =>"));
    let parts = cases.map(|line| {
        let (line, empty) = match line.strip_suffix(" =>") {
            Some(line) => (line, Some("")),
            None => (line, None),
        };
        let parts: Vec<&str> = line.split(" => ").chain(empty).collect();
        parts.try_into().expect("a case has all its parts")
    });
    parts.collect()
}

/// The command with these [words] after its name, with nothing on its standard input.
pub fn command(line: &str) -> Command {
    let mut command = Command::new(loadgen());
    command.args(words(line)).stdin(Stdio::null());
    command
}

/// Runs the command in a folder, with nothing on its standard input.
///
/// # Panics
/// When it does not start.
pub fn run_in(folder: impl AsRef<Path>, line: &str) -> Output {
    command(line)
        .current_dir(folder.as_ref())
        .env("RUST_BACKTRACE", "1")
        .output()
        .expect("the command starts")
}

/// Runs the command where the test runs.
///
/// # Panics
/// When it does not start.
pub fn run(line: &str) -> Output {
    run_in(".", line)
}

/// Runs the command in a folder and interrupts it, as Ctrl-C does, once it has written a line to its
/// standard error. The second part of the result is all that it wrote there afterwards.
///
/// # Panics
/// When it does not start, or ends before it is interrupted.
#[cfg(unix)]
pub fn run_until_interrupted(folder: impl AsRef<Path>, line: &str) -> (Output, String) {
    use std::io::{BufRead, BufReader};

    let mut child = command(line)
        .current_dir(folder.as_ref())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("it says something");
    send("INT", &child);
    // Read on, or the command would meet a closed pipe.
    let rest = std::thread::spawn(move || std::io::read_to_string(errors));
    let output = child.wait_with_output().expect("it ends");
    let rest = rest.join().expect("nothing panics");
    (output, rest.expect("it is text"))
}

/// Sends a signal to a process that runs.
///
/// # Panics
/// When it has ended.
#[track_caller]
pub fn send(signal: &str, process: &Child) {
    let kill = Command::new("kill")
        .args(["-s", signal, &process.id().to_string()])
        .status();
    assert!(kill.is_ok_and(|status| status.success()), "it goes on");
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

/// Asserts that a text holds all these words, between bars: `--engine | virtual`.
///
/// # Panics
/// When it does not.
#[track_caller]
pub fn holds(text: &str, words: &str) {
    for word in words.split(" | ") {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

/// Whether a command was refused with one message that [holds] these words, and nothing else.
///
/// # Errors
/// What is wrong with it.
pub fn refusal(output: &Output, words: &str) -> Result<(), String> {
    let (text, status) = (stderr(output), output.status);
    if status.code() != Some(2) || text.matches("error: ").count() != 1 {
        return Err(format!("{status}, and not one message: {text}"));
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

/// Asserts that there is such a [refusal].
///
/// # Panics
/// When there is not.
#[track_caller]
pub fn assert_refused(output: &Output, words: &str) {
    if let Err(wrong) = refusal(output, words) {
        panic!("{wrong}");
    }
}

/// Asserts that a command ended with that code; gives what it printed.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn ended(output: &Output, code: i32) -> String {
    let (told, printed) = (stderr(output), stdout(output));
    assert_eq!(output.status.code(), Some(code), "{told}{printed}");
    printed
}

/// Asserts that a command succeeded without a message; gives what it printed.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn told(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", stderr(output));
    ended(output, 0)
}

/// Runs the command with that text on its standard input, which a dump comes through.
///
/// # Panics
/// When it does not start.
pub fn run_with_stdin(line: &str, text: &str) -> Output {
    let mut child = command(line)
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
