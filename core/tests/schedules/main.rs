//! Random schedules: the models of `tests/models`, and longer ones with more threads and steps, too large
//! to be run through in all orders.
//!
//! `cargo test -p podstorm --features shuttle --test schedules`. Half of the schedules are uniformly
//! random, half prefer one thread over another but at a few random points (PCT), which finds what
//! needs few switches at the right places. `SCHEDULES=N` sets how many of either kind a model gets,
//! `SCHEDULES_SEED=S` where they begin. A schedule that failed is printed, and is run again alone with
//! `SCHEDULES_REPLAY=TEXT` and the test's name.
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

/// What the models are written against.
mod checker {
    pub(crate) use shuttle::{sync, thread};
}

/// Schedules of either kind where nothing else is asked for.
const SCHEDULES: usize = 1_000;

/// Points at which a PCT schedule changes what it prefers.
const DEPTH: usize = 3;

/// Of each thread of a model; the tester's own default is too small for a cache on the stack.
const STACK_BYTES: usize = 1 << 19;

/// Runs a model, whatever bound on preemptions the exhaustive checker would have, at some schedules.
fn check(_preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let model = std::sync::Arc::new(model);
    if let Ok(schedule) = env::var("SCHEDULES_REPLAY") {
        return shuttle::replay(move || model(), &schedule);
    }
    let number = |name: &str| env::var(name).ok().map(|text| text.parse());
    let schedules = match number("SCHEDULES") {
        Some(given) => given.expect("SCHEDULES is a number"),
        None => SCHEDULES,
    };
    let seed = match number("SCHEDULES_SEED") {
        Some(given) => given.expect("SCHEDULES_SEED is a number") as u64,
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
