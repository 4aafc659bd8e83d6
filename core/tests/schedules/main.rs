//! Random schedules: the models of `tests/models`, and longer ones with more threads and steps that
//! are too large to run in all orders.
//!
//! `cargo test -p podstorm --features shuttle --test schedules`. Half of the schedules are
//! uniformly random. The other half prefer one thread over another, except at a few random points
//! (PCT); this finds bugs that need few switches at the right places. `SCHEDULES=N` sets the number
//! of each kind per model, and `SCHEDULES_SEED=S` the first seed. A failed schedule is printed;
//! `SCHEDULES_REPLAY=TEXT` with the name of the test runs only that schedule again.
//!
//! All accesses are sequentially consistent here; for weaker orderings see `tests/models`.

#[path = "../models/cache.rs"]
mod cache;
#[path = "../models/delays.rs"]
mod delays;
#[path = "../models/expectations.rs"]
mod expectations;
#[path = "../models/fences.rs"]
mod fences;
#[path = "../models/gate.rs"]
mod gate;
#[path = "../models/intern.rs"]
mod intern;
mod long;
#[path = "../models/workqueue.rs"]
mod workqueue;

use std::env;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// The tester's primitives that the models use.
mod checker {
    pub(crate) use shuttle::{sync, thread};
}

/// Starts a thread that has its own handle to the shared state.
fn beside<S: Clone + Send + 'static, T: Send + 'static>(
    shared: &S,
    work: impl FnOnce(S) -> T + Send + 'static,
) -> checker::thread::JoinHandle<T> {
    let shared = shared.clone();
    checker::thread::spawn(move || work(shared))
}

/// The default number of schedules of each kind.
const SCHEDULES: usize = 1_000;

/// The number of points at which a PCT schedule changes its preferred thread.
const DEPTH: usize = 3;

/// The stack size of each thread of a model. The tester's default is too small for a cache on the
/// stack.
const STACK_BYTES: usize = 1 << 19;

/// Runs a model at some schedules. Ignores the bound on preemptions of the exhaustive checker.
fn check(_preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let model = std::sync::Arc::new(model);
    if let Ok(schedule) = env::var("SCHEDULES_REPLAY") {
        return shuttle::replay(move || model(), &schedule);
    }
    let number = |name: &str| env::var(name).ok().map(|text| text.parse());
    let schedules = match number("SCHEDULES") {
        Some(given) => given.expect("SCHEDULES must be a number"),
        None => SCHEDULES,
    };
    let seed = match number("SCHEDULES_SEED") {
        Some(given) => given.expect("SCHEDULES_SEED must be a number") as u64,
        None => 1,
    };
    let random = RandomScheduler::new_from_seed(seed, schedules);
    run(random, model.clone());
    run(PctScheduler::new_from_seed(seed, DEPTH, schedules), model);
}

fn run(
    scheduler: impl Scheduler + 'static,
    model: std::sync::Arc<impl Fn() + Sync + Send + 'static>,
) {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.stack_size = STACK_BYTES;
    Runner::new(scheduler, config).run(move || model());
}
