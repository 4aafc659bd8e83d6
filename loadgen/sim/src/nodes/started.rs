//! What the rules of a cluster add to the status of a pod that has started.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::{
    Address, ContainerDetails, ContainerId, ContainerStatus, Node, Now, PackedTime, PodPhase,
    PodSpec, PodStart, PodStatus, Time,
};
use serde_json::{Value, json};

use super::change::ended;
use super::control::NodeControl;

/// The status as the rules want it: with the pod's own address, the ids of its containers, and its end
/// where it ends at once.
pub(super) fn as_ruled(
    control: &NodeControl,
    spec: &PodSpec,
    mut status: PodStatus,
    now: Now,
) -> PodStatus {
    let Some(rules) = control.clients() else {
        return status;
    };
    if let (Some(address), Some(start)) = (control.next_pod_address(), &status.started) {
        status.started = Some(Arc::new(PodStart {
            pod_ip: Address::from(address.to_string().as_str()),
            ..PodStart::clone(start)
        }));
    }
    if !rules.container_id.is_empty() || !rules.image_id.is_empty() {
        for container in &mut status.container_statuses {
            change(container, |details| {
                if !rules.container_id.is_empty() {
                    details.id = Some(ContainerId::new(&rules.container_id));
                }
                details.rest = details.rest.with("imageID", rules.image_id.as_str());
            });
        }
    }
    if !rules.finishes(spec) {
        return status;
    }
    for container in &mut status.container_statuses {
        change(container, |details| {
            let at = now.wall().to_string();
            let state = json!({"terminated": {"exitCode": 0, "reason": "Completed",
                "startedAt": at, "finishedAt": at}});
            details.running_since = PackedTime::new(Time::UNSET);
            details.rest = details.rest.with("state", state).with("started", false);
        });
    }
    ended(&status, PodPhase::Succeeded, None, now.wall())
}

fn change(container: &mut ContainerStatus, change: impl FnOnce(&mut ContainerDetails)) {
    if let Some(shared) = &container.details {
        let mut details = ContainerDetails::clone(shared);
        change(&mut details);
        container.details = Some(Arc::new(details));
    }
}

/// The address that a node says it has within the cluster.
pub(super) fn internal_ip(cluster: &Cluster, node: &str) -> Option<Address> {
    let node = cluster.get::<Node>("", node).ok()?;
    let addresses = node.status.get("addresses").and_then(Value::as_array)?;
    let internal = addresses.iter().find(|it| it["type"] == "InternalIP")?;
    internal["address"].as_str().map(Address::from)
}
