//! Formats the answer as JSON. The names of the fields are stable: new fields may be added, and
//! [`SCHEMA_VERSION`] is incremented when the meaning of a field changes. `loadgen explain --help`
//! lists the fields.

use podstorm_objects::Time;
use serde::Serialize;
use serde_json::{Value, json};

use super::Answer;
use super::order::{Fate, Outcome, Reason};
use super::table::{commands, rule_name};
use super::words::{phase, reason};
use crate::input::InputCounts;

/// The version of the fields.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole answer as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Document<'a> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `ReplicaSet` or `ReplicationController`.
    pub kind: &'a str,
    /// The object's namespace.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// `spec.replicas` in the input.
    pub replicas_before: i32,
    /// The number of replicas that the question is about.
    pub replicas: i32,
    /// The time for which the pods are ranked, RFC 3339.
    pub now: String,
    /// Whether ages put any pod before its neighbour.
    pub ages_matter: bool,
    /// The number of active pods, which are ranked.
    pub active: usize,
    /// The number of active pods that are deleted.
    pub deleted: usize,
    /// The number of syncs that delete them.
    pub syncs: u32,
    /// The number of owned pods that are released because the selector does not match them.
    pub released: usize,
    /// The number of owned pods that have ended or are terminating.
    pub inactive: usize,
    /// Notes about the input and the ranking.
    pub notes: &'a [String],
    /// The range of pods of which some are deleted and some are kept, without a rule that decides:
    /// the `first` and the `last` place, counted from 1, how many of them are `deleted`, and `why`:
    /// `tie`, `contradiction` or `earlier-sync`. `None` if everything is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Value>,
    /// Every active pod, in the order of deletion.
    pub pods: Vec<PodRow<'a>>,
    /// The result of `--prefer`; `None` without this flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefer: Option<Value>,
    /// The objects taken from the files and those left out, by kind.
    pub input: &'a InputCounts,
}

/// A pod and the eight fields that rank it.
#[derive(Clone, Debug, Serialize)]
pub struct PodRow<'a> {
    /// The pod's place in the order, counted from 1.
    pub place: usize,
    /// The pod's name.
    pub name: &'a str,
    /// The pod's UID.
    pub uid: String,
    /// `deleted`, `deleted-or-kept`, `kept-or-deleted` or `kept`.
    pub fate: Fate,
    /// The sync that deletes the pod, counted from 1; absent if the pod is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<u32>,
    /// Whether the sync adopts the pod first.
    pub adopted: bool,
    /// Field 1: the pod's node; null if it has none.
    pub node: Option<&'a str>,
    /// Field 2: the pod's phase.
    pub phase: String,
    /// Field 3: whether the pod is ready.
    pub ready: bool,
    /// Field 4: the pod's deletion cost.
    pub deletion_cost: i32,
    /// Field 5: the number of active related pods on the pod's node.
    pub related_pods_on_node: u32,
    /// Field 6: since when the pod is ready, RFC 3339; null if it is not ready or the time is
    /// unknown.
    pub ready_since: Option<String>,
    /// Field 7: the maximum number of restarts of a container.
    pub restarts: u32,
    /// Field 7: the maximum number of restarts of a sidecar, which decides if those of containers
    /// are equal.
    pub sidecar_restarts: u32,
    /// Field 8: when the pod was created, RFC 3339; null if unknown.
    pub created: Option<String>,
    /// The rule that puts the pod before the next one; null for the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_next: Option<Value>,
}

/// Converts the answer to its JSON form.
pub fn document(answer: &Answer) -> Document<'_> {
    let outcome = &answer.outcome;
    let meta = &outcome.object.metadata;
    Document {
        schema_version: SCHEMA_VERSION,
        kind: outcome.kind.name(),
        namespace: &meta.namespace,
        name: &meta.name,
        replicas_before: outcome.replicas_before,
        replicas: outcome.replicas(),
        now: outcome.now.wall().to_string(),
        ages_matter: outcome.ages_matter(),
        active: outcome.rows.len(),
        deleted: outcome.to_delete,
        syncs: outcome.syncs,
        released: outcome.released,
        inactive: outcome.inactive,
        notes: &answer.notes,
        undecided: outcome.open.as_ref().map(|open| {
            let deleted = outcome.to_delete - open.range.start;
            let (first, last) = (open.range.start + 1, open.range.end);
            json!({"first": first, "last": last, "deleted": deleted, "why": open.why})
        }),
        pods: (0..outcome.rows.len()).map(|at| pod(outcome, at)).collect(),
        prefer: prefer(answer),
        input: &answer.input,
    }
}

fn pod(outcome: &Outcome, at: usize) -> PodRow<'_> {
    let row = &outcome.rows[at];
    let (pod, fields) = (&row.ranked.pod, &row.ranked.fields);
    let time = |time: Time| (!time.is_unset()).then(|| time.to_string());
    PodRow {
        place: at + 1,
        name: &pod.metadata.name,
        uid: pod.metadata.uid.to_string(),
        fate: outcome.fate(at),
        sync: (row.sync > 0).then_some(row.sync),
        adopted: row.ranked.adopted,
        node: pod.node_name.as_deref().filter(|name| !name.is_empty()),
        phase: phase(&row.ranked),
        ready: fields.is_ready(),
        deletion_cost: fields.deletion_cost(),
        related_pods_on_node: row.ranked.rank,
        ready_since: time(fields.ready_time()),
        restarts: fields.container_restarts(),
        sidecar_restarts: fields.sidecar_restarts(),
        created: time(fields.creation_time()),
        before_next: rule_name(row.before_next).map(|rule| {
            let number = match row.before_next {
                Some(Reason::Rule(rule)) => Some(rule.number()),
                _ => None,
            };
            json!({"number": number, "rule": rule, "words": reason(outcome, at)})
        }),
    }
}

/// Returns the annotations that make preferred pods be deleted first; `None` if no pods are
/// preferred. The value contains how many pods are preferred, by their own labels and by those of
/// their nodes; how many of them are deleted without the annotations and, at least, with them; the
/// annotations, each with the commands that set and undo it; and the preferred pods that are kept
/// anyway, with the reasons.
fn prefer(answer: &Answer) -> Option<Value> {
    let (_, wished, advice) = answer.advice.as_ref()?;
    let name = |place: usize| &*answer.outcome.rows[place].ranked.pod.metadata.name;
    let annotations = advice.costs.iter().zip(commands(answer));
    let annotations = annotations.map(|((place, cost), [command, undo])| {
        json!({"pod": name(*place), "deletion_cost": cost, "command": command, "undo": undo})
    });
    let unreachable = advice.unreachable.iter();
    let unreachable =
        unreachable.map(|(place, reason)| json!({"pod": name(*place), "reason": reason}));
    Some(json!({
        "matched": advice.wished,
        "matched_by_pod_labels": wished.by_pod,
        "matched_by_node_labels": wished.by_node,
        "deleted_before": advice.before,
        "deleted_after": advice.after,
        "annotations": annotations.collect::<Vec<_>>(),
        "unreachable": unreachable.collect::<Vec<_>>(),
    }))
}
