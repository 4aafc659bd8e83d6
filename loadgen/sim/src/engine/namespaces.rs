//! Deletes namespaces sooner than upstream: the server reports removals of objects to the namespace
//! controller.

use std::sync::Arc;

use podstorm::namespace::Controller;
use podstorm_apiserver::Cluster;
use podstorm_apiserver::namespaces::Termination;

use super::Runners;
use super::runner::{AnyRunner, of_type};

/// [Hastens](Controller::hasten) the namespace controller, if `runners` contains it. `start` is
/// called when the first namespace is deleted, because the controller has nothing to do before
/// that.
pub(super) fn hasten(
    cluster: &Cluster,
    runners: &Runners,
    start: impl Fn() + Send + Sync + 'static,
) {
    let Some(runner) = of_type::<Controller>(runners).pop() else {
        return;
    };
    runner.controller.hasten();
    cluster.set_termination_hook(Some(Arc::new(move |report| match report {
        Termination::First => start(),
        Termination::Removal { namespace, now } => {
            if runner.controller.removed(namespace, now) {
                runner.keys_added(now);
            }
        }
    })));
}
