//! The ClusterRole aggregation controller: it gives a ClusterRole with an `aggregationRule` the
//! rules of all ClusterRoles that match its selectors.
//!
//! Every change of a ClusterRole wakes all aggregated roles, because each of them may select it.
//! The rules are in the order of the selectors, and then of the names. Of equal rules, only the
//! first is kept. A role that already has the right rules is not written.
//!
//! One lock guards the keys of the aggregated roles. It is not held across a call.
//!
//! Source: Kubernetes' `pkg/controller/clusterroleaggregation`.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, LabelSelector, Now, Selector};
use podstorm_runtime::client::Patch;
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, QueueRow, RateLimitingQueue, Workers};
use serde_json::{Value, json};

use crate::controller::{ControllerType, Setup};

/// The name of the controller, which is also the field manager of its writes.
const NAME: &str = "clusterrole-aggregation-controller";

/// A cached ClusterRole.
type Role = Arc<DynamicObject>;

/// The ClusterRole aggregation controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterRoleAggregation;

impl ControllerType for ClusterRoleAggregation {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: NAME,
        alias: "clusterrole-aggregation",
        component: NAME,
        purpose: "the rules of aggregated ClusterRoles",
        kind: Some(Kind::CLUSTER_ROLE),
        writes: &[Write::new(Kind::CLUSTER_ROLE, &["patch"])],
        queues: &[QueueRow {
            workers: Workers::Number(5),
            ..QueueRow::new("ClusterRoleAggregator")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let shared = Arc::new(Shared {
            roles: informers.store(Kind::CLUSTER_ROLE, || ()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
            aggregated: Mutex::default(),
        });
        informers.add_handler::<Role>(Kind::CLUSTER_ROLE, Arc::clone(&shared) as _);
        Arc::new(Controller(shared))
    }
}

/// The role aggregation controller. Other controllers may share its informers. A clone is a handle
/// to the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    roles: Arc<Store<Role>>,
    queue: RateLimitingQueue<KeyId>,
    /// The keys of cached roles with an `aggregationRule`. Written by the handler.
    aggregated: Mutex<BTreeSet<KeyId>>,
}

impl Handler<Role> for Shared {
    fn handle(&self, change: &Change<Role>, now: Now) {
        let new = change.new.as_ref();
        let is_aggregated = new.is_some_and(|role| selectors(role).is_some());
        let mut aggregated = lock(&self.aggregated);
        match is_aggregated {
            true => aggregated.insert(change.key),
            false => aggregated.remove(&change.key),
        };
        for key in aggregated.iter() {
            self.queue.add(*key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.roles.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}

/// Returns the selectors of an aggregated role; `None` for any other role.
fn selectors(role: &DynamicObject) -> Option<&[Value]> {
    let rule = role.fields.get("aggregationRule")?;
    let selectors = rule.get("clusterRoleSelectors").and_then(Value::as_array);
    rule.is_object()
        .then(|| selectors.map_or(&[][..], Vec::as_slice))
}

/// Returns the rules of a role; empty if they are absent or null.
fn rules(role: &DynamicObject) -> &[Value] {
    let rules = role.fields.get("rules").and_then(Value::as_array);
    rules.map_or(&[], Vec::as_slice)
}

/// Sets the rules of one role to those of the roles that it selects.
async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(role) = shared.roles.get(key) else {
        return Ok(End::Forget);
    };
    let Some(selectors) = selectors(&role) else {
        return Ok(End::Forget);
    };
    let wanted = shared.aggregate(&role, selectors)?;
    if wanted == rules(&role) {
        return Ok(End::Forget);
    }
    let mut object = json!({
        "apiVersion": Kind::CLUSTER_ROLE.api_version(),
        "kind": Kind::CLUSTER_ROLE.name(),
        "metadata": {"name": role.metadata.name.as_str()},
    });
    if !wanted.is_empty() {
        object["rules"] = wanted.into();
    }
    let Value::Object(object) = object else {
        unreachable!("the literal is an object");
    };
    let patch = Patch::Apply {
        object,
        manager: NAME.into(),
        force: true,
    };
    let kind = Kind::CLUSTER_ROLE;
    let applied = calls.patch(kind, &role.metadata, patch, false).await;
    applied.map_err(SyncFailure::at("apply failed"))?;
    Ok(End::Forget)
}

impl Shared {
    /// Returns the rules of the roles that match these selectors, without those of `role` itself.
    /// O(selectors × roles + rules²).
    fn aggregate(&self, role: &Role, selectors: &[Value]) -> Result<Vec<Value>, SyncFailure> {
        let mut all: Vec<Role> = self
            .roles
            .all()
            .into_iter()
            .map(|(_, it)| (*it).clone())
            .collect();
        all.retain(|other| other.metadata.name != role.metadata.name);
        all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut wanted: Vec<Value> = Vec::new();
        for selector in selectors {
            let selector =
                compile(selector).map_err(|problem| SyncFailure::new("bad selector", problem))?;
            let matched = all
                .iter()
                .filter(|it| selector.matches(&it.metadata.labels));
            for rule in matched.flat_map(|it| rules(it)) {
                if !wanted.contains(rule) {
                    wanted.push(rule.clone());
                }
            }
        }
        Ok(wanted)
    }
}

fn compile(selector: &Value) -> Result<Selector, String> {
    let read = LabelSelector::from_json(selector.clone()).map_err(|error| error.to_string())?;
    Selector::compile(Some(&read)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
