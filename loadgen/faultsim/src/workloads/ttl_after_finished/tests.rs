//! Tests of seeds of Jobs with TTLs: no seed violates an invariant, together they reach many
//! situations, and planted faults are detected. A fault is planted for one thread, because a
//! schedule is played on one thread.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::client::{Answer, Patch, Request};
use podstorm::policy::Behaviour;
use podstorm::ttl_after_finished::TtlAfterFinished;
use podstorm_apiserver::{Change, Commit, CommitObserver as _};
use podstorm_objects::{AnyObject, DynamicObject, Kind, Now, Str};
use podstorm_sim::engine::observer::{Observer as _, Origin, Origins as _, SyncId};
use serde_json::json;

use super::checker::JobJudge;
use crate::campaign::behaviour_of;
use crate::draw::draw;
use crate::invariants::Checker;
use crate::plan::How;
use crate::play::caught;
use crate::simulation::{Beside, Watcher as _};

/// A function that returns the requests that replace a request; `None` keeps it.
type Replace = fn(&Request) -> Option<Vec<Request>>;

thread_local! {
    static PLANTED: Cell<Option<Replace>> = const { Cell::new(None) };
}

pub(super) fn requests(request: &Request) -> Option<Vec<Request>> {
    PLANTED.get().and_then(|replace| replace(request))
}

/// Plays seeds with the fault until the first violation in one is that of the expected invariant.
/// Without the fault, this seed must pass.
#[track_caller]
fn noticed(replace: Replace, expected: &str) {
    PLANTED.set(Some(replace));
    let mut seeds = (1..=200).map(|seed| draw::<TtlAfterFinished>(seed, &[]));
    let found = seeds.find(|schedule| {
        let violation = caught(schedule, Behaviour::Hardened).violation;
        violation.is_some_and(|it| it.invariant == expected)
    });
    PLANTED.set(None);
    let schedule = found.unwrap_or_else(|| panic!("no violation of {expected} in 200 seeds"));
    let healthy = caught(&schedule, Behaviour::Hardened).violation;
    assert_eq!(healthy, None, "seed {}", schedule.seed);
}

/// Returns the kind, namespace and name of the object that a request deletes; `None` for any other
/// request.
fn deleted(request: &Request) -> Option<(Kind, &Str, &str)> {
    match request {
        Request::Delete {
            kind,
            namespace,
            name,
            ..
        } => Some((*kind, namespace, name)),
        _ => None,
    }
}

/// Replaces a deletion with a read, so the Job stays.
fn look_again(request: &Request) -> Option<Vec<Request>> {
    let (kind, namespace, name) = deleted(request)?;
    Some(vec![Request::Get {
        kind,
        namespace: namespace.clone(),
        name: name.into(),
    }])
}

/// Replaces a deletion with a write of the Job.
fn write(request: &Request) -> Option<Vec<Request>> {
    let (kind, namespace, name) = deleted(request)?;
    let members = json!({"metadata": {"annotations": {"written": "yes"}}});
    Some(vec![Request::Patch {
        kind,
        namespace: namespace.clone(),
        name: name.into(),
        patch: Box::new(Patch::Merge(members.as_object()?.clone())),
        of_status: false,
    }])
}

#[test]
fn jobs_that_stay_or_are_written_are_detected() {
    noticed(look_again, "L1");
    noticed(write, "T1");
}

/// Returns the checker's result for the deletion of a Job with this UID. The sync has read a Job
/// with UID `a` that finished at the beginning of 1970 and has a TTL of 60 s.
fn verdict(finished: bool, uid: &str, at_s: i64) -> Option<&'static str> {
    let schedule = draw::<TtlAfterFinished>(1, &[]);
    let how = How::untold(Behaviour::Upstream);
    let jobs = Beside::new(Checker::new(&schedule.cluster, how), JobJudge::new(0));
    let sync = SyncId {
        incarnation: 0,
        kind: Kind::JOB,
        number: 1,
    };
    let status = match finished {
        true => json!({"conditions": [{"type": "Failed", "status": "True",
            "lastTransitionTime": "1970-01-01T00:00:00Z"}]}),
        false => json!({}),
    };
    let job = |uid: &str| {
        let job = json!({"metadata": {"name": "pi", "namespace": "sim", "uid": uid},
            "spec": {"ttlSecondsAfterFinished": 60}, "status": status});
        Arc::new(DynamicObject::from_json(Kind::JOB, job).expect("a Job")) as AnyObject
    };
    let request = Request::ReadVersion { kind: Kind::JOB };
    let now = Now {
        mono_ns: 0,
        wall_ns: at_s * 1_000_000_000,
    };
    jobs.answered(sync, &request, &Answer::Object(job("a")), now);
    jobs.carries_out(Some(Origin {
        sync,
        orphaned: false,
    }));
    jobs.committed(&Commit {
        version: 2,
        change: Change::Deleted,
        old: Some(job(uid)),
        new: job(uid),
        now,
    });
    jobs.checker().verdict().0.violation.map(|it| it.invariant)
}

#[test]
fn unfinished_and_unread_jobs_must_not_be_deleted() {
    assert_eq!(verdict(true, "a", 60), None);
    assert_eq!(verdict(true, "a", 59), Some("T2"));
    assert_eq!(verdict(false, "a", 60), Some("T2"));
    assert_eq!(verdict(true, "b", 60), Some("T1"));
}

#[test]
fn the_first_seeds_break_no_invariant() {
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    for seed in 1..=150 {
        let schedule = draw::<TtlAfterFinished>(seed, &[]);
        let verdict = caught(&schedule, behaviour_of(seed, None));
        seen.extend(verdict.sometimes);
        broken.extend(verdict.violation.map(|it| format!("seed {seed}: {it}")));
    }
    assert_eq!(broken, Vec::<String>::new());
    assert!(seen.contains("a Job is deleted after its TTL"), "{seen:?}");
}
