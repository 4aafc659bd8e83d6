//! JSON of nodes.

use serde_json::Value;

use super::open;
use crate::decode::{DecodeError, Members, Path, describe};
use crate::json::JsonValue;
use crate::shape::{Shape, check};
use crate::{Kind, Map, Node, Quantity, Resource};

const SPEC: Shape = Shape::Object(&[
    ("podCIDR", Shape::Text),
    ("podCIDRs", Shape::List(&Shape::Text)),
    ("providerID", Shape::Text),
    (
        "taints",
        Shape::List(&Shape::Object(&[
            ("effect", Shape::Text),
            ("key", Shape::Text),
            ("timeAdded", Shape::Time),
            ("value", Shape::Text),
        ])),
    ),
    ("unschedulable", Shape::Flag),
]);

const CONDITION: Shape = Shape::Object(&[
    ("lastHeartbeatTime", Shape::Time),
    ("lastTransitionTime", Shape::Time),
    ("message", Shape::Text),
    ("reason", Shape::Text),
    ("status", Shape::Text),
    ("type", Shape::Text),
]);

const STATUS: Shape = Shape::Object(&[
    ("addresses", Shape::List(&Shape::ANY_OBJECT)),
    ("allocatable", Shape::MapOf(&Shape::Quantity)),
    ("capacity", Shape::MapOf(&Shape::Quantity)),
    ("conditions", Shape::List(&CONDITION)),
    ("images", Shape::List(&Shape::ANY_OBJECT)),
    ("nodeInfo", Shape::ANY_OBJECT),
    ("phase", Shape::Text),
]);

object!(Node, |node, out| {
    let (mut spec, mut status) = (node.spec.clone(), node.status.clone());
    // A typed member that was changed after reading takes precedence.
    if node.unschedulable {
        spec.insert("unschedulable".into(), true.into());
    } else if spec.get("unschedulable").is_some_and(|flag| *flag == true) {
        spec.remove("unschedulable");
    }
    if pods_allocatable(&status).ok().flatten() != node.pods_allocatable {
        set_allocatable(&mut status, node.pods_allocatable);
    }
    out.member("spec", |out| out.object(|out| out.put_members(&spec)));
    out.member("status", |out| out.object(|out| out.put_members(&status)));
});

impl Resource for Node {
    const KIND: Kind = Kind::NODE;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let (mut members, metadata) = open(value, Kind::NODE)?;
        let checked = |shape: &'static Shape| {
            move |value: JsonValue<'_>, path: &Path<'_>| {
                let map = Members::new(value, path)?.left_to_map();
                check(value, shape, path).map(|()| map)
            }
        };
        let spec = members.child("spec", checked(&SPEC))?.unwrap_or_default();
        let status = members
            .child("status", checked(&STATUS))?
            .unwrap_or_default();
        Ok(Node {
            metadata,
            pods_allocatable: pods_allocatable(&status)?,
            unschedulable: spec.get("unschedulable").is_some_and(|flag| *flag == true),
            spec,
            status,
        })
    }
}

fn set_allocatable(status: &mut Map, pods: Option<u32>) {
    match pods {
        Some(pods) => {
            let entry = status
                .entry("allocatable")
                .or_insert_with(|| Map::new().into());
            if let Value::Object(allocatable) = entry {
                allocatable.insert("pods".into(), pods.to_string().into());
            }
        }
        None => {
            for list in ["allocatable", "capacity"] {
                if let Some(Value::Object(map)) = status.get_mut(list) {
                    map.remove("pods");
                }
            }
        }
    }
}

/// Returns `allocatable.pods`, or `capacity.pods` if that is absent; `None` if both are.
fn pods_allocatable(status: &Map) -> Result<Option<u32>, DecodeError> {
    for list in ["allocatable", "capacity"] {
        let Some(value) = status.get(list).and_then(|list| list.get("pods")) else {
            continue;
        };
        if value.is_null() {
            continue;
        }
        // Rounded up, as the scheduler does.
        let amount = Quantity::from_json(value).ok().map(Quantity::ceil);
        let (status, root) = ("status", Path::ROOT);
        let wrong = || {
            let status = root.member(status);
            status.member(list).key("pods").error(format!(
                "expected a number of pods such as 110, found {}",
                describe(value)
            ))
        };
        return amount
            .and_then(|amount| u32::try_from(amount).ok())
            .ok_or_else(wrong)
            .map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{refusal, round_trip};
    use super::*;
    use crate::Object;

    #[test]
    fn a_node_round_trips() {
        let value = json!({
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true},
            "status": {"allocatable": {"cpu": "4", "pods": "110"}, "capacity": {"pods": "120"},
                "conditions": [{"type": "Ready", "status": "True"}]}
        });
        let node: Node = round_trip(&value);
        assert_eq!(node.pods_allocatable, Some(110));
        assert!(node.unschedulable);
        let capacity = json!({"status": {"capacity": {"pods": 7}}});
        assert_eq!(Node::from_json(capacity).unwrap().pods_allocatable, Some(7));
        assert_eq!(Node::from_json(json!({})).unwrap().pods_allocatable, None);
    }

    #[test]
    fn typed_members_take_precedence_when_written() {
        let node = Node {
            pods_allocatable: Some(9),
            unschedulable: true,
            ..Node::default()
        };
        let written = node.to_json();
        assert_eq!(written["spec"], json!({"unschedulable": true}));
        assert_eq!(written["status"], json!({"allocatable": {"pods": "9"}}));
        let mut node = Node::from_json(written).unwrap();
        node.unschedulable = false;
        assert_eq!(node.to_json()["spec"], json!({}));
    }

    #[test]
    fn a_bad_quantity_is_refused_with_its_path() {
        assert_eq!(
            refusal::<Node>(json!({"status": {"allocatable": {"pods": "many"}}})),
            "status.allocatable[pods]: expected a number of pods such as 110, found the string \"many\""
        );
    }
}
