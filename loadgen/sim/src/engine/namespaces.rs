//! Ends namespaces sooner than upstream does: the server reports removals to the namespace controller.

use std::sync::Arc;

use podstorm::namespace::Controller;
use podstorm_apiserver::Cluster;

use super::Runners;
use super::runner::{AnyRunner, of_type};

/// [Hastens](Controller::hasten) the namespace controller, if it is among these.
pub(super) fn hasten(cluster: &Cluster, runners: &Runners) {
    for runner in of_type::<Controller>(runners) {
        runner.controller.hasten();
        cluster.set_removal_hook(Some(Arc::new(move |namespace, now| {
            if runner.controller.removed(namespace, now) {
                runner.keys_added(now);
            }
        })));
    }
}
