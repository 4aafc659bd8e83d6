//! One run of kubectl commands, recorded with what each printed from a Kubernetes 1.36.2 cluster, against
//! one served cluster: `tests/kubectl/README.md`.

mod masks;
mod session;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use podstorm_tests::conformance::deviations::reason;
use podstorm_tests::conformance::runner::read_cases;
use serde_json::Value;

use session::{Printed, Session};

/// How many commands there are, and how many print what was recorded.
const COMMANDS: usize = 339;
const SAME: usize = 314;

/// How long a command may take; one that is listed may wait for what never comes, and gets less.
const WITHIN: Duration = Duration::from_secs(20);
const LISTED_WITHIN: Duration = Duration::from_secs(3);

#[test]
#[ignore = "needs kubectl: cargo real"]
fn recorded_commands_print_what_was_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl");
    let cases = read_cases(&folder.join("kubectl.jsonl.gz")).expect("the recording is there");
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
            (Ok(()), Some(_)) => "same, though listed".to_owned(),
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
    // All of it, for a person who looks for what differs.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubectl-transcripts.txt");
    std::fs::write(&path, report).expect("the report can be written");
    let path = path.display();
    assert!(
        wrong.is_empty(),
        "{same} of {COMMANDS}; unlisted and different, or listed and the same: {wrong:?}: see {path}"
    );
    assert_eq!(same, SAME, "see {path}");
}

/// What a command printed beside what was recorded; where two recordings differ, beside either.
fn compare(case: &Value, printed: &Printed) -> Result<(), String> {
    // No exit is recorded where the command was interrupted.
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
