//! The same scenarios with this project's controllers and with the real kube-controller-manager,
//! both on this server. States must be equal after every step, and so must the numbers of pods
//! created, deleted and patched. A committed table compares all requests.

mod mask;
mod play;
mod scenarios;
mod steps;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use play::{Played, Side};
use scenarios::{Scenario, all};
use table::Row;

/// Number of scenarios that run concurrently against the real one.
const AT_ONCE: usize = 12;

#[test]
#[ignore = "needs a built kube-controller-manager: tests/control-plane/build"]
fn the_real_controller_manager_and_ours_do_the_same() {
    let scenarios = all();
    let theirs = Side::theirs();
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                // Relaxed: it only distributes the scenarios.
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = compare(scenario, &theirs);
                    rows.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|row: &Row| scenarios.iter().position(|one| one.name == row.scenario));
    table::check(&rows);
}

/// Plays a scenario with our controllers, then with the real ones.
fn compare(scenario: &Scenario, theirs: &Side) -> Row {
    let ours = Side::ours(scenario);
    let first: Played = play::record(scenario, &ours);
    let second = play::repeat(scenario, theirs, &first);
    Row::new(scenario, first.requests, second)
}
