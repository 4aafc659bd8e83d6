//! Deletion: graceful for pods, held up by finalizers for all, with the propagation policies.

use std::sync::Arc;

use podstorm::client::{ApiError, Cause, Reason};
use podstorm::object::{Kind, Now, ObjectMeta, ResourceVersion, Str, Time, Uid};

use super::counts::{Tally, Verb};
use super::store::Commit;
use super::{Cluster, ClusterResource, DefaultPolicy, errors, meta};

/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They lose their reference before the object goes.
    Orphan,
    /// The object goes at once, they are collected later.
    Background,
    /// They go first, those that block the deletion at least.
    Foreground,
}

impl Propagation {
    /// The text in `propagationPolicy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
    }
}

/// How to delete; the default is what an empty body means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds for the object to end by itself; 0 is at once, negative is taken as 1.
    pub grace_period_seconds: Option<i64>,
    /// What becomes of the dependents.
    pub propagation: Option<Propagation>,
    /// The UID that the object must have.
    pub precondition_uid: Option<Uid>,
    /// The version that the object must have.
    pub precondition_rv: Option<ResourceVersion>,
    /// The older form of `propagation`: true is `Orphan`.
    pub orphan_dependents: Option<bool>,
}

/// What became of a deletion.
#[derive(Clone, Debug)]
pub struct Deletion<R> {
    /// The object as stored, or as it was last.
    pub object: Arc<R>,
    /// Whether it is gone; if not, its deletion has begun.
    pub removed: bool,
}

/// What a deletion does to the stored object.
enum Step<R> {
    /// Nothing more than was begun before.
    Pending,
    /// Stores this, with the deletion begun.
    Mark(R),
    /// Stores this, where it differs, and removes it.
    Remove(Option<R>),
}

impl Cluster {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// 404; 409 for a failed precondition; 422 when both ways to name a policy are used.
    pub fn delete<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        now: Now,
    ) -> Result<Deletion<R>, ApiError> {
        check_options(options)?;
        let store = R::store(self);
        let key = store.key(namespace, name);
        let tally = Tally::of(Verb::Delete);
        loop {
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(R::KIND, name));
            };
            check_preconditions(R::KIND, old.metadata(), options)?;
            match plan(&*old, options, now) {
                Step::Pending => {
                    return Ok(Deletion {
                        object: old,
                        removed: false,
                    });
                }
                Step::Mark(new) => {
                    if let Commit::Done(new) = store.replace(&key, &old, Arc::new(new), &tally, now)
                    {
                        self.note(Some(&*old), Some(&*new));
                        return Ok(Deletion {
                            object: new,
                            removed: false,
                        });
                    }
                }
                Step::Remove(marked) => {
                    let last = Arc::new(marked.as_ref().unwrap_or(&old).clone());
                    let marked = marked.map(Arc::new);
                    if let Commit::Done(last) = store.remove(&key, &old, marked, last, &tally, now)
                    {
                        self.note(Some(&*old), None);
                        return Ok(Deletion {
                            object: last,
                            removed: true,
                        });
                    }
                }
            }
        }
    }
}

fn check_options(options: &DeleteOptions) -> Result<(), ApiError> {
    let (Some(policy), Some(_)) = (options.propagation, options.orphan_dependents) else {
        return Ok(());
    };
    let policy = policy.as_str();
    let detail = "orphanDependents and deletionPropagation cannot be both set";
    let cause: Cause = errors::invalid_value("propagationPolicy", &policy.into(), detail);
    let message = format!(
        "DeleteOptions.meta.k8s.io \"\" is invalid: {}: {}",
        cause.field, cause.message
    );
    let mut error = ApiError::status(422, Reason::Invalid, message);
    error.causes.push(cause);
    Err(error)
}

fn check_preconditions(
    kind: Kind,
    metadata: &ObjectMeta,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let resource = kind.group_resource();
    if let Some(uid) = options
        .precondition_uid
        .as_ref()
        .filter(|uid| **uid != metadata.uid)
    {
        return Err(errors::uid_mismatch(
            resource,
            &metadata.name,
            uid,
            &metadata.uid,
        ));
    }
    let version = &metadata.resource_version;
    if let Some(wanted) = options
        .precondition_rv
        .as_ref()
        .filter(|wanted| *wanted != version)
    {
        return Err(errors::version_mismatch(
            resource,
            &metadata.name,
            wanted,
            version,
        ));
    }
    Ok(())
}

/// Decides what the deletion does now.
fn plan<R: ClusterResource>(old: &R, options: &DeleteOptions, now: Now) -> Step<R> {
    let metadata = old.metadata();
    let graceful = match grace(old, options, now) {
        Grace::Pending => return Step::Pending,
        Grace::None => None,
        Grace::Until { deadline, seconds } => Some((deadline, seconds)),
    };
    let finalizers = wanted_finalizers::<R>(metadata, options);
    let held = !finalizers
        .as_deref()
        .unwrap_or(metadata.finalizers())
        .is_empty();
    if graceful.is_none() && finalizers.is_none() && !held {
        return Step::Remove(None);
    }
    let mut new = old.clone();
    let changed = new.metadata_mut();
    if let Some(finalizers) = finalizers {
        changed.finalizers = (!finalizers.is_empty()).then(|| finalizers.into());
    }
    let begins = !metadata.is_deleting();
    match graceful {
        Some((deadline, seconds)) => {
            changed.deletion_timestamp = deadline;
            changed.deletion_grace_period_seconds = Some(seconds);
        }
        None if held => {
            if begins || metadata.deletion_timestamp > now.wall() {
                changed.deletion_timestamp = now.wall();
            }
            changed.deletion_grace_period_seconds = Some(0);
        }
        None => {}
    }
    if begins && changed.is_deleting() && changed.generation > 0 {
        changed.generation += 1;
    }
    if !held && graceful.is_none_or(|(_, seconds)| seconds == 0) {
        return Step::Remove(Some(new));
    }
    if new == *old {
        Step::Pending
    } else {
        Step::Mark(new)
    }
}

/// What is left of an object's grace.
enum Grace {
    /// The kind knows none, or it is over.
    None,
    /// It runs already and this request does not shorten it.
    Pending,
    /// It begins or is shortened: the new deadline and the whole period.
    Until { deadline: Time, seconds: i64 },
}

fn grace<R: ClusterResource>(old: &R, options: &DeleteOptions, now: Now) -> Grace {
    let requested = options
        .grace_period_seconds
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(first) = old.grace_period_seconds(requested) else {
        return Grace::None;
    };
    let metadata = old.metadata();
    let Some(deadline) = metadata.deletion_timestamp.unix_seconds() else {
        let deadline = now.plus_ns(first.saturating_mul(1_000_000_000)).wall();
        return Grace::Until {
            deadline,
            seconds: first,
        };
    };
    let running = metadata.deletion_grace_period_seconds.unwrap_or(0);
    if running == 0 {
        return Grace::None;
    }
    let Some(mut seconds) = requested.filter(|&seconds| seconds < running) else {
        return Grace::Pending;
    };
    let mut deadline = Time::from_unix_seconds(deadline - running + seconds);
    if deadline.unix_nanos() < Some(now.wall_ns) {
        // The shorter grace is over already: the deadline is now, never in the past.
        deadline = now.wall();
        seconds = seconds.min(1);
    }
    Grace::Until { deadline, seconds }
}

/// The finalizers that the object gets for its dependents' sake; `None` when it has them already.
fn wanted_finalizers<R: ClusterResource>(
    metadata: &ObjectMeta,
    options: &DeleteOptions,
) -> Option<Vec<Str>> {
    let wanted = match policy::<R>(metadata, options) {
        Propagation::Orphan => Some(meta::ORPHAN),
        Propagation::Foreground => Some(meta::FOREGROUND),
        Propagation::Background => None,
    };
    let own = |finalizer: &str| finalizer == meta::ORPHAN || finalizer == meta::FOREGROUND;
    let present: Vec<&str> = metadata
        .finalizers()
        .iter()
        .map(|finalizer| &**finalizer)
        .filter(|f| own(f))
        .collect();
    if present.as_slice() == wanted.as_slice() {
        return None;
    }
    let others = metadata
        .finalizers()
        .iter()
        .filter(|finalizer| !own(finalizer))
        .cloned();
    Some(others.chain(wanted.map(Str::from)).collect())
}

/// The policy in force: the request's, else what the object's finalizers say, else the kind's.
fn policy<R: ClusterResource>(metadata: &ObjectMeta, options: &DeleteOptions) -> Propagation {
    match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Propagation::Orphan,
        (Some(false), _) => Propagation::Background,
        (None, Some(policy)) => policy,
        (None, None) => {
            let held = |finalizer| meta::has_finalizer(metadata, finalizer);
            match R::DEFAULT_POLICY {
                _ if held(meta::ORPHAN) => Propagation::Orphan,
                _ if held(meta::FOREGROUND) => Propagation::Foreground,
                DefaultPolicy::Orphan => Propagation::Orphan,
                DefaultPolicy::Background => Propagation::Background,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use podstorm::object::{Pod, PodPhase, ReplicaSet, ReplicationController, Resource};
    use serde_json::{Value, json};

    use super::super::testing::*;
    use super::*;

    fn grace(seconds: i64) -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: Some(seconds),
            ..DeleteOptions::default()
        }
    }

    /// Deadline in seconds since the beginning, grace, generation.
    fn deletion(metadata: &ObjectMeta) -> (Option<i64>, Option<i64>, i64) {
        let deadline = metadata
            .deletion_timestamp
            .unix_seconds()
            .map(|at| at - EPOCH);
        (
            deadline,
            metadata.deletion_grace_period_seconds,
            metadata.generation,
        )
    }

    #[test]
    fn a_first_deletion_takes_the_first_grace_that_is_given() {
        struct Case {
            asked: Option<i64>,
            spec: Option<i64>,
            bound: bool,
            phase: PodPhase,
            wanted: i64,
        }
        let case = |asked, spec, wanted| Case {
            asked,
            spec,
            bound: true,
            phase: PodPhase::Running,
            wanted,
        };
        let table = [
            case(Some(5), Some(60), 5),
            case(None, Some(60), 60),
            case(None, None, 30),
            case(None, Some(0), 0),
            case(Some(-7), None, 1),
            case(Some(0), None, 0),
            Case {
                bound: false,
                ..case(Some(5), None, 0)
            },
            Case {
                phase: PodPhase::Succeeded,
                ..case(Some(5), None, 0)
            },
            Case {
                phase: PodPhase::Failed,
                ..case(None, None, 0)
            },
            Case {
                phase: PodPhase::Unknown,
                ..case(Some(5), None, 5)
            },
        ];
        for (number, case) in table.into_iter().enumerate() {
            let cluster = cluster();
            let seconds = case.spec.map_or(Value::Null, Value::from);
            let patch = json!({"spec": {"terminationGracePeriodSeconds": seconds}});
            let pod = match case.bound {
                true => bound_pod(&cluster, "a", patch),
                false => cluster.create(pod("a", patch), at(0)).unwrap(),
            };
            set_phase(&cluster, &pod, case.phase);
            let before = cluster.resource_version();
            let mut watch = watch::<Pod>(&cluster);
            let options = DeleteOptions {
                grace_period_seconds: case.asked,
                ..DeleteOptions::default()
            };
            let answer = cluster
                .delete::<Pod>("default", "a", &options, at(10))
                .unwrap();
            let wanted = (Some(10 + case.wanted), Some(case.wanted), 2);
            assert_eq!(deletion(&answer.object.metadata), wanted, "case {number}");
            assert_eq!(answer.removed, case.wanted == 0, "case {number}");
            let mut events = vec![format!("MODIFIED a {}", before + 1)];
            if case.wanted == 0 {
                events.push(format!("DELETED a {}", before + 2));
            }
            assert_eq!(drain(&mut watch), events, "case {number}");
        }
    }

    #[test]
    fn a_repeated_deletion_only_ever_shortens_the_grace() {
        // First grace at 0, repeat at `now`: asked, then deadline and grace, or gone.
        let table: &[(i64, i64, Option<i64>, Option<(i64, i64)>)] = &[
            (30, 5, Some(30), Some((30, 30))),
            (30, 5, Some(60), Some((30, 30))),
            (30, 5, None, Some((30, 30))),
            (30, 5, Some(10), Some((10, 10))),
            (30, 20, Some(10), Some((20, 1))),
            (30, 20, Some(-3), Some((20, 1))),
            (30, 0, Some(-3), Some((1, 1))),
            (30, 20, Some(0), None),
            (1, 20, Some(1), Some((1, 1))),
        ];
        for &(first, now, asked, wanted) in table {
            let cluster = cluster();
            bound_pod(&cluster, "a", json!({}));
            cluster
                .delete::<Pod>("default", "a", &grace(first), at(0))
                .unwrap();
            let before = cluster.resource_version();
            let mut watch = watch::<Pod>(&cluster);
            let options = DeleteOptions {
                grace_period_seconds: asked,
                ..DeleteOptions::default()
            };
            let answer = cluster
                .delete::<Pod>("default", "a", &options, at(now))
                .unwrap();
            assert_eq!(answer.removed, wanted.is_none());
            let events = drain(&mut watch);
            match wanted {
                Some((deadline, seconds)) => {
                    let metadata = &answer.object.metadata;
                    assert_eq!(deletion(metadata), (Some(deadline), Some(seconds), 2));
                    let changed = seconds != first;
                    assert_eq!(events.len(), usize::from(changed), "{asked:?} at {now}");
                    assert_eq!(cluster.resource_version(), before + u64::from(changed));
                }
                None => {
                    let wanted = [
                        format!("MODIFIED a {}", before + 1),
                        format!("DELETED a {}", before + 2),
                    ];
                    assert_eq!(events, wanted);
                    assert_eq!(deletion(&answer.object.metadata), (Some(now), Some(0), 2));
                }
            }
        }
    }

    #[test]
    fn finalizers_hold_a_pod_until_the_last_is_taken_away() {
        let cluster = cluster();
        bound_pod(
            &cluster,
            "a",
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
        );
        let mut watch = watch::<Pod>(&cluster);
        let before = cluster.resource_version();
        let marked = cluster
            .delete::<Pod>("default", "a", &grace(0), at(1))
            .unwrap();
        assert!(!marked.removed);
        assert_eq!(deletion(&marked.object.metadata), (Some(1), Some(0), 2));
        // Again: nothing new.
        assert!(
            !cluster
                .delete::<Pod>("default", "a", &grace(0), at(2))
                .unwrap()
                .removed
        );
        let mut pod = Pod::clone(&marked.object);
        pod.metadata.finalizers = None;
        cluster.update(pod, at(3)).unwrap();
        assert_eq!(
            drain(&mut watch),
            [
                format!("MODIFIED a {}", before + 1),
                format!("DELETED a {}", before + 2)
            ]
        );
        assert_eq!(refused(cluster.get::<Pod>("default", "a")), "404 NotFound");
    }

    #[test]
    fn a_pod_past_its_grace_and_without_finalizers_goes_at_once() {
        let cluster = cluster();
        bound_pod(
            &cluster,
            "a",
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
        );
        // Finalizer goes while the grace still runs: the pod stays.
        let marked = cluster
            .delete::<Pod>("default", "a", &grace(30), at(0))
            .unwrap();
        let mut pod = Pod::clone(&marked.object);
        pod.metadata.finalizers = None;
        cluster.update(pod, at(1)).unwrap();
        assert!(cluster.get::<Pod>("default", "a").is_ok());
        assert!(
            cluster
                .delete::<Pod>("default", "a", &grace(0), at(2))
                .unwrap()
                .removed
        );
    }

    #[test]
    fn preconditions_come_first() {
        let cluster = cluster();
        let pod = bound_pod(&cluster, "a", json!({}));
        let uid = DeleteOptions {
            precondition_uid: Some("x".into()),
            ..DeleteOptions::default()
        };
        let version = DeleteOptions {
            precondition_rv: Some(ResourceVersion::Number(1)),
            ..DeleteOptions::default()
        };
        for options in [uid, version] {
            let result = cluster.delete::<Pod>("default", "a", &options, at(0));
            assert_eq!(refused(result), "409 Conflict");
        }
        let fitting = DeleteOptions {
            precondition_uid: Some(pod.metadata.uid.clone()),
            precondition_rv: Some(pod.metadata.resource_version.clone()),
            ..grace(0)
        };
        assert!(
            cluster
                .delete::<Pod>("default", "a", &fitting, at(0))
                .unwrap()
                .removed
        );
        let missing = cluster.delete::<Pod>("default", "a", &fitting, at(0));
        assert_eq!(refused(missing), "404 NotFound");
    }

    #[test]
    fn the_policy_is_the_requests_then_the_finalizers_then_the_kinds() {
        use Propagation::{Background, Foreground, Orphan};
        let none = DeleteOptions::default();
        let asked = |policy| DeleteOptions {
            propagation: Some(policy),
            ..DeleteOptions::default()
        };
        let older = |orphan| DeleteOptions {
            orphan_dependents: Some(orphan),
            ..DeleteOptions::default()
        };
        // Options, finalizers before, finalizers after (`None`: gone at once), for each kind.
        type Case<'a> = (
            DeleteOptions,
            &'a [&'a str],
            Option<&'a [&'a str]>,
            Option<&'a [&'a str]>,
        );
        let orphan: Option<&[&str]> = Some(&["orphan"]);
        let foreground: Option<&[&str]> = Some(&["foregroundDeletion"]);
        let table: [Case<'_>; 9] = [
            (none.clone(), &[], None, orphan),
            (asked(Background), &[], None, None),
            (asked(Foreground), &[], foreground, foreground),
            (asked(Orphan), &[], orphan, orphan),
            (older(true), &[], orphan, orphan),
            (older(false), &[], None, None),
            (
                none.clone(),
                &["foregroundDeletion"],
                foreground,
                foreground,
            ),
            (asked(Background), &["orphan"], None, None),
            (
                asked(Orphan),
                &["a.b/c"],
                Some(&["a.b/c", "orphan"]),
                Some(&["a.b/c", "orphan"]),
            ),
        ];
        for (number, (options, before, rs, rc)) in table.iter().enumerate() {
            let cluster = cluster();
            let finalizers = json!({"metadata": {"finalizers": before}});
            let set = cluster
                .create(replica_set("a", finalizers.clone()), at(0))
                .unwrap();
            check_policy(&cluster, &*set, options, *rs, number);
            let value = merged(workload("a", json!({"app": "web"})), finalizers);
            let controller: ReplicationController = read(value);
            let controller = cluster.create(controller, at(0)).unwrap();
            check_policy(&cluster, &*controller, options, *rc, number);
        }
        let both = DeleteOptions {
            propagation: Some(Orphan),
            ..older(true)
        };
        let cluster = cluster();
        cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        assert_eq!(
            fields(cluster.delete::<ReplicaSet>("default", "a", &both, at(0))),
            ["propagationPolicy"]
        );
    }

    fn check_policy<R: ClusterResource>(
        cluster: &Cluster,
        object: &R,
        options: &DeleteOptions,
        wanted: Option<&[&str]>,
        number: usize,
    ) {
        let name = &object.metadata().name;
        let answer = cluster
            .delete::<R>("default", name, options, at(4))
            .unwrap();
        let what = format!("{} in case {number}", R::KIND.name());
        assert_eq!(answer.removed, wanted.is_none(), "{what}");
        if let Some(wanted) = wanted {
            let metadata = answer.object.metadata();
            let found: Vec<&str> = metadata.finalizers().iter().map(|f| &**f).collect();
            assert_eq!(found, wanted, "{what}");
            assert_eq!(deletion(metadata), (Some(4), Some(0), 2), "{what}");
        }
    }

    #[test]
    fn the_deleted_event_carries_the_last_state_and_the_version_of_the_deletion() {
        let cluster = cluster();
        cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let mut watch = watch::<ReplicaSet>(&cluster);
        let answer = cluster
            .delete::<ReplicaSet>("default", "a", &DeleteOptions::default(), at(0))
            .unwrap();
        assert_eq!(
            drain(&mut watch),
            [format!("DELETED a {}", cluster.resource_version())]
        );
        let version = answer.object.metadata.resource_version.number();
        assert_eq!(version, Some(cluster.resource_version()));
        assert_eq!(ReplicaSet::KIND, Kind::ReplicaSet);
    }
}
