//! Steps that act on pods: they delete random ready pods at a steady rate or a share of them,
//! remove random ready pods from their workloads, or delete the pods that are not ready.

use std::sync::Arc;

use podstorm_apiserver::{DeleteOptions, Patch};
use podstorm_objects::{Kind, Labels, Map, Now, ObjectMeta, Pod, Str};
use serde_json::{Value, json};

use super::driver::Driver;
use super::tasks::Action;
use crate::scenario::{Churn, SomePods};
use crate::workloads;
use crate::workloads::objects::members;

/// The value that a relabelled pod gets for the labels that its workload selects.
const ISOLATED: &str = "isolated";

impl Driver {
    /// Deletes a random ready pod if one is due. The n-th is due at n times the interval after the
    /// start, even if earlier ones are late, so that a slow run does not get a lighter load.
    pub(super) fn churn(&mut self, churn: Churn, begun_ns: i64, now: Now) -> Action {
        let rate = churn
            .rate
            .map_or(self.settings.churn_pods_per_second, |rate| rate.0);
        let length_ns = churn.time.map_or(self.settings.duration_ns, |time| time.0);
        let offset_ns = self.at.cursor as f64 * 1e9 / rate;
        self.at.count = Some((length_ns as f64 / 1e9 * rate).ceil().max(0.0) as u64);
        if rate <= 0.0 || offset_ns >= length_ns as f64 {
            return Action::Done;
        }
        let due_ns = begun_ns.saturating_add(offset_ns as i64);
        if due_ns > now.mono_ns {
            return Action::Wait(due_ns);
        }
        self.at.cursor += 1;
        if let Some(pod) = self.tracker.pick(&mut self.random) {
            self.delete_one(&pod, now);
        }
        Action::Wrote
    }

    /// Applies `one` to the next of a number of ready pods, chosen at random from those that
    /// remain.
    pub(super) fn at_random(
        &mut self,
        some: SomePods,
        begun_ns: i64,
        now: Now,
        one: fn(&mut Driver, &Arc<Pod>, Now),
    ) -> Action {
        // The number is a share of the pods that are ready when the step begins.
        let count = match self.at.count {
            Some(count) => count,
            None => some.pods.resolve(self.tracker.pickable()),
        };
        self.at.count = Some(count);
        self.each_due(count, some.load, begun_ns, now, |driver, _| {
            if let Some(pod) = driver.tracker.pick(&mut driver.random) {
                one(driver, &pod, now);
            }
            Action::Wrote
        })
    }

    pub(super) fn delete_one(&mut self, pod: &Arc<Pod>, now: Now) {
        let meta = &pod.metadata;
        // Ignore the error: another client has deleted the pod, so it no longer exists in either
        // case.
        let _deleted =
            self.cluster
                .delete::<Pod>(&meta.namespace, &meta.name, &DeleteOptions::default(), now);
    }

    /// Deletes, one per call, the pods that are not ready when the step begins.
    pub(super) fn delete_unready(&mut self, now: Now) -> Action {
        let pods = self.at.unready.take().unwrap_or_else(|| {
            let mut pods: Vec<Arc<Pod>> = self.cluster.list(None).0;
            pods.retain(|pod| pod.is_active() && !pod.is_ready());
            self.at.count = Some(pods.len() as u64);
            pods.reverse();
            pods
        });
        let pods = self.at.unready.insert(pods);
        let Some(pod) = pods.pop() else {
            self.at.unready = None;
            return Action::Done;
        };
        self.at.cursor += 1;
        self.delete_one(&pod, now);
        Action::Wrote
    }

    /// Changes the labels by which a pod's workload selects the pod, as operators do to inspect it.
    pub(super) fn relabel_one(&mut self, pod: &Arc<Pod>, now: Now) {
        let meta = &pod.metadata;
        let Some(selected) = self.selected_labels(meta) else {
            return;
        };
        let isolated = |(key, _): &(Str, Str)| (key.to_string(), Value::from(ISOLATED));
        let labels: Map = selected.pairs().iter().map(isolated).collect();
        let patch = Patch::Merge(members(json!({"metadata": {"labels": labels}})));
        let patched = self
            .cluster
            .patch::<Pod>(&meta.namespace, &meta.name, &patch, now);
        match patched {
            // The pod no longer exists, so it no longer belongs to its workload in either case.
            Err(error) if error.code == 404 => {}
            patched => {
                if self.note("relabelling", Kind::POD, patched).is_some() {
                    self.tracker.isolate(&meta.uid, now);
                }
            }
        }
    }

    /// Returns the labels by which a pod's controller selects pods; `None` if the controller no
    /// longer exists.
    fn selected_labels(&self, pod: &ObjectMeta) -> Option<Labels> {
        let (workload, owner) = workloads::controller(pod)?;
        let api = self.cluster.api(workload.kind());
        let found = api.get(&pod.namespace, &owner.name).ok()?;
        workload.pods()?.selected_labels(&*found)
    }
}
