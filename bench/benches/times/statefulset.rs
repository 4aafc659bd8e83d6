//! Plain rivals of StatefulSet syncs: maps of strings, and a sync that parses each pod's ordinal,
//! labels and revision for every question. Also whole StatefulSets on the virtual engine.

use std::collections::BTreeMap;
use std::hint::black_box;

use podstorm_bench::hot::statefulset;
use podstorm_bench::plain::PlainPod;

use super::Timed;

const REVISION: &str = "controller-revision-hash";
const NAME: &str = "statefulset.kubernetes.io/pod-name";

pub(crate) fn timed() -> Vec<Timed> {
    let idle =
        |pods: usize| Timed::new(format!("statefulset/idle-plain/{pods}"), move || idle(pods));
    vec![
        idle(1),
        idle(1_000),
        Timed::slow("statefulset/life/1000", || statefulset::life(1_000, 3)),
        Timed::slow("statefulset/parallel/5000", || statefulset::parallel(5_000)),
    ]
}

fn ordinal(pod: &PlainPod) -> Option<usize> {
    pod.name.rsplit_once('-')?.1.parse().ok()
}

/// Examines the pods like a sync that finds nothing to do.
fn idle(pods: usize) -> impl FnMut() -> u64 {
    let pods: Vec<PlainPod> = statefulset::pods(pods)
        .iter()
        .map(PlainPod::from_pod)
        .collect();
    let revision = pods[0].labels[REVISION].clone();
    move || {
        let pods = black_box(&pods);
        let selected = pods.iter().filter(|pod| {
            let app = pod.labels.get("app");
            app.is_some_and(|app| app == "web") && pod.name.starts_with("web-")
        });
        let by_ordinal = selected.filter_map(|pod| Some((ordinal(pod)?, pod.clone())));
        let by_ordinal: BTreeMap<usize, PlainPod> = by_ordinal.collect();
        let is_healthy = |pod: &PlainPod| pod.phase == "Running" && pod.ready_since().is_some();
        let is_updated = |pod: &PlainPod| pod.labels.get(REVISION) == Some(&revision);
        let is_named = |(ordinal, pod): (&usize, &PlainPod)| {
            pod.labels.get(NAME) == Some(&pod.name) && pod.name == format!("web-{ordinal}")
        };
        let ready = by_ordinal.values().filter(|pod| is_healthy(pod)).count();
        let updated = by_ordinal.values().filter(|pod| is_updated(pod)).count();
        let named = by_ordinal.iter().filter(|it| is_named(*it)).count();
        let left = by_ordinal.values().rev().filter(|pod| !is_updated(pod));
        [ready, updated, named, left.count()]
            .into_iter()
            .sum::<usize>() as u64
    }
}
