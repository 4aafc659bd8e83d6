//! The beginning and the end of a phase: records the state, and then the result of the phase.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use podstorm_objects::Now;

use super::driver::{Driver, PhaseProgress};
use super::tracker::DownPeak;
use crate::result::{KindInPhase, Phase};
use crate::units::counted;

impl Driver {
    pub(super) fn begin_phase(&mut self, phase: usize, now: Now) {
        // Show the state in which the previous phase has left the cluster.
        self.show();
        self.at = PhaseProgress {
            phase,
            pods: self.cluster.write_counts().pods,
            excess: self.tracker.excess,
            ..PhaseProgress::default()
        };
        self.note_beginning(now);
        if phase < self.plan.len() {
            self.controllers.times.begin(phase, now.mono_ns);
        }
        // Relaxed, here and below: no other data depends on the numbers.
        self.position.phase.store(phase, Ordering::Relaxed);
        self.position.total.store(0, Ordering::Relaxed);
        self.position.done.store(0, Ordering::Relaxed);
        if phase < self.plan.len()
            && let Some(told) = &self.controllers.phase_begins
        {
            told(now);
        }
    }

    /// Records the state at the beginning of the phase.
    pub(super) fn note_beginning(&mut self, now: Now) {
        let (at, tracker) = (&mut self.at, &mut self.tracker);
        tracker.down = DownPeak::begin(tracker.desired, tracker.up, &mut tracker.owners);
        self.finishing.begin_phase();
        at.started_ns = now.mono_ns;
        at.existing = tracker.existing();
        at.ready = tracker.ready;
        at.waiting = tracker.waiting_pods();
        at.missing_and_spare = tracker.missing_and_spare();
    }

    /// Records the result of the phase.
    pub(super) fn write_down(&mut self, converged: bool, now: Now) {
        let plan = &self.plan[self.at.phase];
        let workloads = self.by_kind();
        let (before, pods) = (self.at.pods, self.cluster.write_counts().pods);
        let (created, deleted) = (pods.created - before.created, pods.deleted - before.deleted);
        let (missing, spare) = match self.shares {
            Some(_) => self.at.missing_and_spare,
            None => (0, 0),
        };
        let kept = !plan.no_pod_written || created <= missing && deleted <= spare;
        if !kept {
            let allowed = match (missing, spare) {
                (0, 0) => "but none should be".to_owned(),
                _ => format!("but {missing} were missing and {spare} too many"),
            };
            self.failures.push(format!(
                "phase \"{}\": {} created and {deleted} removed, {allowed}",
                plan.name,
                counted(created, "pod"),
            ));
        }
        self.done.push(Phase {
            name: plan.name.clone(),
            seconds: (now.mono_ns - self.at.started_ns) as f64 / 1e9,
            pods_created: created,
            pods_deleted: deleted,
            excess_pods_created: self.tracker.excess - self.at.excess,
            converged: converged && kept,
            set_up: plan.set_up,
            rollouts_failed: self.rollouts.failed(),
            pods_down_peak: self.tracker.down.all,
            pods_down_of_one_peak: self.tracker.down.of_one.most(),
            nodes_held: self.at.drain.nodes_held,
            workloads,
            began_seconds: self.at.started_ns as f64 / 1e9,
            // The distributions are added when the run is over.
            ..Phase::default()
        });
    }

    /// Returns what the phase did to the workloads of each kind.
    fn by_kind(&self) -> BTreeMap<String, KindInPhase> {
        let mut all: BTreeMap<String, KindInPhase> = BTreeMap::new();
        let down = &self.tracker.down.of_one;
        for (kind, most) in down.by_kind().chain(self.finishing.down.by_kind()) {
            let of_kind = all.entry(kind.name().to_owned()).or_default();
            of_kind.pods_down_of_one_peak = most;
        }
        for (kind, evicted) in &self.at.drain.evicted {
            let of_kind = all.entry((*kind).to_owned()).or_default();
            of_kind.pods_evicted = *evicted;
        }
        all
    }
}
