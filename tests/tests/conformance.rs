//! Every recorded decision of the upstream controllers is ours too, and every recorded answer of the API server, and
//! no record has gone missing.

use std::path::Path;

use podstorm_tests::conformance::runner::{RunError, run_folder};

/// How many cases each file holds; see `vectors/README.md`.
const CASES: [(&str, usize); 36] = [
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
    ("status", 246),
    ("sync", 1074),
    ("workqueue", 359),
];

/// How many cases of a file are known to end otherwise; see `vectors/deviations.json`.
const DEVIATIONS: [(&str, usize); 2] = [("gc", 17), ("http", 4)];

#[test]
fn every_recorded_decision_is_ours_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let reports = run_folder(&folder, None).unwrap();
    let counts: Vec<(String, usize)> = reports
        .iter()
        .map(|r| (r.name.replace(".jsonl.gz", ""), r.total))
        .collect();
    let expected: Vec<(String, usize)> = CASES.map(|(name, n)| (name.to_owned(), n)).to_vec();
    assert_eq!(counts, expected);
    assert_eq!(
        reports.iter().map(|report| report.total).sum::<usize>(),
        10730
    );
    let deviations: Vec<(String, usize)> = reports
        .iter()
        .filter(|report| !report.deviations.is_empty())
        .map(|report| {
            (
                report.name.replace(".jsonl.gz", ""),
                report.deviations.len(),
            )
        })
        .collect();
    let expected = DEVIATIONS.map(|(name, n)| (name.to_owned(), n)).to_vec();
    assert_eq!(deviations, expected);

    // Of sequences of requests at most one in a hundred ends otherwise, and one in a category of fewer.
    for report in reports.iter().filter(|report| !report.ways.is_empty()) {
        for (category, counts) in &report.categories {
            let most = (counts.total / 100).max(1);
            let missed = counts.total - counts.passed;
            assert!(missed <= most, "{category}: {missed} of {}", counts.total);
        }
    }

    // What is listed differs in both ways: neither is behind the other.
    for report in &reports {
        for (way, passed) in &report.ways {
            assert_eq!(*passed, report.passed(), "{} {way}", report.name);
        }
    }

    let mut misses = Vec::new();
    for report in &reports {
        for failure in report.failures.iter().take(3) {
            let difference: String = failure.difference.chars().take(400).collect();
            misses.push(format!("{}: {difference}", failure.id));
        }
        if !report.failures.is_empty() {
            misses.push(format!(
                "{}: {}/{}",
                report.name,
                report.passed(),
                report.total
            ));
        }
    }
    assert!(misses.is_empty(), "\n{}", misses.join("\n"));
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        run_folder(folder.path(), None),
        Err(RunError::NoFiles(_))
    ));
    std::fs::write(folder.path().join("active.jsonl"), "\n").unwrap();
    assert!(matches!(
        run_folder(folder.path(), None),
        Err(RunError::NoCases(_))
    ));
    std::fs::write(folder.path().join("active.jsonl.gz"), "not gzip").unwrap();
    let missing = folder.path().join("missing");
    assert!(matches!(
        run_folder(&missing, None),
        Err(RunError::Unreadable(..))
    ));
    std::fs::remove_file(folder.path().join("active.jsonl")).unwrap();
    let error = run_folder(folder.path(), None).unwrap_err();
    assert!(error.to_string().contains("active.jsonl.gz"), "{error}");
}

#[test]
fn plain_and_compressed_files_are_both_run() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"{"id":"a","ops":[{"op":"EnsureReady","owner":"x","ready":true}]}"#;
    std::fs::write(folder.path().join("consistency.jsonl"), format!("{line}\n")).unwrap();
    let file = std::fs::File::create(folder.path().join("consistency.more.jsonl.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    std::io::Write::write_all(&mut file, line.replace("true", "false").as_bytes()).unwrap();
    file.finish().unwrap();
    std::fs::write(folder.path().join("unheard_of.jsonl"), line).unwrap();
    std::fs::write(folder.path().join("README.md"), "not a case").unwrap();
    let reports = run_folder(folder.path(), None).unwrap();
    let passed: Vec<_> = reports
        .iter()
        .map(|r| (r.name.as_str(), r.passed(), r.total))
        .collect();
    assert_eq!(
        passed,
        [
            ("consistency.jsonl", 1, 1),
            ("consistency.more.jsonl.gz", 0, 1),
            ("unheard_of.jsonl", 0, 1)
        ]
    );
}
