//! Ends namespaces sooner than upstream does: the server reports removals to the namespace controller.

use std::sync::Arc;

use podstorm::namespace::Controller;
use podstorm_apiserver::Cluster;
use podstorm_apiserver::namespaces::Termination;

use super::Runners;
use super::runner::{AnyRunner, of_type};

/// [Hastens](Controller::hasten) the namespace controller, if it is among these. `start` is called when the first
/// namespace is being deleted: before that, the controller needs to know of none.
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
