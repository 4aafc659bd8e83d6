//! Slow paths planted on purpose (feature `planted`), to prove that the gate sees them: a loop
//! in one path and a single allocation in another. Only that proof may turn this on.

use std::hint::black_box;

use super::Operation;

/// The path that does needless work.
const LOOPS: &str = "expectations/create/1";
/// The path that allocates once.
const ALLOCATES: &str = "expectations/delete/500";

/// The operation, worsened if it is one of the two.
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
