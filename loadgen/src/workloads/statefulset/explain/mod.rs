//! Explains the next syncs of a StatefulSet, and what the set waits for afterwards: runs the
//! controller itself ([`podstorm::statefulset`]) on a server that has the set with its pods, claims
//! and revisions from the files.
//!
//! A sync sees the writes of earlier ones, but no pod starts or ends in between. The syncs
//! therefore end at the pod or claim that blocks the set, which [`wait_of`] returns.

mod server;
mod table;
mod words;

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use podstorm::statefulset::StatefulSets;
use podstorm::statefulset::course::Course;
use podstorm::statefulset::spec::SetSpec;
use podstorm::statefulset::waits::wait_of;
use podstorm_objects::{DynamicObject, Kind, Map, Pod};
use serde::Serialize;
use serde_json::Value;

use self::server::Server;
use crate::input::InputObject;
use crate::text::json;
use crate::workloads::explain::{Asked as Question, Explanation, Layout};
use crate::workloads::replicaset::explain::find::untyped;

/// The maximum number of syncs to simulate: far more than a set needs until it waits.
const SYNCS_MAX: usize = 1_000;

/// The explanation of a StatefulSet.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    /// The version of these fields: incremented when one changes its meaning.
    schema_version: u32,
    /// `StatefulSet`.
    kind: &'static str,
    namespace: String,
    name: String,
    /// The time for which the decisions are made.
    now: String,
    /// `settled`, `waiting`, `stuck` if the wait does not end by itself, or `failing`.
    state: &'static str,
    /// `OrderedReady` or `Parallel`.
    pod_management: &'static str,
    /// `RollingUpdate` or `OnDelete`.
    strategy: String,
    partition: i64,
    /// `spec.replicas`.
    replicas: i64,
    /// The number of the set's pods in the files.
    pods: i64,
    ready: i64,
    current_revision: String,
    update_revision: String,
    /// The requests of the next syncs, up to the first sync that makes none.
    syncs: Vec<Vec<Asked>>,
    /// Why the last sync failed; `None` if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The pods and claims that block the set after these syncs.
    waits: Vec<Waiting>,
    /// The pods that an operator must delete, because nothing else replaces them.
    delete: Vec<String>,
    /// The last line that `kubectl rollout status` would print.
    rollout: String,
    /// Other remarks, in sentences.
    notes: Vec<String>,
}

/// The maximum number of replicas of a set to simulate. With Parallel pod management, the first
/// sync creates all pods.
const REPLICAS_MAX: i64 = 100_000;

/// A request of a sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Asked {
    /// The verb and resource: `create pods`, `update statefulsets/status`.
    request: String,
    /// The name of the object.
    name: String,
    why: String,
}

/// Something that a set waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Waiting {
    /// `terminating`, `not-ready`, `min-ready-seconds` or `stale-claim`.
    rule: &'static str,
    pod: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// The revision from which the pod was created.
    revision: String,
    why: String,
}

/// A set and the objects that it owns.
#[derive(Clone, Debug)]
struct Found {
    set: Arc<DynamicObject>,
    pods: Vec<Arc<Pod>>,
    claims: Vec<Arc<DynamicObject>>,
    revisions: Vec<Arc<DynamicObject>>,
}

/// Explains the StatefulSet with this name.
///
/// # Errors
/// No StatefulSet or several have this name, the question does not apply to StatefulSets, or the
/// server refuses an object.
pub(super) fn answer(name: &str, asked: Question) -> Result<Box<dyn Explanation>> {
    if !asked.preferred.is_none() {
        bail!(
            "{}: a StatefulSet deletes its pods by ordinal, so no annotation changes which go; remove the flag",
            asked.preferred.text()
        );
    }
    let Question {
        objects,
        replicas,
        image,
        gates,
        policy,
        now,
        ..
    } = asked;
    let found = find(objects, name)?;
    let wanted = Course::from_object(&*found.set).map_or(0, |course| course.replicas);
    let wanted = replicas.map_or(wanted, i64::from);
    if wanted > REPLICAS_MAX {
        bail!(
            "StatefulSet {name:?}: {wanted} replicas are too many to simulate; use --replicas {REPLICAS_MAX} at most"
        );
    }
    let options = StatefulSets::options(&gates, &policy);
    let server = Server::new(&found, replicas, image.as_deref(), options, now)?;
    Ok(Box::new(explain(server)))
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
    let (mut sets, mut pods) = (Vec::new(), Vec::new());
    let (mut claims, mut revisions) = (Vec::new(), Vec::new());
    for object in input {
        match object {
            InputObject::Pod(pod) => pods.push(Arc::<Pod>::from(pod)),
            InputObject::Dynamic(object) => {
                let kind = object.kind();
                let all = match kind {
                    _ if kind == Kind::STATEFUL_SET => &mut sets,
                    _ if kind == Kind::PERSISTENT_VOLUME_CLAIM => &mut claims,
                    _ if kind == Kind::CONTROLLER_REVISION => &mut revisions,
                    _ => continue,
                };
                all.push(Arc::<DynamicObject>::from(object));
            }
            _ => {}
        }
    }
    let dump = "sts,pods,pvc,controllerrevisions";
    let (set, _) = untyped(Kind::STATEFUL_SET, wanted, sets, dump)?;
    let namespace = &set.metadata.namespace;
    pods.retain(|pod| pod.metadata.namespace == *namespace);
    claims.retain(|claim| claim.metadata.namespace == *namespace);
    revisions.retain(|revision| revision.metadata.namespace == *namespace);
    Ok(Found {
        set,
        pods,
        claims,
        revisions,
    })
}

/// Runs syncs until one makes no request, and explains what the set then waits for.
fn explain(mut server: Server) -> Answer {
    let start = server.found();
    let mut syncs = Vec::new();
    let mut failure = None;
    for _ in 0..SYNCS_MAX {
        let (asked, failed) = server.sync();
        let is_over = asked.is_empty() || failed.is_some();
        failure = failed;
        if !asked.is_empty() {
            syncs.push(asked);
        }
        if is_over {
            break;
        }
    }
    let end = server.found();
    let spec = spec_of(&end.set);
    let course = Course::from_object(&*end.set).expect("the object is a StatefulSet");
    let wait = wait_of(&end.set, &end.pods, &end.claims, server.now());
    let stuck = wait
        .as_ref()
        .and_then(|wait| words::stuck(wait, &end, &spec, &course));
    let waits = wait.as_ref().map(|wait| words::waiting(wait, &end));
    let delete: Vec<String> = stuck
        .iter()
        .map(|_| wait.as_ref().map_or_else(String::new, |it| it.pod.clone()))
        .collect();
    let mut notes: Vec<String> = stuck.into_iter().collect();
    notes.extend(words::notes(&end, &spec, &course));
    let rollout = match course.rollout_status() {
        Ok(status) => status.message,
        Err(error) => error.to_string(),
    };
    let count = |ready: bool| {
        let pods = start.pods.iter().filter(|pod| !ready || pod.is_ready());
        i64::try_from(pods.count()).unwrap_or(i64::MAX)
    };
    let meta = &end.set.metadata;
    Answer {
        schema_version: 1,
        kind: "StatefulSet",
        namespace: meta.namespace.to_string(),
        name: meta.name.to_string(),
        now: server.now().wall().to_string(),
        state: match (&waits, delete.is_empty()) {
            _ if failure.is_some() => "failing",
            (None, _) => "settled",
            (Some(_), true) => "waiting",
            (Some(_), false) => "stuck",
        },
        pod_management: match spec.is_parallel {
            true => "Parallel",
            false => "OrderedReady",
        },
        strategy: words::strategy(&end.set),
        partition: course.partition.unwrap_or(0),
        replicas: course.replicas,
        pods: count(false),
        ready: count(true),
        current_revision: course.current_revision,
        update_revision: course.update_revision,
        syncs,
        failure,
        waits: waits.into_iter().collect(),
        delete,
        rollout,
        notes,
    }
}

fn spec_of(set: &DynamicObject) -> SetSpec {
    let empty = Map::new();
    let spec = set.fields.get("spec").and_then(Value::as_object);
    SetSpec::read(spec.unwrap_or(&empty))
}

#[cfg(test)]
mod tests;
