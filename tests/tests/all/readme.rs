//! The README as a reader tries it: each of its `loadgen` commands runs from the root of a
//! checkout, and its output of `explain` is the real one. `.ci/run` compares its output of `loadgen
//! run`, which needs an optimized build.

use std::path::{Path, PathBuf};

use podstorm_tests::command::{command, ended, run_in, stdout, told};

const README: &str = include_str!("../../../README.md");
const CARGO_RUN: &str = "cargo run --release -p podstorm-loadgen --";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the arguments of every `loadgen` command: in `cargo run` lines, in lines with a prompt,
/// and in inline code.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let alone = line
            .strip_prefix("    ")
            .and_then(|line| line.strip_prefix(CARGO_RUN));
        let prompted = line.strip_prefix("$ loadgen");
        let within = line.split('`').skip(1).step_by(2);
        let within = within.filter_map(|code| code.strip_prefix("loadgen "));
        found.extend(alone.into_iter().chain(prompted).chain(within));
    }
    let mut commands: Vec<String> = found.into_iter().map(|it| it.trim().to_owned()).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// Returns the lines of the fenced block that begins with `first`, without omitted ones.
fn block(first: &str) -> Vec<&'static str> {
    let lines = README
        .lines()
        .skip_while(move |line| !line.starts_with(first));
    let lines = lines.take_while(|line| !line.starts_with("```"));
    lines.filter(|line| *line != "…").collect()
}

#[test]
fn every_command_of_the_readme_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    // A dump stands in for the reader's.
    let dump = root().join("loadgen/examples/rollout.yaml");
    let mut ran = 0;
    for arguments in commands(README) {
        ran += 1;
        let line = arguments.replace("dump.json", dump.to_str().expect("UTF-8"));
        // Smaller sizes for an unoptimized build, and baselines outside the checkout.
        let line = match &*line {
            "serve" => continue,
            "run" => "run --pods 2k".to_owned(),
            line if line.contains("--save-baseline") => {
                format!("{line} --baseline-dir {}", folder.path().display())
            }
            line if line.contains("deployment-rollout") => format!("{line} --pods 500"),
            line => line.to_owned(),
        };
        ended(&run_in(root(), &line), 0);
    }
    assert!(ran >= 9, "{ran}");
    assert!(commands("`loadgen run -q`, and `cargo`\n$ loadgen serve\n").len() == 2);
}

#[test]
fn the_server_of_the_readme_starts() {
    let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
    let line = format!(
        "serve --listen 127.0.0.1:0 --kubeconfig {}",
        kubeconfig.path().display()
    );
    let mut server = command(&line)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut first = String::new();
    let out = server.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut first).expect("a line");
    podstorm_tests::command::send("TERM", &server);
    server.wait().expect("an exit status");
    assert!(first.starts_with("Serving http://127.0.0.1:"), "{first}");
}

#[test]
fn what_the_readme_shows_of_explain_is_what_it_prints() {
    let shown = block("$ loadgen explain");
    let (command, lines) = shown.split_first().expect("the block exists");
    let command = command
        .strip_prefix("$ loadgen ")
        .expect("a loadgen command");
    let printed = told(&run_in(root(), command));
    assert!(lines.len() > 5, "{lines:?}");
    for line in lines.iter().filter(|line| !line.is_empty()) {
        assert!(printed.contains(line), "{line:?} is not in\n{printed}");
    }
}

#[test]
fn the_first_screen_is_short() {
    let lines = README.lines().count();
    assert!(lines <= 120, "{lines} lines");
    let output = run_in(root(), "scenarios");
    let number = stdout(&output)
        .lines()
        .take_while(|line| !line.is_empty())
        .count();
    let other = format!("one of {} other questions", number - 1);
    assert!(README.contains(&other), "{other}");
}
