//! Models of the lock-free parts. Loom runs every interleaving of a few threads, with every value
//! that the memory model lets a load return, up to a bound on preemptions.
//!
//! `cargo test -p podstorm --features loom --test models`. `LOOM_MAX_PREEMPTIONS=N` sets the bound
//! (2 unless a model sets another), and `LOOM_LOG=trace` shows the failed run. The same models and
//! longer ones also run at random schedules: see `tests/schedules`.
//!
//! The code under test is that of the library, with the checker's atomics and locks in place of
//! std's.

mod cache;
mod delays;
mod expectations;
mod fences;
mod gate;
mod intern;
mod workqueue;

use loom::model::Builder;

/// The checker's primitives that the models use.
mod checker {
    pub(crate) use loom::{sync, thread};
}

/// Starts a thread that has its own handle to the shared state.
fn beside<S: Clone + 'static, T: 'static>(
    shared: &S,
    work: impl FnOnce(S) -> T + 'static,
) -> checker::thread::JoinHandle<T> {
    let shared = shared.clone();
    checker::thread::spawn(move || work(shared))
}

/// Runs a model with at most this many preemptions, where a thread stops although it could
/// continue.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.max_branches = 100_000;
    let model = std::sync::Arc::new(model);
    builder.check(move || {
        let model = model.clone();
        // 32,768 words: loom's default for a model's first thread is too small for unoptimised
        // frames.
        let roomy = checker::thread::Builder::new().stack_size(1 << 15);
        let first = roomy
            .spawn(move || model())
            .expect("loom starts the thread");
        first.join().expect("a failure ends the run");
    });
}
