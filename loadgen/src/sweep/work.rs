//! Runs the cells of a sweep on several threads. The runs are independent of each other, so the
//! outcome does not depend on the number of threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::input::{InputCounts, InputObject};
use crate::result::RunResult;
use crate::run;
use crate::settings::{EngineKind, Settings};

/// The plan of one run: a cell with one seed.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// All settings of the run.
    pub settings: Settings,
    /// The objects from the run's files; empty without files.
    pub objects: Arc<Vec<InputObject>>,
    /// The counts of the objects in the run's files.
    pub input: InputCounts,
    /// Whether the result of a virtual run keeps its `host`, the only part that depends on the
    /// machine.
    pub keeps_host: bool,
}

/// Runs every plan, `threads` at a time, and returns the results in the order of the plans; `None`
/// for runs that `cancel` interrupted or prevented. Calls `told` after each run with the number of
/// finished runs.
///
/// # Panics
/// Panics if a run panics.
pub fn run(
    plans: &[RunPlan],
    threads: usize,
    cancel: &AtomicBool,
    told: &(dyn Fn(usize) + Sync),
) -> Vec<Option<RunResult>> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<RunResult>>> = plans.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, plans.len().max(1)) {
            scope.spawn(|| {
                loop {
                    // Relaxed, here and below: no other data depends on the numbers; locks protect
                    // the results.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(at) else { break };
                    if cancel.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = one(plan, cancel);
                    let mut place = results[at]
                        .lock()
                        .expect("nothing panics while the lock is held");
                    *place = result;
                    drop(place);
                    told(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let taken = |result: Mutex<Option<RunResult>>| {
        result
            .into_inner()
            .expect("nothing panics while the lock is held")
    };
    results.into_iter().map(taken).collect()
}

fn one(plan: &RunPlan, cancel: &AtomicBool) -> Option<RunResult> {
    let objects = plan.objects.as_ref().clone();
    let mut result = run::run(&plan.settings, objects, &(), cancel);
    result.input.ignored = plan.input.ignored.clone();
    if plan.settings.engine == EngineKind::Virtual && !plan.keeps_host {
        result.host = None;
    }
    let is_cut_short = result.outcome.exit_code == 130;
    (!is_cut_short).then_some(result)
}
