//! The scenarios. Each begins in an empty namespace. Every step except the last ends with
//! [`settle`](Play::settle), which the player adds there.

use serde_json::json;

use super::play::Play;
use super::steps::{
    adopts, allowed_later, an_orphan_comes_later, asks_for_more_seconds, asks_for_no_seconds,
    available_later, by_scale, deletes, deletes_one_of_two, grows_beside_a_finished_pod,
    grows_where_images_are_missing, grows_while_deleted, grows_with_seconds,
    leaves_a_finished_orphan, leaves_an_owned_pod, leaves_other_labels, memory, mended, moves_over,
    readopts, readopts_by_another, refused, relabels_an_orphan, relabels_beside,
    relabels_the_owner, relabels_the_template, releases, releases_then_shrinks,
    releases_without_label, replaces, replaces_an_evicted_pod, replaces_ended, replaces_the_owner,
    shrinks_below_the_quota, takes_back, the_quota_is_lifted, unready_pods_go_first, up,
    up_to_quota, waits_for_a_finalizer,
};

/// The kind of owner in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    ReplicaSet,
    ReplicationController,
}

/// A scenario, played in a namespace of its own.
pub(super) struct Scenario {
    /// The group, the kind of owner, and the subject.
    pub(super) name: String,
    pub(super) owner: Owner,
    pub(super) play: fn(&mut Play<'_>),
}

/// Whether a scenario is also played with ReplicationControllers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    ReplicaSets,
    Both,
}
use With::{Both, ReplicaSets};

type Row = (&'static str, With, fn(&mut Play<'_>));

/// The scenarios by group.
const GROUPS: [(&str, &[Row]); 12] = [
    (
        "scale up",
        &[
            ("from nothing to one", ReplicaSets, |play| up(play, &[0, 1])),
            ("from one to sixty", Both, |play| up(play, &[1, 60])),
            ("in steps", ReplicaSets, |play| up(play, &[2, 4, 8, 16])),
            ("by the scale", ReplicaSets, |play| by_scale(play, 2, 9)),
            (
                "with a finished pod",
                ReplicaSets,
                grows_beside_a_finished_pod,
            ),
            (
                "pods that never start",
                ReplicaSets,
                grows_where_images_are_missing,
            ),
        ],
    ),
    (
        "scale down",
        &[
            ("to nothing", Both, |play| up(play, &[10, 0])),
            ("from sixty to five", ReplicaSets, |play| up(play, &[60, 5])),
            ("in steps", ReplicaSets, |play| up(play, &[16, 8, 4, 2])),
            ("by the scale", Both, |play| by_scale(play, 9, 2)),
            ("unready pods go first", ReplicaSets, unready_pods_go_first),
            ("down and up", ReplicaSets, |play| up(play, &[7, 2, 7])),
        ],
    ),
    (
        "adoption",
        &[
            ("one orphan of three", Both, |play| adopts(play, 1, 3)),
            ("as many as wanted", ReplicaSets, |play| adopts(play, 3, 3)),
            ("more than wanted", Both, |play| adopts(play, 5, 3)),
            (
                "a finished orphan is left",
                ReplicaSets,
                leaves_a_finished_orphan,
            ),
            (
                "an orphan of other labels is left",
                ReplicaSets,
                leaves_other_labels,
            ),
            (
                "a pod of another owner is left",
                ReplicaSets,
                leaves_an_owned_pod,
            ),
            ("an orphan comes later", ReplicaSets, an_orphan_comes_later),
        ],
    ),
    (
        "release",
        &[
            ("one pod", Both, |play| releases(play, 1)),
            ("all pods", ReplicaSets, |play| releases(play, 4)),
            (
                "a pod without the label",
                ReplicaSets,
                releases_without_label,
            ),
            ("released and taken back", Both, takes_back),
            (
                "released while it shrinks",
                ReplicaSets,
                releases_then_shrinks,
            ),
        ],
    ),
    (
        "orphaning and re-adoption",
        &[
            ("as many", Both, |play| readopts(play, 4, 4)),
            ("more are wanted", ReplicaSets, |play| readopts(play, 2, 6)),
            ("fewer are wanted", ReplicaSets, |play| readopts(play, 6, 2)),
            ("none is wanted", ReplicaSets, |play| readopts(play, 3, 0)),
            ("by one of another name", ReplicaSets, readopts_by_another),
        ],
    ),
    (
        "foreground deletion",
        &[
            ("of three", Both, |play| deletes(play, 3, "Foreground")),
            ("of forty", ReplicaSets, |play| {
                deletes(play, 40, "Foreground")
            }),
            ("of none", ReplicaSets, |play| {
                deletes(play, 0, "Foreground")
            }),
            ("waits for a finalizer", Both, waits_for_a_finalizer),
            (
                "of an owner that is grown meanwhile",
                ReplicaSets,
                grows_while_deleted,
            ),
        ],
    ),
    (
        "background deletion",
        &[
            ("of three", Both, |play| deletes(play, 3, "Background")),
            ("of forty", ReplicaSets, |play| {
                deletes(play, 40, "Background")
            }),
            ("of none", ReplicaSets, |play| {
                deletes(play, 0, "Background")
            }),
            ("of one of two", ReplicaSets, deletes_one_of_two),
        ],
    ),
    (
        "recreate",
        &[
            ("a deleted pod", Both, |play| replaces(play, 1)),
            ("all pods", ReplicaSets, |play| replaces(play, 5)),
            ("a failed pod", ReplicaSets, |play| {
                replaces_ended(play, "Failed")
            }),
            ("a pod that succeeded", ReplicaSets, |play| {
                replaces_ended(play, "Succeeded")
            }),
            ("an evicted pod", ReplicaSets, replaces_an_evicted_pod),
            ("the owner itself", ReplicaSets, replaces_the_owner),
        ],
    ),
    (
        "quota",
        &[
            ("fewer than wanted", Both, |play| up_to_quota(play, 3, 5)),
            ("none", ReplicaSets, |play| up_to_quota(play, 0, 4)),
            ("enough", ReplicaSets, |play| up_to_quota(play, 9, 4)),
            ("below it again", ReplicaSets, shrinks_below_the_quota),
            ("is lifted", ReplicaSets, the_quota_is_lifted),
        ],
    ),
    (
        "failing creates",
        &[
            ("too much memory", Both, |play| refused(play, memory("2Gi"))),
            ("too little memory", ReplicaSets, |play| {
                refused(play, memory("1Mi"))
            }),
            ("an unknown priority", ReplicaSets, |play| {
                refused(play, json!({"priorityClassName": "missing"}));
            }),
            ("until the template is mended", ReplicaSets, mended),
            ("until the limit is lifted", ReplicaSets, allowed_later),
        ],
    ),
    (
        "relabelling",
        &[
            ("the owner", Both, relabels_the_owner),
            ("the template", ReplicaSets, relabels_the_template),
            (
                "an own pod, beside the selector",
                ReplicaSets,
                relabels_beside,
            ),
            ("from one owner to another", ReplicaSets, moves_over),
            (
                "an orphan into the selector",
                ReplicaSets,
                relabels_an_orphan,
            ),
        ],
    ),
    (
        "minReadySeconds",
        &[
            ("from the start", Both, |play| available_later(play, 4)),
            ("of one", ReplicaSets, |play| available_later(play, 1)),
            ("set later", ReplicaSets, asks_for_more_seconds),
            ("taken away", ReplicaSets, asks_for_no_seconds),
            ("when it grows", ReplicaSets, grows_with_seconds),
        ],
    ),
];

/// Returns every scenario.
pub(super) fn all() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (group, rows) in GROUPS {
        for (what, with, play) in rows {
            let owners = match with {
                With::ReplicaSets => &[Owner::ReplicaSet][..],
                With::Both => &[Owner::ReplicaSet, Owner::ReplicationController],
            };
            for owner in owners {
                let short = match owner {
                    Owner::ReplicaSet => "rs",
                    Owner::ReplicationController => "rc",
                };
                scenarios.push(Scenario {
                    name: format!("{group}, {short}: {what}"),
                    owner: *owner,
                    play: *play,
                });
            }
        }
    }
    scenarios
}
