//! Mistakes that would lose data: files that are both read and written, a terminal that closes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use podstorm_tests::command::{
    assert_refused, command, ended, holds, loadgen, run, run_with_stdin, send, stdout,
};

use super::{REPLICA_SET, assert_section_refused, folder, folder_of, names_in, read};

#[test]
fn unreadable_and_unwritable_files_are_refused() {
    let scenario = stdout(&run("scenarios --print up-down"));
    let folder = folder_of(&[
        ("file", "x"),
        ("sc.yaml", &scenario),
        ("web.yaml", REPLICA_SET),
        ("same.yaml", REPLICA_SET),
    ]);
    let path = folder.path();
    fs::create_dir(path.join("folder")).expect("a folder can be created");
    fs::hard_link(path.join("web.yaml"), path.join("hard.yaml")).expect("a link");
    assert_section_refused("reads and writes", &folder);
    // Standard input is a file too if the shell redirects it.
    let input = fs::File::open(path.join("web.yaml")).expect("the file exists");
    let mut redirected = command("run -f - --json web.yaml");
    let output = redirected.current_dir(&folder).stdin(input).output();
    let words = "--json web.yaml: would overwrite the file that -f reads";
    assert_refused(&output.expect("the command starts"), words);
    assert_eq!(read(&folder, "sc.yaml"), scenario);
    assert_eq!(read(&folder, "web.yaml"), REPLICA_SET);

    let both = run_with_stdin("run --scenario - -f -", &scenario);
    assert_refused(&both, "can be read only once");
    let sweep = run_with_stdin("sweep --scenario - --vary seed=1,2", &scenario);
    let words = "standard input can be read only once | use a file";
    assert_refused(&sweep, words);
}

/// Starts the command, and sends it SIGHUP once it has a temporary file and, if `speaks`, has
/// printed that it runs. Returns its output.
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
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    if speaks {
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line of output");
    }
    let handles = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("a running process");
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.expect("Linux has this line").trim(), 16).expect("a mask")
        };
        (mask("SigCgt:") | mask("SigIgn:")) & 1 != 0
    };
    while names_in(folder).is_empty() || !handles() {
        std::thread::yield_now();
    }
    send("HUP", &child);
    let rest = std::thread::spawn(move || std::io::read_to_string(errors));
    let output = child.wait_with_output().expect("an exit status");
    drop(stdin);
    rest.join().expect("nothing panics").expect("UTF-8 text");
    output
}

#[test]
#[cfg(target_os = "linux")]
fn a_closing_terminal_leaves_no_partial_file() {
    let run = |flags: &str| {
        // Tests started by nohup ignore the signal, and so do their child processes.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(loadgen());
        command.args(["run", "--json", "result.json"]);
        command.args(flags.split(' '));
        command
    };
    let churn = "--pods 200 --scenario churn --duration";
    // During the run: it reports what has run.
    let running = folder();
    let output = hung_up(run(&format!("{churn} 5m")), running.path(), true);
    holds(&ended(&output, 130), "interrupted after");
    assert_eq!(names_in(&running), ["result.json"]);
    // Before the run, while the input is still being read.
    let reading = folder();
    let output = hung_up(run("-f -"), reading.path(), false);
    ended(&output, 130);
    assert!(names_in(&reading).is_empty());
    // Started to outlive the terminal, as with nohup.
    let outliving = folder();
    let mut command = Command::new("sh");
    let flags = format!("trap '' HUP; exec \"$0\" run --json result.json {churn} 2s");
    command.args(["-c", &flags]).arg(loadgen());
    ended(&hung_up(command, outliving.path(), true), 0);
    assert_eq!(names_in(&outliving), ["result.json"]);
}
