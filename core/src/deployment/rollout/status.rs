//! `kubectl rollout status`: reports the progress of a rollout.

use podstorm_objects::Deployment;

use super::super::find_new::revision;
use super::RolloutError;

/// The progress of a rollout, as kubectl reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStatus {
    /// The sentence that kubectl prints, without a line break.
    pub message: String,
    /// Whether the rollout is complete.
    pub done: bool,
}

/// Returns kubectl's report for one state of a Deployment. `wanted` is the revision that
/// `--revision` requires; 0 means any. Ignores terminating pods.
///
/// # Errors
/// Fails if the progress deadline is exceeded. If a revision is required, also fails if the
/// Deployment is at another revision or its revision can't be parsed.
pub fn rollout_status(deployment: &Deployment, wanted: i64) -> Result<RolloutStatus, RolloutError> {
    let (metadata, status) = (&deployment.metadata, &deployment.status);
    check_revision(deployment, wanted)?;
    let waiting = |message: String| {
        Ok(RolloutStatus {
            message,
            done: false,
        })
    };
    if metadata.generation > status.observed_generation {
        return waiting("Waiting for deployment spec update to be observed...".to_owned());
    }
    let mut conditions = status.conditions.iter();
    let progressing = conditions.find(|it| &*it.kind == "Progressing");
    if progressing.is_some_and(|it| &*it.reason == "ProgressDeadlineExceeded") {
        return Err(RolloutError::DeadlineExceeded(metadata.name.clone()));
    }
    let name = &metadata.name;
    let begin = || format!("Waiting for deployment {name:?} rollout to finish:");
    let updated = status.updated_replicas;
    if let Some(wanted) = deployment.spec.replicas
        && updated < wanted
    {
        return waiting(format!(
            "{} {updated} out of {wanted} new replicas have been updated...",
            begin()
        ));
    }
    if status.replicas > updated {
        let old = status.replicas.wrapping_sub(updated);
        return waiting(format!(
            "{} {old} old replicas are pending termination...",
            begin()
        ));
    }
    let available = status.available_replicas;
    if available < updated {
        return waiting(format!(
            "{} {available} of {updated} updated replicas are available...",
            begin()
        ));
    }
    Ok(RolloutStatus {
        message: format!("deployment {name:?} successfully rolled out"),
        done: true,
    })
}

fn check_revision(deployment: &Deployment, wanted: i64) -> Result<(), RolloutError> {
    if wanted < 0 {
        return Err(RolloutError::NegativeRevision(wanted));
    }
    if wanted == 0 {
        return Ok(());
    }
    let running = revision(&deployment.metadata).map_err(|cause| {
        let deployment = deployment.metadata.name.clone();
        RolloutError::UnreadableRevision { deployment, cause }
    })?;
    match running.unwrap_or(0) {
        running if running == wanted => Ok(()),
        running => Err(RolloutError::OtherRevision { wanted, running }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_revisions_are_refused() {
        assert_eq!(
            rollout_status(&Deployment::default(), -1).map_err(|error| error.to_string()),
            Err("revision must be a positive integer: -1".to_owned())
        );
    }
}
