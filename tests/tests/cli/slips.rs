//! What users slip on and lose by: words and settings that are nearly right, files that are read and
//! written, a terminal that goes away.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use podstorm_tests::command::{
    assert_refused, loadgen, run, run_in, run_with_stdin, stderr, stdout,
};
use tempfile::TempDir;

use super::{REPLICA_SET, args, names_in};

#[track_caller]
fn assert_run_refused(arguments: &[&str], words: &[&str]) {
    let all = [&["run"], arguments].concat();
    assert_refused(&run(&all), words);
}

#[test]
fn slips_of_the_finger_are_told_with_what_was_meant() {
    for (arguments, words) in [
        (&["rnu"][..], "'run'"),
        (&["fzuz"], "'fuzz'"),
        (&["run", "--cvs", "x"], "'--csv'"),
        (&["explain", "-o", "jsno"], "'json'"),
        (
            &["serve", "--controllers", "*,-job"],
            "--controllers | \"-job\" is no controller | (podgc) | `*` is all",
        ),
    ] {
        assert_refused(&run(arguments), &[words]);
    }
    let unlike = run(&["dance"]);
    assert!(!stderr(&unlike).contains("tip"), "{}", stderr(&unlike));
}

#[test]
fn settings_at_their_extremes_are_refused_with_the_range() {
    for qps in ["1e-300", "1e-12", "2000000.0", "1e300"] {
        let words = ["--kube-api-qps", qps, "from 0.001", "to 1000000"];
        assert_run_refused(&["--kube-api-qps", qps], &words);
    }
    for rate in ["0.0000000001/h", "1000000000/s"] {
        let churn = ["--scenario", "churn", "--churn-rate", rate];
        assert_run_refused(&churn, &["--churn-rate", "from 1/h to 1000k/s"]);
    }
    for flag in args("--api-latency --watch-latency --scheduling-latency --pod-startup-latency") {
        assert_run_refused(
            &["--engine", "virtual", flag, "2562047h"],
            &[flag, "longer than the run may take, 24h", "--time-limit"],
        );
    }
    assert_run_refused(
        &["--min-ready-seconds", "2147483647s"],
        &["--min-ready-seconds | longer than the run may take, 10m"],
    );
    // A node for as many pods as can be counted takes no more memory than another.
    let output = run(&["run", "-q", "--pods", "20", "--pods-per-node", "4294967295"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn an_input_by_whatever_name_is_no_output() {
    let folder = TempDir::new().expect("a temporary directory");
    let path = folder.path();
    let scenario = stdout(&run(&["scenarios", "--print", "up-down"]));
    fs::write(path.join("sc.yaml"), &scenario).expect("the file is written");
    fs::write(path.join("web.yaml"), REPLICA_SET).expect("the file is written");
    fs::hard_link(path.join("web.yaml"), path.join("hard.yaml")).expect("a link");
    for (arguments, flag) in [
        (
            &["run", "--scenario", "sc.yaml", "--json", "./sc.yaml"][..],
            "--scenario",
        ),
        (&["run", "-f", "web.yaml", "--report", "hard.yaml"], "-f"),
        (
            &args("sweep --vary scenario=up-down,sc.yaml --csv sc.yaml"),
            "--scenario",
        ),
    ] {
        let reads = format!("would overwrite the file that {flag} reads");
        assert_refused(&run_in(path, arguments), &[&reads]);
    }
    // Standard input is a file too, where a shell redirects it.
    let input = fs::File::open(path.join("web.yaml")).expect("it is there");
    let output = Command::new(loadgen())
        .args(["run", "-f", "-", "--json", "web.yaml"])
        .current_dir(path)
        .stdin(input)
        .output()
        .expect("the command starts");
    assert_refused(
        &output,
        &["--json web.yaml: would overwrite the file that -f reads"],
    );
    assert_eq!(names_in(path), ["hard.yaml", "sc.yaml", "web.yaml"]);
    let kept = |name: &str| fs::read_to_string(path.join(name)).expect("it is there");
    assert_eq!(
        (kept("sc.yaml"), kept("web.yaml")),
        (scenario, REPLICA_SET.to_owned())
    );
}

/// Starts the command, and sends it a signal once it has a temporary file and, where `speaks`, has said
/// that it runs. Gives how it ended.
#[cfg(unix)]
fn hung_up(mut command: Command, folder: &Path, speaks: bool) -> Output {
    use std::io::{BufRead, BufReader};

    let mut child = command
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let stdin = child.stdin.take();
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    if speaks {
        let mut line = String::new();
        errors.read_line(&mut line).expect("it says something");
    }
    let handles = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it runs");
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.expect("Linux says so").trim(), 16).expect("a mask")
        };
        (mask("SigCgt:") | mask("SigIgn:")) & 1 != 0
    };
    while names_in(folder).is_empty() || !handles() {
        std::thread::yield_now();
    }
    let kill = Command::new("kill")
        .args(["-HUP", &child.id().to_string()])
        .status();
    assert!(kill.is_ok_and(|status| status.success()));
    let rest = std::thread::spawn(move || std::io::read_to_string(errors));
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    rest.join().expect("nothing panics").expect("it is text");
    output
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_that_goes_away_leaves_nothing_half_written() {
    let run = |flags: &[&str]| {
        // Tests that nohup has started ignore the signal, and what they start does too.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(loadgen());
        command.args(["run", "--json", "result.json"]).args(flags);
        command
    };
    let churn = ["--pods", "200", "--scenario", "churn", "--duration", "5m"];
    // As it runs: it reports on what ran.
    let folder = TempDir::new().expect("a temporary directory");
    let output = hung_up(run(&churn), folder.path(), true);
    assert_eq!(output.status.code(), Some(130));
    assert!(
        stdout(&output).contains("interrupted after"),
        "{}",
        stdout(&output)
    );
    assert_eq!(names_in(folder.path()), ["result.json"]);
    // Before it runs, its input still being read.
    let folder = TempDir::new().expect("a temporary directory");
    let output = hung_up(run(&["-f", "-"]), folder.path(), false);
    assert_eq!(output.status.code(), Some(130));
    assert!(names_in(folder.path()).is_empty());
    // Started to outlive it, as nohup starts.
    let folder = TempDir::new().expect("a temporary directory");
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(loadgen());
    command
        .args(["run", "--json", "result.json"])
        .args(&churn[..5])
        .arg("2s");
    let output = hung_up(command, folder.path(), true);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(names_in(folder.path()), ["result.json"]);
}

#[test]
fn what_cannot_be_read_or_written_is_refused_with_its_place() {
    let folder = TempDir::new().expect("a temporary directory");
    let path = folder.path();
    fs::write(path.join("file"), "x").expect("the file is written");
    fs::create_dir(path.join("folder")).expect("the folder is made");
    for (arguments, words) in [
        (
            &["explain", "-f", "folder", "--replicaset", "a"][..],
            "folder: is a directory",
        ),
        (&["run", "-f", "none.yaml"], "none.yaml: no such file"),
        (
            &["run", "--scenario", "./folder"],
            "./folder: is a directory",
        ),
        (&["run", "--scenario", "/dev/zero"], "larger than 4 MiB"),
        (&["compare", "folder", "file"], "folder: is a directory"),
        (
            &["compare", "/dev/zero", "file"],
            "/dev/zero: is larger than 256 MiB",
        ),
        (
            &["replay", "--schedule", "folder"],
            "folder: there is no schedule",
        ),
        (
            &["scenarios", "--check", "folder"],
            "folder: is a directory",
        ),
        (
            &["man", "--out-dir", "none"],
            "--out-dir none: there is no such directory",
        ),
        (
            &["run", "--json", "folder"],
            "--json folder: is a directory",
        ),
        (
            &["fuzz", "--json", "folder"],
            "--json folder: is a directory",
        ),
        (
            &["fuzz", "--keep", "file"],
            "--keep file: the folder can't be made",
        ),
        (
            &["run", "--save-baseline", "a", "--baseline-dir", "file"],
            "--baseline-dir file is no folder",
        ),
        (
            &["sweep", "--scenario", "-", "--vary", "seed=1,2"],
            "-:1:1: unexpected end",
        ),
        (
            &["sweep", "--vary", "scenario=burst,-"],
            "--scenario -: every cell reads",
        ),
    ] {
        assert_refused(&run_in(path, arguments), &[words]);
    }
    assert_eq!(names_in(path), ["file", "folder"]);
    let scenario = stdout(&run(&["scenarios", "--print", "up-down"]));
    let both = ["run", "--scenario", "-", "-f", "-"];
    assert_refused(
        &run_with_stdin(&both, &scenario),
        &["it can be read once only"],
    );
    let sweep = ["sweep", "--scenario", "-", "--vary", "seed=1,2"];
    let words = ["standard input can be read once only", "name a file"];
    assert_refused(&run_with_stdin(&sweep, &scenario), &words);
}
