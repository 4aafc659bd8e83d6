//! The checker's inputs: commits, and the syncs of the workload that its [`Oracle`](super::Oracle)
//! knows. The workload's observer passes these on.

use podstorm::client::{Answer, Request};
use podstorm_apiserver::{Commit, CommitObserver};
use podstorm_objects::{Kind, Now, Pod};
use podstorm_sim::engine::observer::{Origin, Origins, SyncId};
use podstorm_sim::faults::Call;

use super::{Checked, Checker, trace};

impl CommitObserver for Checker {
    fn committed(&self, commit: &Commit) {
        self.check(commit.now, |state| {
            state.version = commit.version;
            let metadata = commit.new.metadata();
            state.trace.add(commit.version);
            state.trace.add(commit.change as u64);
            state.trace.add_str(&metadata.name);
            state.trace.add(commit.now.mono_ns as u64);
            let origin = state.origin;
            if commit.new.kind() != Kind::EVENT {
                state.last_write_ns = commit.now.mono_ns;
                state.repeats.committed(commit.now);
                if state.log.is_some() {
                    let text = trace::commit_text(commit, origin, &*state.oracle);
                    state.note(|| text);
                }
            }
            let mut checked = Ok(());
            if let Some((old, new)) = commit.downcast::<Pod>() {
                if origin.is_some() {
                    state.count_pod(old, new, commit.change);
                }
                checked = has_one_controller(new);
            }
            let verdict = &mut state.verdict;
            checked = checked.and_then(|()| state.oracle.committed(commit, origin, verdict));
            state.metrics.committed(commit, origin, verdict);
            state.reach.committed(commit, origin);
            checked
        });
    }
}

/// Checks I5 for a pod of any workload: it has at most one controller.
fn has_one_controller(pod: &Pod) -> Checked {
    let owners = pod.metadata.owner_references.iter();
    if owners.filter(|it| it.controller == Some(true)).count() > 1 {
        return Err(("I5", format!("{} has two controllers", pod.metadata.name)));
    }
    Ok(())
}

impl Origins for Checker {
    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
    }
}

impl Checker {
    /// Records the beginning of a sync. With `is_traced`, the name of the sync's kind is part of
    /// the trace.
    pub(crate) fn sync_begins(
        &self,
        sync: SyncId,
        key: impl Fn() -> String,
        is_traced: bool,
        now: Now,
    ) {
        let mut state = self.state();
        state.now = now;
        state.verdict.syncs += 1;
        state.trace.add_str("sync");
        state.trace.add(sync.number);
        if is_traced {
            state.trace.add_str(sync.kind.name());
        }
        state.count_sync(sync, &key, now);
        state.repeats.sync_begins(sync, &key, now);
        state.reach.sync_begins(now);
    }

    /// Records a request of the sync.
    pub(crate) fn sends(&self, sync: SyncId, request: &Request, now: Now) {
        let mut state = self.state();
        state.now = now;
        if state.log.is_some() {
            let text = trace::request_text(sync, request, &*state.oracle);
            state.note(|| text);
        }
        if Call::from_request(request).is_write() {
            state.last_asked_ns = now.mono_ns;
        }
    }

    /// Records the answer to a request of the sync, and checks the invariants of all workloads.
    /// Returns whether they hold.
    /// Returns whether they hold.
    pub(crate) fn answered(
        &self,
        sync: SyncId,
        request: &Request,
        answer: &Answer,
        now: Now,
    ) -> bool {
        self.check(now, |state| {
            if let Answer::Failed(error) = answer {
                state.note(|| format!("  {} gets answer {}: {error}", sync.number, error.code));
            }
            state.reach.answered(answer, now);
            state
                .repeats
                .answered(sync, request, answer, &*state.oracle, now)
        })
    }

    /// Records the end of the sync, with its error if it failed.
    pub(crate) fn sync_ended(&self, sync: SyncId, error: Option<&dyn std::fmt::Display>, now: Now) {
        let mut state = self.state();
        state.now = now;
        if let Some(error) = error {
            state.note(|| format!("sync {} failed: {error}", sync.number));
        }
        state.repeats.sync_ended(sync);
    }
}
