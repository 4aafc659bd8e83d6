//! A result for tests of reports, and checks that apply to every page.

use std::collections::BTreeMap;

use crate::input::InputCounts;
use crate::result::{
    Bucket, Build, EventWriterCounts, Finished, Histograms, IncompleteRollouts, Outcome, Phase,
    PodCounts, Quantiles, RunResult, SCHEMA_VERSION, Series, SlowWorkload, Waits, WastedWork,
};
use crate::settings::Settings;

/// Returns a successful run of `up-down`, with one phase and four samples.
pub(super) fn result() -> RunResult {
    let settings =
        Settings::of_flags("--scenario up-down", 2).expect("the defaults are consistent");
    let quantiles = Quantiles {
        count: 4000,
        p50: 0.1,
        p90: 0.5,
        max: 1.0,
        ..Quantiles::default()
    };
    let bucket = |above, up_to, count| Bucket {
        above,
        up_to,
        count,
    };
    let buckets = vec![bucket(0.01, 0.1, 3_000), bucket(0.1, 1.0, 1_000)];
    RunResult {
        schema_version: SCHEMA_VERSION,
        version: "0".into(),
        build: Build::default(),
        scenario: "up-down".into(),
        question: "How long does it take?".to_owned(),
        answer: Some("Not long.".to_owned()),
        engine: "threads".into(),
        behaviour: "upstream".into(),
        feature_gates: settings.controller.feature_gates.clone(),
        seed: 1,
        settings,
        alternatives: Vec::new(),
        outcome: Outcome {
            converged: true,
            ..Outcome::default()
        },
        pods: PodCounts {
            created: 100_000,
            deleted: 100_000,
            ..PodCounts::default()
        },
        excess_pods_created: 0,
        wasted_work: WastedWork::default(),
        waits: Waits::default(),
        api_calls: BTreeMap::from([("create pods 201".into(), 100_000)]),
        writes: BTreeMap::new(),
        syncs: BTreeMap::from([("done".into(), 8_000)]),
        convergence_seconds: quantiles.clone(),
        pod_ready_seconds: Quantiles::default(),
        rollout_seconds: Quantiles::default(),
        finished: Finished::default(),
        finish_seconds: Quantiles::default(),
        queue_duration_seconds: quantiles,
        work_duration_seconds: Quantiles::default(),
        histograms: Histograms {
            convergence_seconds: buckets.clone(),
            queue_duration_seconds: buckets,
            ..Histograms::default()
        },
        slowest_workloads: vec![SlowWorkload {
            namespace: "load-000".into(),
            name: "rs-00007".into(),
            seconds: 1.0,
            phase: "scale to 100 %".into(),
            converged: true,
        }],
        events: BTreeMap::new(),
        event_writer: EventWriterCounts::default(),
        watch_events: 5,
        resource_version: 500_000,
        elapsed_seconds: 1.25,
        phases: vec![Phase {
            name: "scale to 100 %".into(),
            seconds: 0.5,
            pods_created: 100_000,
            pods_deleted: 0,
            converged: true,
            ..Phase::default()
        }],
        thresholds: Vec::new(),
        series: Series {
            seconds: vec![0.0, 0.25, 0.5, 1.25],
            phase: vec![0; 4],
            pods_desired: vec![0, 100_000, 100_000, 0],
            pods_existing: vec![0, 40_000, 100_000, 0],
            pods_ready: vec![0, 30_000, 100_000, 0],
            pods_created: vec![0, 40_000, 100_000, 100_000],
            pods_deleted: vec![0, 0, 0, 100_000],
            queue_depth: vec![0, 2_000, 7, 0],
            queue_delayed: vec![0; 4],
            api_calls: vec![0, 41_000, 102_000, 210_000],
            resource_version: vec![0, 120_000, 300_000, 500_000],
        },
        input: InputCounts::default(),
        incomplete_rollouts: IncompleteRollouts::default(),
        host: None,
    }
}

/// The elements without an end tag.
const VOID: [&str; 3] = ["meta", "!DOCTYPE", "!doctype"];

/// Checks that all elements are closed and properly nested.
#[track_caller]
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "a < within a tag: {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes: {tag}");
        let name = tag.trim_start_matches('/').split([' ', '\n']).next();
        let name = name.unwrap_or_default().trim_end_matches('/');
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
            if name == "script" || name == "style" {
                // The text in these elements is not markup.
                let end = rest.find(&format!("</{name}>")).expect("it ends");
                rest = &rest[end..];
            }
        }
    }
    assert_eq!(open, [""; 0], "everything ends");
}

/// Checks that a page is well-formed and self-contained, and that no value is missing.
#[track_caller]
pub(crate) fn assert_sound(page: &str) {
    assert_well_formed(page);
    for needed in ["http:", "https:", "//", "@import", "url(", "src=", "href="] {
        let places = page.match_indices(needed).map(|(at, _)| {
            let line = page[..at].rsplit('\n').next().unwrap_or_default();
            line.trim_start().to_owned()
        });
        // Comments in the script don't count.
        let places: Vec<String> = places.filter(|line| !line.is_empty()).collect();
        assert_eq!(places, [""; 0], "{needed}");
    }
    assert!(!page.contains("undefined"), "a value is missing");
    for word in ["NaN", "inf%", "inf\"", "{{", "{%"] {
        assert!(!page.contains(word), "{word}");
    }
}
