//! Every recorded decision of the upstream controllers is ours too, and every recorded answer of the API server, and
//! no record has gone missing.

use std::path::Path;

use podstorm_tests::conformance::runner::{FileReport, run_folder};

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

fn subject(report: &FileReport) -> &str {
    report.name.trim_end_matches(".jsonl.gz")
}

#[test]
fn every_recorded_decision_is_ours_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let reports = run_folder(&folder, None).unwrap();
    let counts = reports.iter();
    let counts: Vec<(&str, usize)> = counts.map(|it| (subject(it), it.total)).collect();
    assert_eq!(counts, CASES);
    let total: usize = counts.iter().map(|(_, total)| total).sum();
    assert_eq!(total, 10730);
    let deviations = reports.iter().filter(|it| !it.deviations.is_empty());
    let deviations = deviations.map(|it| (subject(it), it.deviations.len()));
    assert_eq!(deviations.collect::<Vec<_>>(), DEVIATIONS);

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
            let (name, passed) = (&report.name, report.passed());
            misses.push(format!("{name}: {passed}/{}", report.total));
        }
    }
    assert!(misses.is_empty(), "\n{}", misses.join("\n"));
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = |path: &Path| run_folder(path, None).unwrap_err();
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
