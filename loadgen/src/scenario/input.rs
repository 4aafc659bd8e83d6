//! Checks whether a scenario can run on the objects in files.

use super::definition::Scenario;
use crate::input::InputSize;
use crate::workloads::{self, Workload, kinds_in_words};

impl Scenario {
    /// Checks that the scenario can run on the objects in files.
    ///
    /// # Errors
    /// What the scenario requires, and how to provide it.
    pub(crate) fn check_input(&self, input: &InputSize) -> Result<(), String> {
        let name = &self.name;
        if !self.loads_input() {
            return Err(format!(
                "--scenario {name} generates its own cluster and can't be used with -f; run without \
                 --scenario to simulate the objects of the files"
            ));
        }
        // The contents of the files are unknown until they are read.
        if input.owners + input.pods + input.nodes == 0 {
            return Ok(());
        }
        let has_successors =
            |workload: &Workload| workload.pods().is_some_and(|pods| pods.has_successors());
        let rolls_out = |workload: &Workload| workload.rollouts().is_some();
        if self.sets_images() && !has(input, rolls_out) {
            let kinds = workloads::ALL.iter().map(|it| it.kind().resource());
            let kinds: Vec<&str> = kinds.collect();
            return Err(format!(
                "the scenario {name} gives {} new images, but the files contain none: dump them too, with \
                 kubectl get {},pods,nodes -A -o json, or replace {} step by step, as the scenario \
                 rollout-storm does",
                kinds_in_words(rolls_out),
                kinds.join(","),
                kinds_in_words(has_successors)
            ));
        }
        if self.rolls_out() && input.owners > 0 && !has(input, has_successors) {
            return Err(format!(
                "the scenario {name} replaces {} step by step, but the files have none: use files with \
                 some, or a scenario without rollOut (recreate and relabelPods apply to all workloads)",
                kinds_in_words(has_successors)
            ));
        }
        Ok(())
    }
}

/// Reports whether the files contain a workload for which `is_meant` returns true.
fn has(input: &InputSize, is_meant: impl Fn(&Workload) -> bool) -> bool {
    let mut known = input
        .workloads
        .iter()
        .filter_map(|kind| workloads::for_kind(*kind));
    known.any(|workload| is_meant(&workload))
}
