//! Metrics of a run that no invariant limits: the number of pods, and the rate at which controllers
//! create pods.

use std::collections::VecDeque;

use podstorm_apiserver::{Change, Commit};
use podstorm_objects::Pod;
use podstorm_sim::engine::observer::Origin;

use crate::verdict::Verdict;

const MINUTE: i64 = 60_000_000_000;

/// The state from which the metrics are computed.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// The times at which controllers created pods in the last minute, ns.
    creates: VecDeque<i64>,
    pods: u64,
}

impl Metrics {
    /// Updates the metrics in the verdict for a commit.
    pub(super) fn committed(
        &mut self,
        commit: &Commit,
        origin: Option<Origin>,
        verdict: &mut Verdict,
    ) {
        let Some((old, _)) = commit.downcast::<Pod>() else {
            return;
        };
        match commit.change {
            Change::Added => self.pods += 1,
            Change::Modified => {}
            Change::Deleted => self.pods = self.pods.saturating_sub(1),
        }
        verdict.peak_pods = verdict.peak_pods.max(self.pods);
        if origin.is_some() && old.is_none() {
            self.created(commit.now.mono_ns, verdict);
        }
    }

    fn created(&mut self, now_ns: i64, verdict: &mut Verdict) {
        self.creates.push_back(now_ns);
        while self
            .creates
            .front()
            .is_some_and(|at_ns| now_ns - at_ns >= MINUTE)
        {
            self.creates.pop_front();
        }
        let creates = self.creates.len() as u64;
        verdict.most_creates_per_minute = verdict.most_creates_per_minute.max(creates);
    }
}
