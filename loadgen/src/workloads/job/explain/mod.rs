//! Explains a Job: its next sync, why it failed or does not finish, when each index is retried, and
//! which pods are deleted when the parallelism decreases. Applies the controller's own decisions
//! ([`podstorm::job::decisions`]) to the Job and the pods in the files.

mod table;
mod words;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use podstorm::job::decisions::{Decisions, PlannedChange, RemovalRule, decide};
use podstorm::job::pod::{Rank, completion_index};
use podstorm_objects::{DynamicObject, Kind, Now, Pod, Uid};
use serde::Serialize;
use serde_json::Value;

use crate::input::InputObject;
use crate::text::json;
use crate::workloads::explain::{Asked, Explanation, Layout};
use crate::workloads::replicaset::explain::find::{some_of, untyped};

/// The explanation of a Job.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    /// The version of these fields: incremented when one changes its meaning.
    schema_version: u32,
    /// `Job`.
    kind: &'static str,
    namespace: String,
    name: String,
    /// The time for which the decisions are made.
    now: String,
    /// `running`, `suspended`, `complete`, `failed`, or `ignored` if the controller ignores the
    /// Job.
    state: &'static str,
    completions: Option<i64>,
    parallelism: i64,
    active: i64,
    ready: i64,
    terminating: i64,
    succeeded: i64,
    failed: i64,
    /// The actions of the next sync, each with its rule.
    next: Vec<Finding>,
    /// Why the Job failed, or does not finish.
    why: Vec<Finding>,
    /// The pods that are recreated after failures, and when.
    retries: Vec<Finding>,
    /// The failed pods, each with the matching rule of the failure policy.
    failures: Vec<Finding>,
    /// The parallelism to which the decrease in `removals` leads.
    removals_to: i64,
    /// The pods that are deleted when the parallelism decreases, in order.
    removals: Vec<Removal>,
    /// Other remarks, in sentences.
    notes: Vec<String>,
}

/// A finding, with the rule that leads to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Finding {
    /// The rule: the reason of a condition, the action of a policy, or a word for a decision of the
    /// controller.
    rule: String,
    /// The pod that the finding is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    /// The index that the finding is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<i64>,
    /// When the finding applies or when it happened, if it has a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The explanation, in words.
    why: String,
}

/// A pod that is deleted when the parallelism decreases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Removal {
    place: usize,
    /// The number of the sync that deletes the pod. A sync deletes at most 500 pods.
    sync: usize,
    pod: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<i64>,
    /// `suspended`, `unknown-index`, `surplus-index`, `repeated-index` or `surplus`.
    rule: &'static str,
    /// Why the pod is deleted before the next one.
    why: String,
}

/// A Job, its pods, and the other Jobs that select these pods.
#[derive(Debug)]
struct Found {
    job: Arc<DynamicObject>,
    pods: Vec<Arc<Pod>>,
    rivals: Vec<String>,
}

/// Explains the Job with this name.
///
/// # Errors
/// No Job or several have this name, or the question does not apply to Jobs.
pub(super) fn answer(name: &str, asked: Asked) -> Result<Box<dyn Explanation>> {
    if !asked.preferred.is_none() {
        bail!(
            "{}: Jobs ignore deletion costs, so no annotation changes which pods go; remove the flag",
            asked.preferred.text()
        );
    }
    let found = find(asked.objects, name)?;
    Ok(Box::new(explain(&found, asked.replicas, asked.now)))
}

impl Explanation for Answer {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write(out, self)
    }

    fn text(&self, layout: Layout) -> String {
        table::render(self, layout)
    }
}

fn find(input: Vec<InputObject>, wanted: &str) -> Result<Found> {
    let (mut jobs, mut pods) = (Vec::new(), Vec::new());
    for object in input {
        match object {
            InputObject::Pod(pod) => pods.push(Arc::<Pod>::from(pod)),
            InputObject::Dynamic(object) if object.kind() == Kind::JOB => {
                jobs.push(Arc::<DynamicObject>::from(object));
            }
            _ => {}
        }
    }
    let (job, jobs) = untyped(Kind::JOB, wanted, jobs, "jobs,pods")?;
    let namespace = &job.metadata.namespace;
    pods.retain(|pod| pod.metadata.namespace == *namespace);
    let is_rival = |other: &&Arc<DynamicObject>| {
        other.metadata.namespace == *namespace && selector(other) == selector(&job)
    };
    let rivals = jobs.iter().filter(is_rival);
    let rivals = rivals
        .map(|other| other.metadata.name.to_string())
        .collect();
    Ok(Found { job, pods, rivals })
}

fn selector(job: &DynamicObject) -> Option<&Value> {
    job.fields.get("spec")?.get("selector")
}

/// Makes the controller's decisions about the Job, and follows a decrease of the parallelism to
/// `to`, by default to 0.
fn explain(found: &Found, to: Option<i32>, now: Now) -> Answer {
    let job = &found.job;
    let decisions = decide(job, &found.pods, now);
    let mut notes = words::notes(&decisions, &found.pods);
    if !found.rivals.is_empty() {
        notes.push(format!(
            "The selector is that of {} too: each Job may adopt pods that both select. Remove spec.selector and \
             manualSelector, and the server gives each Job its own.",
            some_of(&found.rivals)
        ));
    }
    let to = to.map_or(0, i64::from);
    Answer {
        schema_version: 1,
        kind: "Job",
        namespace: job.metadata.namespace.to_string(),
        name: job.metadata.name.to_string(),
        now: now.wall().to_string(),
        state: words::state(&decisions, job),
        completions: decisions.completions,
        parallelism: decisions.parallelism,
        active: decisions.active,
        ready: decisions.ready,
        terminating: decisions.terminating,
        succeeded: decisions.succeeded,
        failed: decisions.failed,
        next: words::next(&decisions, now),
        why: words::why(&decisions, &found.pods, now),
        retries: words::retries(&decisions, now),
        failures: words::failures(&decisions),
        removals_to: to,
        removals: removals(found, &decisions, to, now),
        notes,
    }
}

/// Returns the pods that are deleted when the parallelism decreases to `to`, sync by sync.
fn removals(found: &Found, decisions: &Decisions, to: i64, now: Now) -> Vec<Removal> {
    if decisions.skipped.is_some() || decisions.end.is_some() {
        return Vec::new();
    }
    let mut job = DynamicObject::clone(&found.job);
    if let Some(spec) = job.fields.get_mut("spec") {
        spec["parallelism"] = to.into();
    }
    let job = Arc::new(job);
    let mut pods = found.pods.clone();
    let mut removed: Vec<(usize, Arc<Pod>, RemovalRule)> = Vec::new();
    let mut sync = 0;
    while let PlannedChange::Delete(now_removed) = decide(&job, &pods, now).step
        && !now_removed.is_empty()
    {
        sync += 1;
        let gone: BTreeSet<&Uid> = now_removed
            .iter()
            .map(|(pod, _)| &pod.metadata.uid)
            .collect();
        pods.retain(|pod| !gone.contains(&pod.metadata.uid));
        drop(gone);
        removed.extend(now_removed.into_iter().map(|(pod, rule)| (sync, pod, rule)));
    }
    let active = pods.iter().filter(|pod| pod.is_active());
    let first_kept = active.min_by_key(|pod| Rank::from_pod(pod));
    let next = |at: usize| removed.get(at + 1).map(|it| &it.1).or(first_kept);
    let shown = removed.iter().enumerate().map(|(at, (sync, pod, rule))| {
        let index = completion_index(&pod.metadata.annotations);
        Removal {
            place: at + 1,
            sync: *sync,
            pod: pod.metadata.name.to_string(),
            index: (index >= 0).then_some(index),
            rule: rule.as_str(),
            why: words::removal(*rule, pod, next(at)),
        }
    });
    shown.collect()
}

#[cfg(test)]
mod tests;
