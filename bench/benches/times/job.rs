//! Jobs compared with the plain way: one pass over all owned pods for each question of a sync, with
//! sets of strings, and for a pod's change a pass over all Jobs of its namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use podstorm_bench::hot::job;
use podstorm_bench::plain::PlainPod;

use super::Timed;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(crate) fn timed() -> Vec<Timed> {
    let idle = |pods: usize| Timed::new(format!("job/idle-plain/{pods}"), move || idle(pods));
    let changed = |jobs: usize| {
        let id = format!("job/pod-changed-plain/{jobs}");
        Timed::new(id, move || changed(jobs))
    };
    let whole = Timed::slow("job/complete/100000", || job::complete(100_000, 5_000));
    let mut all = vec![idle(1), idle(1_000), whole];
    all.extend([1, 100, 10_000].map(changed));
    all
}

fn index(pod: &PlainPod) -> Option<i64> {
    pod.annotations.get(INDEX)?.parse().ok()
}

/// Counts the pods like a sync that finds nothing to do.
fn idle(pods: usize) -> impl FnMut() -> u64 {
    let pods: Vec<PlainPod> = job::pods(pods).iter().map(PlainPod::from_pod).collect();
    move || {
        let pods = black_box(&pods);
        let active: Vec<&PlainPod> = pods.iter().filter(|pod| pod.is_active()).collect();
        let ready = active.iter().filter(|pod| pod.ready_since().is_some());
        let ready = ready.count();
        let terminating = pods.iter().filter(|pod| pod.deleted).count();
        let uids = |phase: &'static str| {
            let ended = pods.iter().filter(move |pod| pod.phase == phase);
            ended.map(|pod| pod.uid.clone())
        };
        let succeeded: BTreeSet<String> = uids("Succeeded").collect();
        let failed: BTreeSet<String> = uids("Failed").collect();
        let mut by_index: BTreeMap<i64, Vec<&PlainPod>> = BTreeMap::new();
        for pod in active {
            by_index
                .entry(index(pod).unwrap_or(-1))
                .or_default()
                .push(pod);
        }
        let repeated = by_index.values().filter(|pods| pods.len() > 1).count();
        let all = [ready, terminating, succeeded.len(), failed.len(), repeated];
        all.into_iter().sum::<usize>() as u64
    }
}

/// Finds the Jobs to which a changed pod could belong.
fn changed(jobs: usize) -> impl FnMut() -> u64 {
    let label =
        |number: usize| BTreeMap::from([("job-name".to_owned(), format!("array-{number}"))]);
    let jobs: Vec<BTreeMap<String, String>> = (0..jobs).map(label).collect();
    let mut pod = PlainPod::from_pod(&job::pods(1)[0]);
    pod.labels.extend(label(0));
    move || {
        let pod = black_box(&pod);
        let matching = jobs.iter().filter(|selector| {
            let mut pairs = selector.iter();
            pairs.all(|(key, value)| pod.labels.get(key) == Some(value))
        });
        matching.count() as u64
    }
}
