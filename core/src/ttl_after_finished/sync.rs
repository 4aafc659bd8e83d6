//! One sync of one Job: it checks the cached Job, reads the Job from the server, checks it again,
//! and deletes it.
//!
//! Source: `processJob` and `processTTL` in Kubernetes' `pkg/controller/ttlafterfinished`.

use std::sync::Arc;

use podstorm_objects::{DeleteOptions, Kind, Now, Object, Propagation};
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::workqueue::End;

use super::Shared;
use super::job::FinishedJob;

/// The result of a check of a Job.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// The TTL ended at this time, in ns since the Unix epoch.
    Expired(i128),
    /// The Job must not be deleted now, and the sync ends in this way. If the TTL has not ended,
    /// the key is postponed to its end. Upstream postpones the key during the sync and forgets the
    /// failures of the key afterwards, with the same result: nothing happens in between.
    Not(End),
}

/// Runs one sync of a Job.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(cached) = shared.jobs.get(key) else {
        return Ok(End::Forget);
    };
    if let Check::Not(end) = check(&**cached, calls.now())? {
        return Ok(end);
    }
    // The cached Job may be from before an extension of its TTL.
    let ObjectKey { namespace, name } = shared.jobs.name(key);
    let read = calls.read(Kind::JOB, &namespace, &name).await;
    let read = unless_gone(read).map_err(SyncFailure::at("read failed"))?;
    let Some(fresh) = read else {
        return Ok(End::Forget);
    };
    // Another Job of the same name is checked like any other.
    let expiry_ns = match check(&*fresh, calls.now())? {
        Check::Expired(expiry_ns) => expiry_ns,
        Check::Not(end) => return Ok(end),
    };
    let meta = fresh.metadata();
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        precondition_uid: Some(meta.uid.clone()),
        ..DeleteOptions::default()
    };
    // If the Job was deleted or replaced meanwhile, the deletion fails, and the retry handles it.
    let deleted = calls.delete(Kind::JOB, meta, Some(options)).await;
    deleted.map_err(SyncFailure::at("delete failed"))?;
    shared.deleted(expiry_ns, calls.now());
    Ok(End::Forget)
}

/// Checks whether the TTL of a Job has ended.
fn check(job: &dyn Object, now: Now) -> Result<Check, SyncFailure> {
    let Some(finished) = FinishedJob::from_object(job) else {
        return Ok(Check::Not(End::Forget));
    };
    let Some(expiry_ns) = finished.expiry_ns() else {
        let meta = job.metadata();
        let (namespace, name) = (&meta.namespace, &meta.name);
        let text = format!("unable to find the time when the Job {namespace}/{name} finished");
        return Err(SyncFailure::new("no finish time", text));
    };
    let remaining_ns = expiry_ns - i128::from(now.wall_ns);
    if remaining_ns <= 0 {
        return Ok(Check::Expired(expiry_ns));
    }
    // The delay is at most 292 years, like Go's durations.
    let delay_ns = i64::try_from(remaining_ns).unwrap_or(i64::MAX);
    Ok(Check::Not(End::After(delay_ns)))
}
