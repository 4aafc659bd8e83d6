//! The health of a node: a pure function of earlier observations and the current Node and Lease.
//!
//! A node reports as long as the controller sees changes of the node's Lease or of the heartbeat in
//! the node's condition `Ready`. The time of a report is the time at which the controller sees it,
//! so the clocks of nodes don't matter.
//!
//! Source: `tryUpdateNodeHealth` of Kubernetes' `pkg/controller/nodelifecycle`.

use podstorm_objects::{Map, Node, Now, Time};
use serde_json::{Value, json};

use super::Options;
use crate::node::{condition, time_in};

/// The conditions that become `Unknown`, in the order in which upstream adds missing ones.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The status of the condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    True,
    False,
    /// `Unknown` or any other value.
    Unknown,
}

impl Ready {
    /// Returns the status; `None` if the node does not have the condition.
    pub(super) fn from_node(node: &Node) -> Option<Ready> {
        Some(match condition(node, "Ready")?["status"].as_str() {
            Some("True") => Ready::True,
            Some("False") => Ready::False,
            _ => Ready::Unknown,
        })
    }
}

/// `spec.renewTime` of a Lease, as second and microsecond; `None` if it is absent.
pub(super) type Renewal = Option<(Time, u32)>;

/// The controller's observations about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    /// The status and the heartbeat of the condition `Ready` when it was last seen to change.
    pub(super) ready: Option<(Ready, Time)>,
    /// The renewal time of the node's Lease when it was last seen to change.
    lease: Option<Renewal>,
    /// The monotonic time in ns of the last report.
    pub(super) probe_ns: i64,
}

/// The result of a check of a node.
#[derive(Debug)]
pub(super) struct Look {
    /// The condition `Ready` before this check; `Unknown` if the node does not have it.
    pub(super) observed: Ready,
    /// The condition `Ready` after this check; `None` if the node does not have it.
    pub(super) current: Option<Ready>,
    /// The status to write if the node has been silent for too long; otherwise `None`.
    pub(super) stale: Option<Map>,
}

/// Checks a node with the renewal of its Lease. Stores new observations in `health`.
pub(super) fn look(
    health: &mut Option<Health>,
    node: &Node,
    lease: Option<Renewal>,
    options: &Options,
    now: Now,
) -> Look {
    let current = Ready::from_node(node);
    let ready = current.zip(condition(node, "Ready"));
    let ready = ready.map(|(status, it)| (status, time_in(it, "lastHeartbeatTime")));
    let (grace_ns, observed) = match current {
        Some(current) => (options.grace_ns, current),
        None => (options.startup_grace_ns, Ready::Unknown),
    };
    let created_ns = node.metadata.creation_timestamp.unix_nanos();
    let age_ns = created_ns.map_or(0, |created_ns| now.wall_ns.saturating_sub(created_ns));
    let fresh = |probe_ns| Health {
        ready,
        lease: None,
        probe_ns,
    };
    let saved_lease = health.as_ref().and_then(|it| it.lease);
    let mut seen = match health.take() {
        // A node that has never reported has been silent since its creation.
        None if ready.is_none() => fresh(now.mono_ns.saturating_sub(age_ns)),
        None => fresh(now.mono_ns),
        Some(seen) => match (seen.ready, ready) {
            (None, Some(_)) | (Some(_), None) => fresh(now.mono_ns),
            (Some((_, before)), Some((_, after))) if before != after => fresh(now.mono_ns),
            _ => seen,
        },
    };
    if let Some(renewed) = lease {
        let is_newer = match saved_lease {
            None => true,
            Some(before) => matches!((before, renewed), (Some(old), Some(new)) if old < new),
        };
        if is_newer {
            seen.lease = Some(renewed);
            seen.probe_ns = now.mono_ns;
        }
    }
    let is_silent = now.mono_ns > seen.probe_ns.saturating_add(grace_ns);
    *health = Some(seen);
    let stale = (is_silent && current != Some(Ready::Unknown)).then(|| unknown(node, now.wall()));
    Look {
        observed,
        current: match stale {
            Some(_) => Some(Ready::Unknown),
            None => current,
        },
        stale,
    }
}

impl Health {
    /// Records that the status of a silent node was written, which is not a report by the node.
    pub(super) fn written(&mut self, node: &Node, lease: Option<Renewal>) {
        let heartbeat = condition(node, "Ready").map(|it| time_in(it, "lastHeartbeatTime"));
        self.ready = Some((Ready::Unknown, heartbeat.unwrap_or_default()));
        self.lease = lease;
    }
}

/// Returns the status for a node that has been silent for too long.
fn unknown(node: &Node, now: Time) -> Map {
    let mut status = node.status.clone();
    let entry = status.entry("conditions").or_insert_with(|| json!([]));
    if !entry.is_array() {
        *entry = json!([]);
    }
    let conditions = entry.as_array_mut().expect("the entry is an array");
    for of_type in CONDITIONS {
        match conditions.iter_mut().find(|it| it["type"] == of_type) {
            None => {
                let created = node.metadata.creation_timestamp;
                conditions.push(json!({"type": of_type, "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": time(created), "lastTransitionTime": time(now)}));
            }
            Some(found) if found["status"] != "Unknown" => {
                found["status"] = "Unknown".into();
                found["reason"] = "NodeStatusUnknown".into();
                found["message"] = "Kubelet stopped posting node status.".into();
                found["lastTransitionTime"] = time(now);
            }
            Some(_) => {}
        }
    }
    status
}

fn time(time: Time) -> Value {
    match time.is_unset() {
        true => Value::Null,
        false => time.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn at(seconds: i64) -> Now {
        Now {
            mono_ns: seconds * SECOND_NS,
            wall_ns: (1_800_000_000 + seconds) * SECOND_NS,
        }
    }

    fn node(conditions: Value) -> Node {
        Node::from_json(
            json!({"metadata": {"name": "n", "creationTimestamp": at(0).wall().to_string()},
            "status": {"conditions": conditions}}),
        )
        .unwrap()
    }

    fn ready(heartbeat: i64) -> Node {
        node(
            json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": at(heartbeat).wall().to_string()}]),
        )
    }

    fn renewal(seconds: i64) -> Option<Renewal> {
        Some(Some((at(seconds).wall(), 0)))
    }

    #[test]
    fn a_node_without_a_new_heartbeat_or_lease_is_silent() {
        let options = Options::default();
        // By second: the heartbeat and the Lease that are seen, and whether the node is silent.
        let never = None;
        for (name, looks) in [
            (
                "heartbeats",
                vec![
                    (0, 0, never, false),
                    (50, 9, never, false),
                    (100, 9, never, false),
                    (101, 9, never, true),
                ],
            ),
            (
                "a renewed lease",
                vec![
                    (0, 0, renewal(0), false),
                    (50, 0, renewal(10), false),
                    (100, 0, renewal(10), false),
                    (101, 0, renewal(10), true),
                ],
            ),
            (
                "a lease with an older time is not renewed",
                vec![
                    (0, 0, renewal(9), false),
                    (50, 0, renewal(5), false),
                    (51, 0, renewal(5), true),
                ],
            ),
            (
                "a deleted lease",
                vec![
                    (0, 0, renewal(9), false),
                    (30, 0, never, false),
                    (51, 0, never, true),
                ],
            ),
            (
                // The clock of the node is an hour slow.
                "times of nodes are only compared with each other",
                vec![
                    (0, -3600, never, false),
                    (50, -3590, never, false),
                    (100, -3590, never, false),
                ],
            ),
        ] {
            let mut health = None;
            for (seconds, heartbeat, lease, is_silent) in looks {
                let found = look(&mut health, &ready(heartbeat), lease, &options, at(seconds));
                assert_eq!(found.stale.is_some(), is_silent, "{name}: {seconds} s");
                assert_eq!(found.observed, Ready::True);
                let current = if is_silent {
                    Ready::Unknown
                } else {
                    Ready::True
                };
                assert_eq!(found.current, Some(current));
            }
        }
    }

    #[test]
    fn a_node_that_never_reported_is_silent_since_its_creation() {
        let mut health = None;
        let bare = node(json!([]));
        let options = Options::default();
        let found = look(&mut health, &bare, None, &options, at(60));
        assert!(found.stale.is_none() && found.current.is_none());
        let found = look(&mut health, &bare, None, &options, at(61));
        let stale = found.stale.expect("60 s are over");
        let conditions = stale["conditions"].as_array().unwrap();
        let types: Vec<&Value> = conditions.iter().map(|it| &it["type"]).collect();
        assert_eq!(types, CONDITIONS);
        for condition in conditions {
            assert_eq!(condition["status"], "Unknown");
            assert_eq!(condition["reason"], "NodeStatusNeverUpdated");
            assert_eq!(condition["message"], "Kubelet never posted node status.");
            assert_eq!(condition["lastHeartbeatTime"], at(0).wall().to_string());
            assert_eq!(condition["lastTransitionTime"], at(61).wall().to_string());
        }
    }

    #[test]
    fn the_status_of_a_silent_node_keeps_its_heartbeats() {
        let mut health = None;
        let options = Options::default();
        let _first = look(&mut health, &ready(3), None, &options, at(0));
        let found = look(&mut health, &ready(3), None, &options, at(51));
        let stale = found.stale.expect("50 s are over");
        let first = &stale["conditions"][0];
        assert_eq!(first["reason"], "NodeStatusUnknown");
        assert_eq!(first["message"], "Kubelet stopped posting node status.");
        assert_eq!(first["lastHeartbeatTime"], at(3).wall().to_string());
        assert_eq!(stale["conditions"][1]["reason"], "NodeStatusNeverUpdated");
        // Once written, the status is not written again.
        let written = node(stale["conditions"].clone());
        health.as_mut().unwrap().written(&written, None);
        let found = look(&mut health, &written, None, &options, at(60));
        assert!(found.stale.is_none());
        assert_eq!(
            (found.observed, found.current),
            (Ready::Unknown, Some(Ready::Unknown))
        );
    }
}
