//! A result for the tests of what shows results.

use std::collections::BTreeMap;

use crate::result::{
    Bucket, Build, Histograms, InputCounts, Outcome, Phase, PodCounts, Quantiles, RunResult,
    SCHEMA_VERSION, Series, SlowReplicaSet, WastedWork,
};
use crate::settings::Settings;

/// A run of `up-down` that went well, of one phase and four samples.
pub(super) fn result() -> RunResult {
    let settings = Settings::of_flags("", 2).expect("the defaults agree");
    let quantiles = Quantiles {
        count: 4000,
        p50: 0.1,
        p90: 0.5,
        max: 1.0,
        ..Quantiles::default()
    };
    let buckets = vec![
        Bucket {
            above: 0.01,
            up_to: 0.1,
            count: 3_000,
        },
        Bucket {
            above: 0.1,
            up_to: 1.0,
            count: 1_000,
        },
    ];
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
        api_calls: BTreeMap::from([("create pods 201".into(), 100_000)]),
        writes: BTreeMap::new(),
        syncs: BTreeMap::from([("done".into(), 8_000)]),
        convergence_seconds: quantiles.clone(),
        pod_ready_seconds: Quantiles::default(),
        rollout_seconds: Quantiles::default(),
        queue_duration_seconds: quantiles,
        work_duration_seconds: Quantiles::default(),
        histograms: Histograms {
            convergence_seconds: buckets.clone(),
            queue_duration_seconds: buckets,
            ..Histograms::default()
        },
        slowest_replicasets: vec![SlowReplicaSet {
            namespace: "load-000".into(),
            name: "rs-00007".into(),
            seconds: 1.0,
            phase: "scale to 100 %".into(),
            converged: true,
        }],
        events: BTreeMap::new(),
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
        host: None,
    }
}
