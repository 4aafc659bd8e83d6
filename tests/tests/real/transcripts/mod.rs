//! A session of kubectl commands, recorded with their output on a Kubernetes 1.36.2 cluster, and
//! repeated on one served cluster: `tests/kubectl/README.md`.

mod masks;
mod session;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use podstorm_tests::conformance::deviations::reason;
use podstorm_tests::conformance::runner::read_cases;
use serde_json::Value;

use session::{Printed, Session};

/// The number of commands, and of those whose output equals the recorded one.
const COMMANDS: usize = 339;
const SAME: usize = 314;

/// Time limit for a command. One that is listed may wait forever, and gets less.
const WITHIN: Duration = Duration::from_secs(20);
const LISTED_WITHIN: Duration = Duration::from_secs(3);

#[test]
#[ignore = "needs kubectl: cargo real"]
fn recorded_commands_print_the_recorded_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl");
    let cases = read_cases(&folder.join("kubectl.jsonl.gz")).expect("the recorded cases");
    assert_eq!(cases.len(), COMMANDS);
    let session = Session::start(&folder.join("nodes.yaml"));
    let (mut same, mut wrong, mut report) = (0, Vec::new(), String::new());
    for case in &cases {
        let id = case["id"].as_str().expect("a case has an id");
        let listed = reason("kubectl", id);
        let printed = session.play(case, listed.map_or(WITHIN, |_| LISTED_WITHIN));
        let compared = compare(case, &printed);
        let end = match (&compared, listed) {
            (Ok(()), None) => "same".to_owned(),
            (Ok(()), Some(_)) => "same, although listed".to_owned(),
            (Err(difference), None) => difference.clone(),
            (Err(difference), Some(reason)) => format!("listed: {reason}\n{difference}"),
        };
        let command = case["command"].as_str().unwrap_or("");
        writeln!(report, "{id}: {command}\n{end}\n").expect("a text grows");
        same += usize::from(compared.is_ok());
        if compared.is_ok() == listed.is_some() {
            wrong.push(id.to_owned());
        }
    }
    // The whole report, for a person who searches for a difference.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubectl-transcripts.txt");
    std::fs::write(&path, report).expect("the report can be written");
    let path = path.display();
    assert!(
        wrong.is_empty(),
        "{same} of {COMMANDS}; unlisted and different, or listed and the same: {wrong:?}: see {path}"
    );
    assert_eq!(same, SAME, "see {path}");
}

/// Compares a command's output with the recorded one, or with either of two recordings.
fn compare(case: &Value, printed: &Printed) -> Result<(), String> {
    // No exit status is recorded for an interrupted command.
    if let Some(exit) = case["exit"].as_i64()
        && printed.exit.map(i64::from) != Some(exit)
    {
        let (exit_here, out, err) = (&printed.exit, &printed.stdout, &printed.stderr);
        return Err(format!("exit {exit_here:?}, recorded {exit}:\n{out}{err}"));
    }
    let is_unordered = case["unordered"] == true;
    for (name, second, found) in [
        ("stdout", "stdout2", &printed.stdout),
        ("stderr", "stderr2", &printed.stderr),
    ] {
        let recorded = case[name].as_str().unwrap_or("");
        let compared = masks::compare(recorded, found, is_unordered && name == "stdout");
        let compared = match case[second].as_str() {
            Some(other) if compared.is_err() => masks::compare(other, found, is_unordered),
            _ => compared,
        };
        compared.map_err(|difference| format!("{name}: {difference}"))?;
    }
    Ok(())
}
