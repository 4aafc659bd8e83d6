//! Tests of the reports of several kinds of runs, and of their width.

use super::*;
use crate::report::tests::result;

/// Returns the report of a run that wrote a file, with the metrics of its host.
fn report(result: &RunResult, columns: usize) -> String {
    let command = |_: &Settings| "loadgen run --seed 1".to_owned();
    let written = [("--json", "result.json".to_owned())];
    render(result, Some(&Host::default()), &command, &written, columns)
}

#[test]
fn the_report_fits_one_screen() {
    let text = report(&result(), COLUMNS);
    assert!(text.starts_with("up-down: converged in 1.25 s\n"), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
    let mut widths = text.lines().map(|line| line.chars().count());
    assert!(widths.all(|width| width <= 100), "{text}");
    assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    assert!(text.contains("create pods 201: 100,000"), "{text}");
    assert!(!text.contains("note"), "{text}");
    assert!(text.contains("  written      result.json\n"), "{text}");
}

#[test]
fn gates_are_listed_if_they_differ_from_the_default() {
    let mut result = result();
    let known = Rows::installed().gates();
    let by_default = |wanted: bool| {
        let mut gates = known.iter().filter(|(_, gate)| gate.default == wanted);
        (*gates
            .next()
            .expect("there are gates that are on and gates that are off")
            .0)
            .to_owned()
    };
    let (on, off) = (by_default(true), by_default(false));
    let gates = &mut result.settings.controller.feature_gates;
    gates.extend([(on.clone(), true), (off.clone(), false)]);
    assert!(!report(&result, COLUMNS).contains("gates o"));
    let gates = &mut result.settings.controller.feature_gates;
    gates.extend([(on.clone(), false), (off.clone(), true)]);
    let text = report(&result, COLUMNS);
    for line in [
        format!("  gates off    {on}\n"),
        format!("  gates on     {off}\n"),
    ] {
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn a_broken_invariant_has_the_command_that_repeats_it() {
    let mut result = result();
    result.outcome.exit_code = 3;
    result.outcome.violations = vec!["too many pods".into(); 7];
    let text = report(&result, COLUMNS);
    for words in [
        "INVARIANT BROKEN",
        "to run it again: loadgen run --seed 1",
        "and 2 more",
    ] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_failed_run_has_the_expectation_instead_of_an_answer() {
    let mut result = result();
    result.outcome.exit_code = 1;
    result.outcome.converged = false;
    result.answer = None;
    let text = render(&result, None, &|_| String::new(), &[], COLUMNS);
    let words = "  answer       none. Expected: After each step";
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_report_fits_the_terminal() {
    let mut result = result();
    for number in 0..40 {
        let name = format!("Normal SomethingOrOther{number}");
        result.events.insert(name, 1_000 + number);
    }
    let long = "20 % of the pods are deleted; the events are lost, and more of them";
    result.phases[0].name = long.to_owned();
    result.phases.push(result.phases[0].clone());
    for phase in &mut result.phases {
        phase.convergence_seconds = result.convergence_seconds.clone();
    }
    result.phases[0].set_up = true;
    result.phases[1].converged = false;
    result.outcome.exit_code = 1;
    result.outcome.reason = "It was as follows, and not otherwise. ".repeat(9);
    for terminal in [Some(20), Some(80), Some(93), Some(300), None] {
        let columns = columns(terminal);
        assert!((80..=100).contains(&columns));
        let text = report(&result, columns);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= columns, "{terminal:?}:\n{text}");
        assert!(text.contains("smaller counts"), "{text}");
    }
}

#[test]
fn phases_have_their_own_numbers_and_set_up_is_marked() {
    let mut result = result();
    result.phases[0].name = "set up".into();
    result.phases[0].set_up = true;
    result.phases[0].convergence_seconds = Quantiles {
        count: 1,
        p99: 1.21,
        ..Quantiles::default()
    };
    let mut measured = result.phases[0].clone();
    measured.name = "churn".into();
    measured.set_up = false;
    measured.convergence_seconds.p99 = 69e-6;
    result.phases.push(measured);
    let text = render(&result, None, &|_| String::new(), &[], COLUMNS);
    let line = |word: &str| {
        let found = text
            .lines()
            .find(|line| line.trim_start().starts_with(word));
        found.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(line("set up").ends_with("  (1.21 s)"), "{text}");
    assert!(line("churn").ends_with("      69 us"), "{text}");
    assert!(line("no set-up").contains("p50"), "{text}");
}

#[test]
fn nouns_agree_with_their_counts() {
    let mut result = result();
    result.settings.size.namespaces = 1;
    result.settings.size.counts.0[0].count = 1;
    result.watch_events = 1;
    result.wasted_work.stale_sync_skips = 1;
    let text = render(&result, None, &|_| String::new(), &[], COLUMNS);
    for words in [
        "1 namespace\n",
        "1 ReplicaSet,",
        "1 watch event,",
        "1 stale sync skipped",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    result.input.taken = BTreeMap::from([
        ("ReplicaSet".into(), 1),
        ("ReplicationController".into(), 2),
        ("Pod".into(), 5),
    ]);
    assert_eq!(
        workloads_of(&result),
        "1 ReplicaSet, 2 ReplicationControllers"
    );
}

#[test]
fn each_controller_has_its_own_client_limit() {
    let mut result = result();
    result.settings.controller.kube_api_qps = Some(20.0);
    let text = render(&result, None, &|_| String::new(), &[], COLUMNS);
    assert!(text.contains("20 QPS, burst 30, "), "{text}");
    result.input.taken = BTreeMap::from([("Deployment".into(), 1), ("ReplicaSet".into(), 1)]);
    let text = render(&result, None, &|_| String::new(), &[], COLUMNS);
    let words = "20 QPS, burst 30 for each of 2 controllers, ";
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_wall_time_shows_the_part_spent_on_files() {
    let text = |load_seconds| {
        host_text(&Host {
            wall_seconds: 3.0,
            load_seconds,
            ..Host::default()
        })
    };
    assert_eq!(text(0.0), "3 s wall");
    assert_eq!(text(1.0), "3 s wall (1 s to read files)");
}

#[test]
fn outcomes_of_events_are_separate_from_their_types() {
    let mut result = result();
    result.events = BTreeMap::from([("Normal SuccessfulCreate".into(), 12)]);
    (result.event_writer.written, result.event_writer.dropped) = (7, 5);
    let text = render(&result, None, &|_| String::new(), &[], COLUMNS);
    let line = "  events       Normal SuccessfulCreate: 12; 7 written, 5 dropped\n";
    assert!(text.contains(line), "{text}");
}
