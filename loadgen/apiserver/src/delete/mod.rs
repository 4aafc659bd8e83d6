//! Deletion: graceful for pods, delayed by finalizers for all kinds, with propagation policies.

use std::sync::Arc;

use podstorm_objects::{
    ApiError, DeleteOptions, Kind, Now, ObjectMeta, OptionalSeconds, Propagation, Str, Time,
};

use crate::store::counts::{Verb, WriteEffects};
use crate::store::{CommitOutcome, KindStore};
use crate::{Cluster, ClusterResource, Strategy, errors, meta};

/// Checks the preconditions of a deletion against an object of the kind.
///
/// # Errors
/// 409 for a different UID or version.
pub(crate) fn check_preconditions(
    options: &DeleteOptions,
    kind: Kind,
    metadata: &ObjectMeta,
) -> Result<(), ApiError> {
    let uid = options.precondition_uid.as_ref();
    if let Some(uid) = uid.filter(|uid| **uid != metadata.uid) {
        let (name, found) = (&metadata.name, &metadata.uid);
        // Namespaces have a separate deletion path, with other messages.
        if kind == Kind::NAMESPACE {
            return Err(errors::uid_mismatch("namespaces", name, uid, found));
        }
        return Err(errors::deletion_uid_mismatch(kind, name, uid, found));
    }
    let version = options.precondition_rv.as_ref();
    if let Some(wanted) = version.filter(|wanted| **wanted != metadata.resource_version) {
        let (name, found) = (&metadata.name, &metadata.resource_version);
        return Err(errors::deletion_version_mismatch(kind, name, wanted, found));
    }
    Ok(())
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub struct Deletion<R: ?Sized> {
    /// The object as stored, or its last state.
    pub object: Arc<R>,
    /// Whether the object was removed. If not, its deletion has begun.
    pub removed: bool,
}

/// The next step of a deletion.
enum DeletionStep<R> {
    /// Do nothing: the deletion began earlier.
    Pending,
    /// Store this object, which marks the beginning of the deletion.
    Mark(R),
    /// Store this object, if there is one, and remove it.
    Remove(Option<R>),
}

impl Cluster {
    /// Deletes an object, or begins its deletion.
    ///
    /// # Errors
    /// 404; 409 for a failed precondition; 422 if both policy fields are set.
    pub fn delete<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        now: Now,
    ) -> Result<Deletion<R>, ApiError> {
        let effects = WriteEffects::for_verb(Verb::Delete);
        self.delete_in(R::store(self), namespace, name, options, effects, now)
    }

    pub(crate) fn delete_in<R: Strategy>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        effects: WriteEffects,
        now: Now,
    ) -> Result<Deletion<R>, ApiError> {
        check_options(options)?;
        let key = store.key(namespace, name);
        loop {
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(store.kind(), name));
            };
            check_preconditions(options, store.kind(), old.metadata())?;
            match plan(&*old, options, now) {
                DeletionStep::Pending => {
                    return Ok(Deletion {
                        object: old,
                        removed: false,
                    });
                }
                DeletionStep::Mark(new) if effects.dry_run => {
                    return Ok(Deletion {
                        object: Arc::new(new),
                        removed: false,
                    });
                }
                DeletionStep::Remove(marked) if effects.dry_run => {
                    return Ok(Deletion {
                        object: marked.map_or(old, Arc::new),
                        removed: true,
                    });
                }
                DeletionStep::Mark(new) => {
                    if let CommitOutcome::Done(new) =
                        store.replace(key.hash, &old, Arc::new(new), &effects, now)
                    {
                        self.notify_gc(store, Some(&*old), Some(&*new), now);
                        return Ok(Deletion {
                            object: new,
                            removed: false,
                        });
                    }
                }
                DeletionStep::Remove(marked) => {
                    let last = Arc::new(marked.as_ref().unwrap_or(&old).clone());
                    let marked = marked.map(Arc::new);
                    if let CommitOutcome::Done(last) =
                        store.remove(key.hash, &old, marked, last, &effects, now)
                    {
                        self.notify_gc(store, Some(&*old), None, now);
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
    let cause = errors::invalid_value("propagationPolicy", &policy.into(), detail);
    let causes = vec![cause];
    Err(errors::invalid_of(
        "DeleteOptions",
        "meta.k8s.io",
        "",
        causes,
    ))
}

/// Decides the next step of a deletion.
fn plan<R: Strategy>(old: &R, options: &DeleteOptions, now: Now) -> DeletionStep<R> {
    let metadata = old.metadata();
    if old.keeps_until_empty() {
        return terminate(old, options, now);
    }
    let graceful = match grace(old, options, now) {
        Grace::Pending => return DeletionStep::Pending,
        Grace::None => None,
        Grace::Until { deadline, seconds } => Some((deadline, seconds)),
    };
    let finalizers = wanted_finalizers(old.kind(), metadata, options);
    let held = !finalizers
        .as_deref()
        .unwrap_or(metadata.finalizers())
        .is_empty();
    if graceful.is_none() && finalizers.is_none() && !held {
        return DeletionStep::Remove(None);
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
            changed.deletion_grace_period_seconds = OptionalSeconds::new(seconds);
        }
        None if held => {
            if begins || metadata.deletion_timestamp > now.wall() {
                changed.deletion_timestamp = now.wall();
            }
            changed.deletion_grace_period_seconds = OptionalSeconds::new(0);
        }
        None => {}
    }
    if begins && changed.is_deleting() && changed.generation > 0 {
        changed.generation += 1;
    }
    if !held && graceful.is_none_or(|(_, seconds)| seconds == 0) {
        return DeletionStep::Remove(Some(new));
    }
    if new == *old {
        DeletionStep::Pending
    } else {
        DeletionStep::Mark(new)
    }
}

/// Begins the deletion of an object that is only removed once it is empty.
fn terminate<R: Strategy>(old: &R, options: &DeleteOptions, now: Now) -> DeletionStep<R> {
    let mut new = old.clone();
    if old.metadata().is_deleting() || !new.begin_termination(now.wall()) {
        return DeletionStep::Pending;
    }
    let metadata = new.metadata_mut();
    metadata.deletion_timestamp = now.wall();
    if let Some(finalizers) = wanted_finalizers(old.kind(), old.metadata(), options) {
        metadata.finalizers = (!finalizers.is_empty()).then(|| finalizers.into());
    }
    DeletionStep::Mark(new)
}

/// The state of an object's grace period.
enum Grace {
    /// The kind has no grace period, or the grace period is over.
    None,
    /// The grace period is running, and the request does not shorten it.
    Pending,
    /// The grace period begins or is shortened: the new deadline, and the total in seconds.
    Until { deadline: Time, seconds: i64 },
}

fn grace<R: Strategy>(old: &R, options: &DeleteOptions, now: Now) -> Grace {
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
    let running = metadata.deletion_grace_period_seconds.get().unwrap_or(0);
    if running == 0 {
        return Grace::None;
    }
    let Some(mut seconds) = requested.filter(|&seconds| seconds < running) else {
        return Grace::Pending;
    };
    let mut deadline = Time::from_unix_seconds(deadline - running + seconds);
    if deadline.unix_nanos() < Some(now.wall_ns) {
        // The shorter period is already over. The deadline is now, and never in the past.
        deadline = now.wall();
        seconds = seconds.min(1);
    }
    Grace::Until { deadline, seconds }
}

/// Returns the object's finalizers with the one that the policy requires; `None` if they don't
/// change.
fn wanted_finalizers(
    kind: Kind,
    metadata: &ObjectMeta,
    options: &DeleteOptions,
) -> Option<Vec<Str>> {
    let wanted = match policy(kind, metadata, options) {
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

/// Returns the effective policy: that of the request, or else that of the object's finalizers, or
/// else the default of the kind.
fn policy(kind: Kind, metadata: &ObjectMeta, options: &DeleteOptions) -> Propagation {
    // Nothing depends on an Event, so upstream ignores the policy.
    if kind == Kind::EVENT {
        return Propagation::Background;
    }
    match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Propagation::Orphan,
        (Some(false), _) => Propagation::Background,
        (None, Some(policy)) => policy,
        (None, None) => {
            let held = |finalizer| meta::has_finalizer(metadata, finalizer);
            match kind.row().orphans_dependents {
                _ if held(meta::ORPHAN) => Propagation::Orphan,
                _ if held(meta::FOREGROUND) => Propagation::Foreground,
                true => Propagation::Orphan,
                false => Propagation::Background,
            }
        }
    }
}

#[cfg(test)]
mod tests;
