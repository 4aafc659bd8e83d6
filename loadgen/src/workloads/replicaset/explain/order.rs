//! Computes which pods a ReplicaSet deletes to reach the desired number. The deletions are applied
//! to the controller's own cache, sync by sync, each limited by the burst.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Error, Result};
use podstorm::cache::Delta;
use podstorm::ranking::{
    DELETION_COST_ANNOTATION, OrderSegment, RankOptions, Rule, SegmentKind, before, deciding_rule,
    order_segments,
};
use podstorm::replicaset::{ControllerOptions, Ranked};
use podstorm_objects::{Kind, Labels, Now, Pod, ReplicaSet};
use serde::Serialize;

use super::Objects;

/// A ReplicaSet and its desired number of pods.
#[derive(Clone, Debug)]
pub struct Question {
    /// The object in the input; a ReplicationController in the form that the controller sees.
    pub object: Arc<ReplicaSet>,
    /// The desired number of pods; `None` for the number in the object.
    pub replicas: Option<i32>,
    /// The options of the controller: its kind, gates, burst and behaviour.
    pub options: ControllerOptions,
    /// The time at which the pods are ranked.
    pub now: Now,
}

/// The order of the pods, and which of them are deleted.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The object, with the desired number of pods of the question.
    pub object: Arc<ReplicaSet>,
    /// The object's kind.
    pub kind: Kind,
    /// `spec.replicas` in the input.
    pub replicas_before: i32,
    /// The time at which the pods are ranked.
    pub now: Now,
    /// Every active pod, in the order of deletion.
    pub rows: Vec<Row>,
    /// The number of pods that are deleted.
    pub to_delete: usize,
    /// The number of syncs that delete them.
    pub syncs: u32,
    /// Whether the last sync deletes all remaining pods, and therefore ranks none.
    pub unranked: bool,
    /// The segments of the order, each with the certainty of the order inside it.
    pub segments: Vec<OrderSegment>,
    /// The pods among which the choice of those to delete is undefined; `None` if the choice is
    /// defined.
    pub open: Option<Open>,
    /// The number of pods that are released because the selector does not match them.
    pub released: usize,
    /// The number of owned pods that have ended or are terminating, and so are no longer replicas.
    pub inactive: usize,
    /// The number of active pods without a UID.
    pub without_uid: usize,
}

/// A pod in the order.
#[derive(Clone, Debug)]
pub struct Row {
    /// The pod and its ranking fields.
    pub ranked: Ranked,
    /// The sync that deletes the pod, counted from 1; 0 if the pod is kept.
    pub sync: u32,
    /// The reason why the pod is before the next one; `None` for the last.
    pub before_next: Option<Reason>,
}

/// Adjacent pods of which some are deleted and some are kept, by an undefined choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The places of the pods.
    pub range: Range<usize>,
    /// Why the choice among them is undefined.
    pub why: OpenReason,
}

/// Why a choice among pods is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenReason {
    /// No rule distinguishes the pods.
    Tie,
    /// The rules contradict each other for these pods.
    Contradiction,
    /// The choice of an earlier sync was undefined, and it affects the counts by node that later
    /// syncs rank by.
    EarlierSync,
}

/// The reason why a pod is before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This rule decides.
    Rule(Rule),
    /// An earlier sync deletes the pod and then reaches its burst limit.
    EarlierSync,
    /// There is no reason: no rule distinguishes the two pods.
    Tie,
    /// There is no reason: this rule puts the next pod first, but other pods reverse the order.
    Against(Rule),
}

/// Whether a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// The pod is deleted in any correct order.
    Deleted,
    /// The pod is deleted here; upstream may choose another pod in its place.
    DeletedOrKept,
    /// The pod is kept here; upstream may delete it.
    KeptOrDeleted,
    /// The pod is kept in any correct order.
    Kept,
}

impl Outcome {
    /// Returns the fate of the pod at a place, counted from 0.
    pub fn fate(&self, place: usize) -> Fate {
        let is_open = |open: &Open| open.range.contains(&place);
        match (
            place < self.to_delete,
            self.open.as_ref().is_some_and(is_open),
        ) {
            (true, false) => Fate::Deleted,
            (true, true) => Fate::DeletedOrKept,
            (false, true) => Fate::KeptOrDeleted,
            (false, false) => Fate::Kept,
        }
    }

    /// Returns the desired number of pods.
    pub fn replicas(&self) -> i32 {
        self.object.replicas()
    }

    /// Reports whether the age of any pod puts it before the next one.
    pub fn ages_matter(&self) -> bool {
        let by_age = |rule: Rule| matches!(rule.number(), 6 | 8);
        self.rows.iter().any(|row| match row.before_next {
            Some(Reason::Rule(rule) | Reason::Against(rule)) => by_age(rule),
            _ => false,
        })
    }
}

/// Ranks the pods and performs the deletions in the cache, sync by sync. `costs` sets the deletion
/// costs of the pods with these names in the object's namespace.
///
/// O(n log n) in the input, plus O(n) per sync.
///
/// # Errors
/// The object's selector can't be compiled.
pub fn outcome(objects: &Objects, question: &Question, costs: &[(String, i32)]) -> Result<Outcome> {
    let mut object = ReplicaSet::clone(&question.object);
    let replicas_before = object.replicas();
    if let Some(replicas) = question.replicas {
        object.spec.replicas = Some(replicas);
    }
    let object = Arc::new(object);
    let pods = with_costs(&objects.pods, &object, costs);
    let controller = objects.controller(question.options.clone(), &object, pods);
    let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
    let owner = controller
        .owners()
        .get_named(namespace, name)
        .expect("the cache has the object that was added");

    let mut rows: Vec<Row> = Vec::new();
    let (mut sync, mut released, mut to_delete) = (0, 0, 0);
    // Whether an undefined choice of one sync affects the following syncs.
    let mut carried = false;
    let (options, unranked) = loop {
        let order = controller
            .deletion_order(&owner, question.now)
            .map_err(Error::msg)?;
        released = released.max(order.released);
        let surplus = order.pods.len() as i64 - i64::from(object.replicas());
        let is_last = order.to_delete as i64 >= surplus || order.to_delete == 0;
        sync += u32::from(order.to_delete > 0);
        carried |= !is_last && !order.is_only_choice && order.pods.iter().any(|pod| pod.rank > 0);
        let unranked = order.to_delete > 0 && order.to_delete == order.pods.len();
        for (place, ranked) in order.pods.into_iter().enumerate() {
            let goes = place < order.to_delete;
            if !goes && !is_last {
                break;
            }
            if goes && !is_last {
                let mut pod = Pod::clone(&ranked.pod);
                pod.metadata.deletion_timestamp = question.now.wall();
                controller.pods().apply(Delta::Applied(Arc::new(pod)));
            }
            to_delete += usize::from(goes);
            rows.push(Row {
                ranked,
                sync: if goes { sync } else { 0 },
                before_next: None,
            });
        }
        if is_last {
            break (order.options, unranked);
        }
    };
    say_reasons(&mut rows, &options);
    let candidates: Vec<_> = rows.iter().map(|row| row.ranked.candidate()).collect();
    let segments = order_segments(&candidates, &options);
    let open = match carried {
        true => open_after_sync(&rows, to_delete),
        false => open_segment(&segments, to_delete),
    };
    let without_uid = |row: &&Row| row.ranked.pod.metadata.uid.is_empty();
    Ok(Outcome {
        without_uid: rows.iter().filter(without_uid).count(),
        inactive: inactive(objects, &object),
        kind: question.options.kind,
        now: question.now,
        syncs: sync,
        object,
        replicas_before,
        rows,
        to_delete,
        unranked,
        segments,
        open,
        released,
    })
}

/// Returns the undefined segment that contains the boundary; `None` if there is none.
fn open_segment(segments: &[OrderSegment], to_delete: usize) -> Option<Open> {
    let is_cut =
        |segment: &&OrderSegment| segment.range.start < to_delete && to_delete < segment.range.end;
    let segment = segments.iter().find(is_cut)?;
    Some(Open {
        range: segment.range.clone(),
        why: match segment.kind {
            SegmentKind::Contradictory => OpenReason::Contradiction,
            _ => OpenReason::Tie,
        },
    })
}

/// Returns the pods around the boundary that are equal by rules 1 to 4; `None` if there are none.
/// The later rules depend on the counts by node, which depend on the choices of earlier syncs.
fn open_after_sync(rows: &[Row], to_delete: usize) -> Option<Open> {
    let key = |row: &Row| {
        let fields = &row.ranked.fields;
        (
            fields.is_scheduled(),
            fields.phase_ordinal(),
            fields.is_ready(),
            fields.deletion_cost(),
        )
    };
    let last = key(rows.get(to_delete.checked_sub(1)?)?);
    let start = rows.partition_point(|row| key(row) < last);
    let end = rows.partition_point(|row| key(row) <= last);
    (to_delete < end).then_some(Open {
        range: start..end,
        why: OpenReason::EarlierSync,
    })
}

fn say_reasons(rows: &mut [Row], options: &RankOptions) {
    for at in 1..rows.len() {
        let (first, next) = (&rows[at - 1], &rows[at]);
        let (a, b) = (first.ranked.candidate(), next.ranked.candidate());
        let reason = if first.sync > 0 && next.sync != first.sync && next.sync > 0 {
            Reason::EarlierSync
        } else {
            match deciding_rule(a, b, options) {
                None => Reason::Tie,
                Some(rule) if before(a, b, options) => Reason::Rule(rule),
                Some(rule) => Reason::Against(rule),
            }
        };
        rows[at - 1].before_next = Some(reason);
    }
}

fn with_costs(pods: &[Arc<Pod>], object: &ReplicaSet, costs: &[(String, i32)]) -> Vec<Arc<Pod>> {
    let mut pods = pods.to_vec();
    let namespace = &*object.metadata.namespace;
    for (name, cost) in costs {
        // The pods are sorted by namespace and name.
        let found = pods.binary_search_by(|pod| {
            let meta = &pod.metadata;
            (&*meta.namespace, &*meta.name).cmp(&(namespace, name.as_str()))
        });
        let at = found.expect("costs refer to pods of the input");
        let mut pod = Pod::clone(&pods[at]);
        let annotations: Labels = pod.metadata.annotations;
        pod.metadata.annotations = annotations.with(DELETION_COST_ANNOTATION, &cost.to_string());
        pods[at] = Arc::new(pod);
    }
    pods
}

fn inactive(objects: &Objects, object: &ReplicaSet) -> usize {
    let uid = &object.metadata.uid;
    let pods = objects.pods.iter();
    pods.filter(|pod| {
        let owner = pod.metadata.controller();
        !pod.is_active() && owner.is_some_and(|owner| owner.uid == *uid)
    })
    .count()
}
