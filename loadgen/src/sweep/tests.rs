//! A sweep for the tests of this module, and tests of a cancelled sweep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Grid, RunPlan, Sweep, run};
use crate::input::InputCounts;
use crate::metrics::MetricName;
use crate::settings::Settings;

fn plan(flags: &str) -> RunPlan {
    RunPlan {
        settings: Settings::of_flags(flags, 1).unwrap(),
        objects: Arc::default(),
        input: InputCounts::default(),
        keeps_host: false,
    }
}

/// Returns a sweep over `pods=20,40` and `kube-api-qps=5,10,20` with two seeds and the threshold
/// `elapsed < bound`.
pub(super) fn sweep(bound: &str) -> Sweep {
    let texts = ["pods=20,40".to_owned(), "kube-api-qps=5,10,20".to_owned()];
    let grid = Grid::parse(&texts).unwrap();
    let mut plans = Vec::new();
    for number in 0..grid.cells() {
        let values = grid.values(number);
        for seed in [1, 2] {
            let (pods, qps) = (values[0].1, values[1].1);
            plans.push(plan(&format!(
                "--scenario up-down --engine virtual --seed {seed} --pods {pods} --kube-api-qps {qps} --kube-api-burst 1"
            )));
        }
    }
    let results = run(&plans, 2, &AtomicBool::new(false), &|_| {});
    let metrics = ["elapsed", "convergence p99", "excess", "host.wall_seconds"];
    let metrics = metrics.map(|name| MetricName::parse(name).unwrap());
    let threshold = format!("elapsed < {bound}").parse().unwrap();
    Sweep::new(grid, vec![1, 2], metrics.to_vec(), vec![threshold], results)
}

#[test]
fn a_cancelled_sweep_keeps_finished_runs() {
    let cancel = AtomicBool::new(false);
    let stop = |done| cancel.store(done >= 2, Ordering::Relaxed);
    let plan = |seed| plan(&format!("--engine virtual --pods 50 --seed {seed}"));
    let plans: Vec<RunPlan> = (1..=5).map(plan).collect();
    let results = run(&plans, 1, &cancel, &stop);
    let ran: Vec<bool> = results.iter().map(Option::is_some).collect();
    assert_eq!(ran, [true, true, false, false, false]);
}
