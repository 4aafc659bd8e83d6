//! Conformance: every recorded decision of the upstream controllers and every recorded answer of
//! the API server matches ours, and no record is missing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use podstorm_tests::conformance::runner::{FileReport, LeftOut, Options, read_cases, run_folder};
use serde_json::Value;

/// The number of cases in each file; see `vectors/README.md`.
const CASES: [(&str, usize); 58] = [
    ("active", 118),
    ("claim", 305),
    ("consistency", 94),
    ("deletion_cost", 138),
    ("deployment_annotations", 158),
    ("deployment_fenceposts", 307),
    ("deployment_find_new_rs", 123),
    ("deployment_handlers", 119),
    ("deployment_kubectl_history_undo", 51),
    ("deployment_kubectl_rollout_status", 96),
    ("deployment_new_rs_replicas", 160),
    ("deployment_pod_template_hash", 228),
    ("deployment_proportions", 274),
    ("deployment_rollouts", 73),
    ("deployment_sync", 700),
    ("deployment_template_equal", 145),
    ("eviction", 224),
    ("expectations", 340),
    ("gc", 253),
    ("handlers", 472),
    ("http", 969),
    ("http2", 52),
    ("job_backoff", 146),
    ("job_handlers", 188),
    ("job_indexes", 310),
    ("job_orphan", 99),
    ("job_pod_failure_policy", 239),
    ("job_success_policy", 184),
    ("job_sync", 898),
    ("log_rank", 742),
    ("namespace", 144),
    ("pdb", 292),
    ("podgc", 143),
    ("podtemplate", 64),
    ("protobuf", 35),
    ("ranking", 1357),
    ("rate_limiter", 76),
    ("rc", 121),
    ("related", 97),
    ("selector", 328),
    ("slow_start", 305),
    ("statefulset_handlers", 102),
    ("statefulset_history", 118),
    ("statefulset_identity", 237),
    ("statefulset_kubectl_rollout_status", 88),
    ("statefulset_max_unavailable", 134),
    ("statefulset_pod", 115),
    ("statefulset_pvc_policy", 287),
    ("statefulset_revision_apply", 94),
    ("statefulset_revision_hash", 204),
    ("statefulset_sync", 474),
    ("statefulset_sync_claims", 131),
    ("statefulset_sync_updates", 275),
    ("status", 246),
    ("sync", 1074),
    ("ttl_handlers", 77),
    ("ttl_sync", 267),
    ("workqueue", 359),
];

/// The number of known deviations in each file; see `vectors/deviations.json`.
const DEVIATIONS: [(&str, usize); 3] = [("gc", 17), ("http", 4), ("http2", 9)];

/// Returns the name of a file without its extension.
fn file(report: &FileReport) -> &str {
    report.name.trim_end_matches(".jsonl.gz")
}

#[test]
fn every_recorded_decision_is_ours_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let reports = run_folder(&folder, &Options::default()).unwrap();
    let counts = reports.iter();
    let counts: Vec<(&str, usize)> = counts.map(|it| (file(it), it.total)).collect();
    assert_eq!(counts, CASES);
    let total: usize = counts.iter().map(|(_, total)| total).sum();
    assert_eq!(total, 15449);
    let deviations = reports.iter().filter(|it| !it.deviations.is_empty());
    let deviations = deviations.map(|it| (file(it), it.deviations.len()));
    assert_eq!(deviations.collect::<Vec<_>>(), DEVIATIONS);

    // At most one in a hundred request sequences of a category may deviate, or one if the category
    // has fewer. Sequences that once deviated have a file of their own, without exceptions.
    for report in reports.iter().filter(|report| file(report) == "http") {
        for (category, counts) in &report.categories {
            let most = (counts.total / 100).max(1);
            let missed = counts.total - counts.passed;
            assert!(missed <= most, "{category}: {missed} of {}", counts.total);
        }
    }

    // Cases run in several ways (in process, over HTTP) pass equally often in each.
    for report in &reports {
        for (way, passed) in &report.ways {
            assert_eq!(*passed, report.passed(), "{} {way}", report.name);
        }
    }

    let mut misses = Vec::new();
    for report in &reports {
        for failure in report.failures.iter().take(3) {
            let difference: String = failure.differences.first().chars().take(400).collect();
            misses.push(format!("{}: {difference}", failure.id));
        }
        if !report.failures.is_empty() {
            let (name, passed) = (&report.name, report.passed());
            misses.push(format!("{name}: {passed}/{}", report.total));
        }
    }
    assert!(misses.is_empty(), "\n{}", misses.join("\n"));
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = |path: &Path| run_folder(path, &Options::default()).unwrap_err();
    assert!(error(folder.path()).contains("no *.jsonl or *.jsonl.gz in "));
    std::fs::write(folder.path().join("active.jsonl"), "\n").unwrap();
    assert!(error(folder.path()).contains("no cases in "));
    std::fs::write(folder.path().join("active.jsonl.gz"), "not gzip").unwrap();
    let missing = error(&folder.path().join("missing"));
    assert!(missing.contains("cannot read "), "{missing}");
    std::fs::remove_file(folder.path().join("active.jsonl")).unwrap();
    let broken = error(folder.path());
    assert!(broken.contains("active.jsonl.gz"), "{broken}");
}

#[test]
fn plain_and_compressed_files_are_run() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"{"id":"a","ops":[{"op":"EnsureReady","owner":"x","ready":true}]}"#;
    std::fs::write(folder.path().join("consistency.jsonl"), format!("{line}\n")).unwrap();
    let file = std::fs::File::create(folder.path().join("consistency.more.jsonl.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    std::io::Write::write_all(&mut file, line.replace("true", "false").as_bytes()).unwrap();
    file.finish().unwrap();
    std::fs::write(folder.path().join("unheard_of.jsonl"), line).unwrap();
    std::fs::write(folder.path().join("README.md"), "not a case").unwrap();
    let reports = run_folder(folder.path(), &Options::default()).unwrap();
    let passed = reports.iter().map(|it| (&*it.name, it.passed(), it.total));
    assert_eq!(
        passed.collect::<Vec<_>>(),
        [
            ("consistency.jsonl", 1, 1),
            ("consistency.more.jsonl.gz", 0, 1),
            ("unheard_of.jsonl", 0, 0)
        ]
    );
    assert_eq!(reports[2].left_out, Some(LeftOut::Unknown));
}

/// Returns a case of the subject `consistency` that agrees or disagrees with its record.
fn case(id: &str, agrees: bool) -> String {
    format!(
        "{{\"id\":\"{id}\",\"ops\":[{{\"op\":\"EnsureReady\",\"owner\":\"x\",\"ready\":{agrees}}}]}}\n"
    )
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent folder")).expect("folders can be made");
    std::fs::write(path, text).expect("files can be made");
}

/// Runs the program. Returns its exit status, its output and its error output.
fn conformance(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    let output = command.current_dir(folder).args(arguments).output();
    let output = output.expect("the program is built");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8 text");
    let status = output.status.code().expect("an exit code");
    (status, text(&output.stdout), text(&output.stderr))
}

#[test]
fn subfolders_are_run_as_separate_subjects() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let record = |name: &str| {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
        let cases = read_cases(&vectors.join(name)).unwrap();
        format!("{}\n", cases[0])
    };
    write(folder, "consistency.jsonl", &case("a", true));
    write(folder, "deeper/still/consistency.jsonl", &case("a", true));
    write(folder, "daemon/consistency.jsonl", &case("a", false));
    write(folder, "daemon/README.md", "not a case");
    let fenceposts = record("deployment_fenceposts.jsonl.gz");
    write(folder, "deployment/fenceposts.jsonl", &fenceposts);
    write(folder, "cluster/podgc.jsonl", &record("podgc.jsonl.gz"));
    write(folder, "http/http7.jsonl", &record("http.jsonl.gz"));
    write(folder, "http/kubectl.jsonl", "a file that must be ignored");
    let (status, printed, complaints) = conformance(folder, &["."]);
    assert_eq!((status, &*complaints), (0, ""));
    for line in [
        "consistency.jsonl 1/1",
        "deeper/still/consistency.jsonl 1/1",
        "deployment/fenceposts.jsonl 1/1",
        "cluster/podgc.jsonl 1/1",
        "http/http7.jsonl 1/1",
        "http/kubectl.jsonl run only by cargo real",
        "daemon/consistency.jsonl not run: the subject daemon_consistency is not known",
        "all 5/5, files of unknown subjects: 1",
    ] {
        let is_line = |it: &str| it.split_whitespace().eq(line.split_whitespace());
        assert!(printed.lines().any(is_line), "{line}:\n{printed}");
    }
    // The mapping of folder names to subjects also applies to the folder itself.
    let (status, printed, _) = conformance(&folder.join("daemon"), &["."]);
    assert_eq!(status, 1);
    assert!(
        printed.contains("daemon_consistency is not known"),
        "{printed}"
    );
    let (status, printed, _) = conformance(folder, &["cluster", "--only=podgc"]);
    assert_eq!(status, 0, "{printed}");
}

#[test]
fn a_hanging_case_fails_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    // A watch that the case treats as a request. It would end after half an hour or more.
    let get = |path: &str| {
        let response = serde_json::json!({"status": 200});
        serde_json::json!({"method": "GET", "path": path, "response": response})
    };
    let lasting = get("/api/v1/pods?watch=true");
    let cases = [
        ("first", vec![get("/api/v1/pods")]),
        (
            "hangs",
            vec![get("/api/v1/nodes"), lasting, get("/api/v1/pods")],
        ),
        ("last", vec![get("/api/v1/pods")]),
    ];
    let lines = cases.map(|(id, steps)| {
        let case = serde_json::json!({"id": id, "category": "list", "steps": steps});
        format!("{case}\n")
    });
    write(folder.path(), "http.jsonl", &lines.concat());
    let options = Options {
        limit: Duration::from_secs(5),
        only: None,
    };
    let reports = run_folder(folder.path(), &options).unwrap();
    assert_eq!((reports[0].passed(), reports[0].total), (2, 3));
    let failure = &reports[0].failures[0];
    assert_eq!(failure.id, "hangs");
    let difference = failure.differences.first();
    let wanted = "hung at step 1 (GET /api/v1/pods?watch=true): not finished within 5 s";
    assert!(difference.ends_with(wanted), "{difference}");
}

#[test]
fn all_differences_are_printed_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cases: String = (0..7)
        .map(|number| case(&format!("c{number}"), false))
        .collect();
    write(folder, "consistency.jsonl", &cases);
    let version = |body: Value| {
        let response = serde_json::json!({"status": 200, "body": body});
        serde_json::json!({"method": "GET", "path": "/version", "response": response})
    };
    let wrong =
        version(serde_json::json!({"major": "x".repeat(700), "minor": "y", "gitVersion": "z"}));
    let case = serde_json::json!({"id": "h", "steps": [wrong, version(serde_json::json!({"minor": "n"}))]});
    write(folder, "http.jsonl", &format!("{case}\n"));

    let (status, printed, _) = conformance(folder, &["."]);
    assert_eq!(status, 1);
    assert!(
        printed.contains("c4: ") && !printed.contains("c5: "),
        "{printed}"
    );
    assert!(printed.contains("and 2 more"), "{printed}");
    assert!(!printed.contains("step 1: "), "{printed}");

    let (status, printed, _) = conformance(folder, &["--all", "."]);
    assert_eq!(status, 1);
    for part in [
        "c6: ",
        "step 0: body.gitVersion",
        " ...\n",
        "step 0: body.minor",
        "step 1: body.minor",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let whole = "x".repeat(700);
    assert!(!printed.contains(&whole), "{printed}");
    for arguments in [&["--whole", "."][..], &[".", "--only", "http/h"]] {
        let (_, printed, _) = conformance(folder, arguments);
        let uncut = printed.contains(&whole) || !printed.contains(" ...\n");
        assert!(uncut, "{arguments:?}: {printed}");
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "consistency.jsonl", &case("a", true));
    for (arguments, problem) in [
        (&[][..], "no folder"),
        (&["--all"], "no folder"),
        (&[".", ".."], "two folders: . and .."),
        (&[".", "--every"], "unknown option --every"),
        (&[".", "-x"], "unknown option -x"),
        (&[".", "--only"], "--only needs a value"),
        (&[".", "--only", "/a"], "--only \"/a\" names no subject"),
        (&[".", "--all=yes"], "--all takes no value"),
        (
            &[".", "--limit", "0"],
            "--limit \"0\" is not a number of seconds",
        ),
        (
            &[".", "--limit=-1"],
            "--limit \"-1\" is not a number of seconds",
        ),
        (
            &[".", "--limit=soon"],
            "--limit \"soon\" is not a number of seconds",
        ),
    ] {
        let (status, printed, complaints) = conformance(folder, arguments);
        assert_eq!((status, &*printed), (2, ""), "{arguments:?}");
        assert!(complaints.contains(problem), "{arguments:?}: {complaints}");
        assert!(
            complaints.contains("usage: "),
            "{arguments:?}: {complaints}"
        );
    }
    for (only, problem) in [
        ("nothing", "no subject \"nothing\" in .; it has consistency"),
        ("consistency/b", "no id of consistency begins with \"b\""),
    ] {
        let (status, _, complaints) = conformance(folder, &[".", "--only", only]);
        assert_eq!(status, 1);
        assert!(complaints.contains(problem), "{complaints}");
    }
    let (status, printed, complaints) = conformance(folder, &["--help"]);
    assert_eq!((status, &*complaints), (0, ""));
    assert!(printed.starts_with("usage: conformance DIR"), "{printed}");
    assert_eq!(conformance(folder, &[".", "--limit", "1.5"]).0, 0);
}
