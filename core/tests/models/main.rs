//! Models of the lock-free parts: every interleaving of a few threads, and every value that the memory
//! model lets a load return, up to a bound on preemptions.
//!
//! `cargo test -p podstorm --features loom --test models`. `LOOM_MAX_PREEMPTIONS=N` sets the bound
//! (2 where a model says nothing else), `LOOM_LOG=trace` shows the run that failed. The same models,
//! and longer ones, run at random schedules too: `tests/schedules`.
//!
//! The parts are those of the library with the checker's atomics and locks in place of std's. Of what
//! crossbeam's queue is made is not looked into: a ring with its orderings stands in for it.

mod cache;
mod delays;
mod expectations;
mod fences;
mod gate;
mod intern;
mod workqueue;

use loom::model::Builder;

/// What the models are written against.
mod checker {
    pub(crate) use loom::{sync, thread};
}

/// Runs a model with at most so many preemptions (threads stopped where they could have gone on).
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.max_branches = 100_000;
    builder.check(model);
}
