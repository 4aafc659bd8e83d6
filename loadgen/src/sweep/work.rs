//! Runs the cells of a sweep on several threads, each run by itself, so that the outcome is the same
//! however many threads there are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::input::{InputCounts, InputObject};
use crate::result::RunResult;
use crate::run;
use crate::settings::{EngineKind, Settings};

/// One run: a cell with one seed.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Everything the run depends on.
    pub settings: Settings,
    /// Objects of its files; none without.
    pub objects: Arc<Vec<InputObject>>,
    /// What its files held.
    pub input: InputCounts,
    /// Whether a result of the virtual engine has its `host`, all that differs from one machine to the next.
    pub keeps_host: bool,
}

/// Runs every plan, `threads` at a time, and gives the results in the order of the plans; a run that
/// `cancel` cut short or kept from starting has none. `told` is called after each, with how many are
/// done.
///
/// # Panics
/// When a run does.
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
                    // Relaxed, here and below: the numbers order nothing but themselves, and the
                    // results are handed over under their locks.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(at) else { break };
                    if cancel.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = one(plan, cancel);
                    let mut place = results[at].lock().expect("nothing panics while it is held");
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
            .expect("nothing panics while it is held")
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
