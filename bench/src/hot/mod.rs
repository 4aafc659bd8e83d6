//! The hot paths, in a single list: criterion times each of them, callgrind counts its
//! instructions, and dhat counts its allocations. Each subject has a module that sets up its paths.

pub mod cache;
pub mod deployment;
pub mod endpoints;
pub mod events;
pub mod expectations;
pub mod handlers;
pub mod heartbeats;
pub mod http;
pub mod job;
pub mod json;
pub mod loading;
pub mod planted;
pub mod ranking;
pub mod run;
pub mod selectors;
pub mod slow_start;
pub mod statefulset;
pub mod sync;
pub mod volumes;
pub mod workqueue;

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};

use crate::clusters::Plan;

/// A hot path in its steady state.
#[derive(Debug)]
pub struct HotPath {
    /// `subject/variant/size`: the id in criterion, in the budgets and in the targets.
    pub id: &'static str,
    /// The number of calls that are counted together, so that the cost of counting is negligible.
    pub calls: u32,
    /// Whether the steady state allocates nothing.
    pub allocation_free: bool,
    /// Sets the path up.
    pub prepare: fn() -> Operation,
}

/// Work that can be repeated, and can be timed without its preparation.
pub trait Work {
    /// Prepares the next round of work if the last one has ended. Returns the number of remaining
    /// calls in the round.
    fn prepare(&mut self) -> u64 {
        u64::MAX
    }

    /// Does the work once. The result depends on the work, so that the compiler cannot remove any
    /// of it.
    fn work(&mut self) -> u64;

    /// Does the work once. At the start of a round, prepares the round first.
    fn call(&mut self) -> u64 {
        self.prepare();
        self.work()
    }

    /// Returns the time that `calls` calls take, without the preparation.
    fn time(&mut self, mut calls: u64) -> Duration {
        let mut taken = Duration::ZERO;
        while calls > 0 {
            let round = self.prepare().min(calls);
            let start = WallTime.start();
            for _ in 0..round {
                black_box(self.work());
            }
            taken += WallTime.end(start);
            calls -= round;
        }
        taken
    }
}

/// Any work, behind one pointer.
pub type Operation = Box<dyn Work>;

impl<F: FnMut() -> u64> Work for F {
    fn work(&mut self) -> u64 {
        self()
    }
}

/// Work that measures its own time.
#[derive(Debug)]
pub struct ByItsClock<F>(pub F);

impl<F: FnMut() -> Duration> Work for ByItsClock<F> {
    fn work(&mut self) -> u64 {
        (self.0)().as_nanos() as u64
    }

    fn time(&mut self, calls: u64) -> Duration {
        (0..calls).map(|_| (self.0)()).sum()
    }
}

impl HotPath {
    /// Sets up the path and runs two rounds, so that the next calls are in the steady state: lists
    /// have grown and entries exist, even those that only every second round uses.
    pub fn steady(&self) -> Operation {
        let mut operation = (self.prepare)();
        for _ in 0..2 * self.calls {
            operation.call();
        }
        match planted::are_asked_for() {
            true => planted::slowed(self.id, operation),
            false => operation,
        }
    }
}

/// A path that claims to allocate nothing in its steady state.
const FREE: bool = true;
/// A path that allocates.
const ALLOCATES: bool = false;

/// Builds the rows: the id, the number of calls that are counted together, the claim about
/// allocations, and the function that sets up the path.
macro_rules! paths {
    ($($id:literal, $calls:literal, $claim:ident, $prepare:expr;)*) => {
        vec![$(HotPath {
            id: $id,
            calls: $calls,
            allocation_free: $claim,
            prepare: || Box::new($prepare),
        }),*]
    };
}

/// Returns all hot paths, ordered by subject.
pub fn paths() -> Vec<HotPath> {
    paths! {
        "cache/update/10000", 10_000, FREE, cache::update(10_000);
        "cache/turnover/10000", 10_000, FREE, cache::turnover(10_000);
        "cache/get/10000", 10_000, FREE, cache::get(10_000);
        "deployment/idle/1", 100, ALLOCATES, deployment::idle(1);
        "deployment/idle/10", 100, ALLOCATES, deployment::idle(10);
        "endpoints/idle/100", 100, ALLOCATES, endpoints::idle(100);
        "endpoints/idle/1000", 10, ALLOCATES, endpoints::idle(1_000);
        "endpoints/idle-endpoints/1000", 10, ALLOCATES, endpoints::idle_endpoints(1_000);
        "events/create/1000", 1_000, ALLOCATES, events::create(1_000);
        "events/dropped/1", 1_000, FREE, events::dropped();
        "events/repeat/1000", 1_000, ALLOCATES, events::repeat(1_000);
        "expectations/create/1", 1_000, FREE, expectations::create(1);
        "expectations/create/5000", 5_000, FREE, expectations::create(5_000);
        "expectations/delete/500", 10, FREE, expectations::delete();
        "handlers/owned-created/2000", 20_000, FREE, handlers::created(2_000);
        "handlers/owned-updated/2000", 20_000, FREE, handlers::updated(2_000);
        "handlers/owned-deleted/2000", 20_000, FREE, handlers::deleted(2_000);
        "handlers/orphan/2000", 20_000, FREE, handlers::orphan(2_000);
        "heartbeats/renew/0", 300, ALLOCATES, heartbeats::renew(0);
        "heartbeats/renew/10000", 300, ALLOCATES, heartbeats::renew(10_000);
        "http/get/8300", 100, ALLOCATES, http::get();
        "http/create/1200", 100, ALLOCATES, http::create();
        "http/patch-status/8300", 100, ALLOCATES, http::patch_status();
        "http/list/1000", 1, ALLOCATES, http::list(1_000);
        "http/watch/100", 10, ALLOCATES, http::watch(100);
        "job/complete/2500", 1, ALLOCATES, job::complete(2_500, 500);
        "job/count/500", 10, ALLOCATES, job::count(500);
        "job/create/500", 10, ALLOCATES, job::create(500);
        "job/idle/1", 100, ALLOCATES, job::idle(1);
        "job/idle/1000", 10, ALLOCATES, job::idle(1_000);
        "job/pod-changed/1", 1_000, FREE, job::pod_changed(1);
        "job/pod-changed/100", 1_000, FREE, job::pod_changed(100);
        "job/pod-changed/10000", 1_000, FREE, job::pod_changed(10_000);
        "json/decode-pod/8300", 100, ALLOCATES, json::decode();
        "json/encode-pod/8300", 100, FREE, json::encode();
        "loading/json-alike/1000", 1, ALLOCATES, loading::load(loading::json(1_000, 10));
        "loading/json-strangers/100", 1, ALLOCATES, loading::load(loading::json(100, 100));
        "loading/yaml-alike/1000", 1, ALLOCATES, loading::load(loading::yaml(1_000, 10));
        "ranking/choose-500/1000", 16, FREE, ranking::choose(1_000);
        "ranking/choose-500/10000", 3, FREE, ranking::choose(10_000);
        "ranking/choose-500/100000", 1, FREE, ranking::choose(100_000);
        "ranking/tie-group/1000", 16, FREE, ranking::tie_group(1_000);
        "ranking/node-counts/10000", 3, FREE, ranking::node_counts(10_000);
        "run/up-down-virtual/3000", 1, ALLOCATES, run::up_down(3_000, 60);
        "run/churn-virtual/1000", 1, ALLOCATES, run::churn(1_000, 20);
        "selectors/match-labels/2", 2_000, FREE, selectors::matching(selectors::match_labels());
        "selectors/match-expressions/4", 2_000, FREE,
            selectors::matching(selectors::match_expressions());
        "selectors/compile/4", 2_000, ALLOCATES, selectors::compile();
        "selectors/owners/2000", 2_000, FREE, selectors::owners(2_000);
        "slow_start/batches/500", 100, FREE, slow_start::batches(500);
        "statefulset/idle/1", 100, ALLOCATES, statefulset::idle(1, 0);
        "statefulset/idle/1000", 10, ALLOCATES, statefulset::idle(1_000, 0);
        "statefulset/idle-claims/1000", 10, ALLOCATES, statefulset::idle(1_000, 1);
        "statefulset/life/100", 1, ALLOCATES, statefulset::life(100, 3);
        "statefulset/parallel/1000", 1, ALLOCATES, statefulset::parallel(1_000);
        "sync/idle/50", 1_000, FREE, sync::idle(Plan::new(1, 50));
        "sync/idle-round/50", 1_000, FREE, sync::idle(Plan::new(100, 50));
        "sync/idle/5000", 1_000, FREE, sync::idle(Plan::new(1, 5_000));
        "sync/idle-min-ready/5000", 1_000, FREE, sync::idle(sync::settled_min_ready(5_000));
        "sync/create/500", 10, FREE, sync::create(500);
        "sync/delete-500/1000", 10, FREE, sync::scale_down(sync::deleting(1_000));
        "sync/delete-500/100000", 10, FREE, sync::scale_down(sync::deleting(100_000));
        "sync/delete-500-siblings/20000", 10, FREE,
            sync::scale_down(sync::deleting_among_siblings(20_000));
        "volumes/bind/1", 100, ALLOCATES, volumes::bind(1);
        "volumes/bind/1000", 100, ALLOCATES, volumes::bind(1_000);
        "volumes/choose/1000", 10, ALLOCATES, volumes::choose(1_000);
        "volumes/idle/1000", 100, ALLOCATES, volumes::idle(1_000);
        "workqueue/cycle/5000", 5_000, FREE, workqueue::cycle(5_000);
        "workqueue/backlog/5000", 2, FREE, workqueue::backlog(5_000);
        "workqueue/add-queued/5000", 5_000, FREE, workqueue::add_queued(5_000);
        "workqueue/limiter/5000", 5_000, FREE, workqueue::limiter(5_000);
        "workqueue/delayed-add/5000", 4_000, FREE, workqueue::DelayedAdds::new(5_000);
    }
}

/// Limits rayon's pool to a single thread, so that counts include the share of each thread and do
/// not depend on the number of cores. Must be called before a count.
pub fn on_one_core() {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1);
    // An existing pool was created by an earlier call.
    let _ = one.build_global();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_paths_claim_to_allocate_nothing() {
        let claiming = paths().into_iter().filter(|path| path.allocation_free);
        assert!(claiming.count() >= 10);
    }

    #[test]
    fn ids_have_three_parts_and_are_unique() {
        let mut ids = Vec::new();
        for path in paths() {
            assert_eq!(path.id.split('/').count(), 3, "{}", path.id);
            ids.push(path.id);
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
