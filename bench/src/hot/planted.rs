//! Slow paths planted on purpose, to prove that the gate detects them: a loop in one path, and a
//! single allocation in another. Only that proof may turn this on. It is a run-time option, because
//! a separate build would take minutes.

use std::hint::black_box;

use super::Operation;

/// The environment variable that turns the slow paths on, with any value.
pub const ASKED: &str = "PODSTORM_PLANTED";

/// The path with the needless loop.
const LOOPS: &str = "expectations/create/1";
/// The path with the additional allocation.
const ALLOCATES: &str = "expectations/delete/500";

pub(super) fn are_asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

/// Returns the operation, slowed down if its path is one of the two.
pub(super) fn slowed(id: &str, mut operation: Operation) -> Operation {
    match id {
        LOOPS => Box::new(move || {
            let needless: u64 = (0..4u64).map(black_box).sum();
            operation.call() + black_box(needless)
        }),
        ALLOCATES => Box::new(move || operation.call() + *black_box(Box::new(1))),
        _ => operation,
    }
}
