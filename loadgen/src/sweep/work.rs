//! Runs the cells of a sweep on several threads, each run by itself, so that the outcome is the same
//! however many threads there are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::input::InputObject;
use crate::result::{InputCounts, RunResult};
use crate::run;
use crate::settings::{EngineKind, Settings};

/// One run: a cell with one seed.
#[derive(Clone, Debug)]
pub struct Job {
    /// Everything the run depends on.
    pub settings: Settings,
    /// Objects of its files; none without.
    pub objects: Arc<Vec<InputObject>>,
    /// What its files held.
    pub input: InputCounts,
}

/// Runs every job, `threads` at a time, and gives the results in the order of the jobs; a run that
/// `cancel` cut short or kept from starting has none. `told` is called after each, with how many are
/// done.
///
/// # Panics
/// When a run does.
pub fn run(
    jobs: &[Job],
    threads: usize,
    cancel: &AtomicBool,
    told: &(dyn Fn(usize) + Sync),
) -> Vec<Option<RunResult>> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<RunResult>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    // Relaxed, here and below: the numbers order nothing but themselves, and the
                    // results are handed over under their locks.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    if cancel.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = one(job, cancel);
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

fn one(job: &Job, cancel: &AtomicBool) -> Option<RunResult> {
    let objects = job.objects.as_ref().clone();
    let mut result = run::run(&job.settings, objects, &(), cancel);
    result.input.ignored = job.input.ignored.clone();
    if job.settings.engine == EngineKind::Virtual {
        // A virtual result says nothing that differs from one machine to the next.
        result.host = None;
    }
    let is_cut_short = result.outcome.exit_code == 130;
    (!is_cut_short).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> Vec<Job> {
        let flags = |seed: u64| format!("--engine virtual --pods 50 --seed {seed}");
        let job = |seed: u64| Job {
            settings: Settings::of_flags(&flags(seed), 1).unwrap(),
            objects: Arc::default(),
            input: InputCounts::default(),
        };
        (1..=5).map(job).collect()
    }

    fn text(results: &[Option<RunResult>]) -> String {
        serde_json::to_string(results).unwrap()
    }

    #[test]
    fn the_results_do_not_depend_on_the_number_of_threads() {
        let jobs = jobs();
        let told = AtomicUsize::new(0);
        let count = |_| {
            told.fetch_add(1, Ordering::Relaxed);
        };
        let one = run(&jobs, 1, &AtomicBool::new(false), &count);
        let many = run(&jobs, 4, &AtomicBool::new(false), &count);
        assert_eq!(told.load(Ordering::Relaxed), 10);
        assert_eq!(text(&one), text(&many));
        let seeds: Vec<u64> = one.iter().flatten().map(|result| result.seed).collect();
        assert_eq!(seeds, [1, 2, 3, 4, 5]);
        assert!(one.iter().flatten().all(|result| result.host.is_none()));
    }

    #[test]
    fn a_cancelled_sweep_keeps_what_has_run() {
        let cancel = AtomicBool::new(false);
        let stop = |done| cancel.store(done >= 2, Ordering::Relaxed);
        let results = run(&jobs(), 1, &cancel, &stop);
        let ran: Vec<bool> = results.iter().map(Option::is_some).collect();
        assert_eq!(ran, [true, true, false, false, false]);
    }
}
