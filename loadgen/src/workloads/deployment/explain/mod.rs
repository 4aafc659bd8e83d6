//! Explains the next syncs of a Deployment: runs the controller itself ([`podstorm::deployment`])
//! on a server that has the Deployment and its ReplicaSets from the files.
//!
//! A sync sees the writes of earlier ones. Where the controller would wait for pods, new pods are
//! assumed to become available and surplus ones to be removed. The syncs continue until one makes
//! no request. Pods that were stuck in the files stay stuck, and so do new pods of a ReplicaSet
//! without a ready pod. The controller reads the statuses of ReplicaSets; if the files contain
//! pods, these statuses are computed from them.

mod table;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use podstorm::client::{Answer, Request};
use podstorm::deployment::find_new::by_creation;
use podstorm::deployment::rollout::rollout_status;
use podstorm::deployment::sizes::{max_surge, max_unavailable};
use podstorm::deployment::{Controller, ControllerOptions};
use podstorm::driver::{Driver, Progress, Workload};
use podstorm::informer::Informers;
use podstorm::template::{TemplateForm, same_template};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::{AnyObject, Deployment, Kind, Now, ReplicaSet, ReplicaSetStatus};
use podstorm_sim::engine::client::{ApiCalls, Client};
use serde::Serialize;

use crate::input::{InputObject, described, named_namespace};
use crate::owned_pods::OwnedPods;
use crate::text::json;
use crate::units::{NS_PER_SECOND, duration_text};
use crate::workloads::explain::{Asked as Question, Explanation, Layout};
use crate::workloads::replicaset::explain as pods;
use crate::workloads::replicaset::explain::find::{full_name, near_names, only, some_of};
use words::SyncView;

/// The maximum number of syncs to show. A rollout of thousands of pods, one at a time, is cut off.
const SYNCS_MAX: usize = 1_000;

/// The explanation of a rollout.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rollout {
    /// The version of these fields: incremented when one changes its meaning.
    pub(crate) schema_version: u32,
    /// `Deployment`.
    pub(crate) kind: &'static str,
    /// The Deployment's namespace.
    pub(crate) namespace: String,
    /// The Deployment's name.
    pub(crate) name: String,
    /// `RollingUpdate` or `Recreate`.
    pub(crate) strategy: String,
    /// `spec.paused`.
    pub(crate) paused: bool,
    /// `spec.replicas`.
    pub(crate) replicas: i32,
    /// The maximum number of pods above `replicas`.
    pub(crate) max_surge: i32,
    /// The maximum number of unavailable pods.
    pub(crate) max_unavailable: i32,
    /// Problems that exist already: pods that can't become ready, and conditions that report a
    /// problem.
    pub(crate) problems: Vec<String>,
    /// The steps, in order.
    pub(crate) steps: Vec<ExplainedStep>,
    /// The last line that `kubectl rollout status` would print.
    pub(crate) end: String,
}

/// A sync that makes requests, or the wait before the next sync.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExplainedStep {
    /// The requests of a sync, in order.
    Sync(Vec<Asked>),
    /// The condition on which the next sync continues.
    Waits(String),
}

/// A request of a sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Asked {
    /// The verb and resource: `update replicasets`, `update deployments/status`.
    pub(crate) request: String,
    /// The name of the object.
    pub(crate) name: String,
    /// The size of a ReplicaSet before and after the request; `None` if it does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<(i32, i32)>,
    /// The reason for the request, in words.
    pub(crate) why: String,
}

/// A Deployment and its ReplicaSets.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    deployment: Arc<Deployment>,
    sets: Vec<ReplicaSet>,
    /// The pods of each ReplicaSet, by the ReplicaSet's name.
    pods: BTreeMap<String, OwnedPods>,
}

/// Explains the Deployment with this name. If the input contains it and the question is not about
/// pods, explains its next syncs, otherwise which pods of its newest ReplicaSet are deleted.
///
/// # Errors
/// No object or several have this name, the server refuses an object, or something is missing in
/// the input.
pub(super) fn answer(name: &str, asked: Question) -> Result<Box<dyn Explanation>> {
    if asked.replicas.is_none() && asked.preferred.is_none() {
        if let Some(found) = find(&asked.objects, name)? {
            return Ok(Box::new(explain(found, asked.image.as_deref(), asked.now)?));
        }
        if asked.image.is_some() {
            bail!(
                "--image: the input has no Deployment; dump it too: kubectl get deploy,rs,pods -A -o json"
            );
        }
    }
    pods::of_newest(name, asked)
}

impl Explanation for Rollout {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write(out, self)
    }

    fn text(&self, layout: Layout) -> String {
        table::render(self, layout.wide, layout.width)
    }
}

/// Finds the Deployment with this name among the objects, with its ReplicaSets and their pods;
/// `None` if there are no Deployments.
///
/// # Errors
/// No Deployment or several have this name.
pub(crate) fn find(input: &[InputObject], wanted: &str) -> Result<Option<Found>> {
    let is_deployment = |object: &&InputObject| object.kind() == Kind::DEPLOYMENT;
    let all: Vec<&InputObject> = input.iter().filter(is_deployment).collect();
    let names: Vec<String> = all.iter().map(|one| full_name(one.metadata())).collect();
    let Some(at) = only("Deployment", wanted, &names)? else {
        if names.is_empty() {
            return Ok(None);
        }
        let near = match near_names(wanted, &names) {
            near if near.is_empty() => some_of(&names),
            near => near.join(", "),
        };
        bail!("the input has no Deployment {wanted:?}; the nearest: {near}");
    };
    let object = InputObject::clone(all[at]).into_any();
    let deployment = Deployment::from_object(&object)
        .with_context(|| format!("Deployment {wanted:?}: a member has the wrong type"))?;
    let meta = &deployment.metadata;
    let sets = input.iter().filter_map(|object| {
        let set = object.as_object().downcast_ref::<ReplicaSet>()?;
        // The controller ignores the ReplicaSets of other owners, and may adopt those without an
        // owner.
        let owner = set.metadata.controller();
        let is_own = owner.is_none_or(|owner| owner.uid == meta.uid);
        (is_own && set.metadata.namespace == meta.namespace).then(|| set.clone())
    });
    let mut sets: Vec<ReplicaSet> = sets.collect();
    let mut pods: BTreeMap<String, OwnedPods> = BTreeMap::new();
    for object in input {
        if let InputObject::Pod(pod) = object
            && pod.is_active()
            && let Some(owner) = pod.metadata.controller()
            && let Some(set) = sets.iter().find(|set| set.metadata.uid == owner.uid)
        {
            let name = set.metadata.name.to_string();
            pods.entry(name).or_default().count(pod);
        }
    }
    for set in &mut sets {
        if let Some(pods) = pods.get(set.metadata.name.as_str()) {
            set.status.replicas = pods.active;
            set.status.ready_replicas = pods.ready;
            let waits = set.spec.min_ready_seconds > 0;
            set.status.available_replicas = match waits {
                true => set.status.available_replicas.min(pods.ready),
                false => pods.ready,
            };
        }
    }
    Ok(Some(Found {
        deployment,
        sets,
        pods,
    }))
}

/// Explains the next syncs. With `image`, explains them for a change of the first container to this
/// image.
///
/// # Errors
/// The server refuses an object.
pub(crate) fn explain(found: Found, image: Option<&str>, now: Now) -> Result<Rollout> {
    let problems = words::problems(&found.deployment, &found.pods);
    let mut server = Server::new(found, image, now)?;
    let start = server.deployment();
    let mut steps = Vec::new();
    for _ in 0..SYNCS_MAX {
        let asked = server.sync();
        let moved = asked.iter().any(|asked| asked.replicas.is_some());
        let is_over = asked.is_empty();
        if !is_over {
            steps.push(ExplainedStep::Sync(asked));
        }
        if moved {
            continue;
        }
        match server.wait() {
            Some(waits) => steps.push(ExplainedStep::Waits(waits)),
            None if is_over => break,
            None => {}
        }
    }
    if let Some(seconds) = server.deadline() {
        server.now = server.now.plus_ns((i64::from(seconds) + 1) * NS_PER_SECOND);
        let asked = server.sync();
        if !asked.is_empty() {
            let passed = duration_text(i64::from(seconds) * NS_PER_SECOND);
            let waits = format!("waits until {passed} pass without progress");
            steps.extend([ExplainedStep::Waits(waits), ExplainedStep::Sync(asked)]);
        }
    }
    let end = match rollout_status(&server.deployment(), 0) {
        Ok(status) => status.message,
        Err(error) => error.to_string(),
    };
    let (meta, spec) = (&start.metadata, &start.spec);
    Ok(Rollout {
        schema_version: 1,
        kind: "Deployment",
        namespace: meta.namespace.to_string(),
        name: meta.name.to_string(),
        strategy: spec.strategy.kind.to_string(),
        paused: spec.paused,
        replicas: start.replicas(),
        max_surge: max_surge(&start),
        max_unavailable: max_unavailable(&start),
        problems,
        steps,
        end,
    })
}

/// A server that has the Deployment and its ReplicaSets.
struct Server {
    cluster: Arc<Cluster>,
    client: Client,
    at: (String, String),
    now: Now,
    /// The pods of each ReplicaSet from the files, by the ReplicaSet's name. A ReplicaSet that is
    /// created later has no entry.
    pods: BTreeMap<String, OwnedPods>,
}

impl Server {
    fn new(found: Found, image: Option<&str>, now: Now) -> Result<Server> {
        let Found {
            deployment,
            sets,
            pods,
        } = found;
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        let meta = &deployment.metadata;
        // Ignore the error: `default` exists from the start.
        let _there = cluster.import(named_namespace(&meta.namespace), now);
        let api = cluster.api(Kind::DEPLOYMENT);
        let what = format!("Deployment {}", full_name(meta));
        let mut stored = api
            .import(Arc::new(deployment.to_untyped()), now)
            .with_context(|| what.clone())?;
        if let Some(image) = image {
            let mut changed = Deployment::from_object(&stored)
                .map_or_else(|| Deployment::clone(&deployment), Arc::unwrap_or_clone)
                .to_untyped();
            let container = changed
                .fields
                .get_mut("spec")
                .and_then(|spec| spec.pointer_mut("/template/spec/containers/0"));
            if let Some(container) = container {
                container["image"] = image.into();
            }
            stored = api.update(Arc::new(changed), now).context(what)?;
        }
        let meta = stored.metadata();
        let at = (meta.namespace.to_string(), meta.name.to_string());
        for set in sets {
            let what = described(&set);
            cluster.import(set, now).context(what)?;
        }
        Ok(Server {
            client: Client::new(Arc::clone(&cluster), None),
            cluster,
            at,
            now,
            pods,
        })
    }

    fn deployment(&self) -> Arc<Deployment> {
        let found = self
            .cluster
            .api(Kind::DEPLOYMENT)
            .get(&self.at.0, &self.at.1);
        let found = found.ok().and_then(|found| Deployment::from_object(&found));
        found.expect("it was stored, and the controller deletes no Deployment")
    }

    fn sets(&self) -> Vec<Arc<ReplicaSet>> {
        let mut sets = self.cluster.list::<ReplicaSet>(None).0;
        sets.sort_by(|a, b| by_creation(a, b));
        sets
    }

    /// Returns the sizes and availability that the controller counts.
    fn counts(&self) -> SyncView {
        let (deployment, sets) = (self.deployment(), self.sets());
        let template = &deployment.spec.template;
        let form = TemplateForm::from_template(template);
        let is_new = |set: &&Arc<ReplicaSet>| {
            let own = &set.spec.template;
            same_template(template, &form, own, &TemplateForm::from_template(own))
        };
        let sum = |of: fn(&ReplicaSet) -> i32| sets.iter().map(|set| of(set)).sum();
        SyncView {
            new: sets
                .iter()
                .find(is_new)
                .map(|set| set.metadata.name.to_string()),
            all: sum(ReplicaSet::replicas),
            available: sum(|set| set.status.available_replicas),
            deployment,
            shrunk: BTreeSet::new(),
        }
    }

    /// Runs one sync of a controller that has seen everything, and returns its requests.
    fn sync(&mut self) -> Vec<Asked> {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(ControllerOptions::default(), &mut informers);
        let (now, version) = (self.now, 1.into());
        let objects = vec![self.deployment() as AnyObject];
        let sets = self.sets().into_iter().map(|set| set as AnyObject);
        for (kind, objects) in [
            (Kind::REPLICA_SET, sets.collect()),
            (Kind::DEPLOYMENT, objects),
        ] {
            informers.take(kind).replace(objects, &version, now);
        }
        let key = controller.key(&self.at.0, &self.at.1);
        let mut counts = self.counts();
        let (mut asked, mut calls) = (Vec::new(), ApiCalls::default());
        let mut transport = |request: &Request, now: Now| -> Answer {
            asked.extend(words::asked(&self.cluster, &mut counts, request));
            self.client.carry_out(request, &mut calls, now)
        };
        let mut driver: Driver<<Controller as Workload>::Sync> = Driver::default();
        let progress = driver.begin(&controller, 0, key, &mut transport, now);
        debug_assert_eq!(
            progress,
            Progress::Finished,
            "every request gets its answer immediately"
        );
        asked
    }

    /// Returns the progress deadline in seconds; `None` if the rollout is over or paused, or has no
    /// deadline.
    fn deadline(&self) -> Option<i32> {
        let deployment = self.deployment();
        let is_over = rollout_status(&deployment, 0).map_or(true, |status| status.done);
        let deadline = deployment.spec.progress_deadline_seconds;
        deadline.filter(|seconds| *seconds < i32::MAX && !is_over && !deployment.spec.paused)
    }

    /// Returns how many pods of a ReplicaSet, at its current size, can't become ready. If there are
    /// surplus pods, the unready ones are deleted first.
    fn stuck(&mut self, set: &ReplicaSet) -> i32 {
        let Some(pods) = self.pods.get_mut(set.metadata.name.as_str()) else {
            return 0;
        };
        let grown = set.replicas() - pods.active;
        if grown < 0 {
            pods.stuck = (pods.stuck + grown).max(0);
        } else if pods.holds_new() {
            pods.stuck += grown;
        }
        pods.active = set.replicas();
        pods.stuck
    }

    /// Makes those requested pods available that can become available, and removes surplus pods.
    /// Returns the changes in words; `None` if there are none.
    fn wait(&mut self) -> Option<String> {
        let mut waits = Vec::new();
        for set in self.sets() {
            let size = set.replicas();
            let available = size - self.stuck(&set);
            let status = ReplicaSetStatus {
                replicas: size,
                fully_labeled_replicas: size,
                ready_replicas: available,
                available_replicas: available,
                terminating_replicas: set.status.terminating_replicas.map(|_| 0),
                observed_generation: set.metadata.generation,
                conditions: Vec::new(),
                ..set.status.clone()
            };
            if status == set.status {
                continue;
            }
            waits.extend(words::waits(&set, available));
            let changed = ReplicaSet {
                status,
                ..(*set).clone()
            };
            // Ignore the result: the object is stored, and only its status changes.
            let _written = self.cluster.update_status(changed, self.now);
        }
        match waits.is_empty() {
            true => None,
            false => Some(format!("waits until {}", waits.join(" and "))),
        }
    }
}
