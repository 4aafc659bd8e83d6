//! Tests of the rules that an aggregated role gets, and of when they are written.

use podstorm_objects::{AnyObject, ApiError, Reason};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, sync_all};
use podstorm_runtime::informer::AnyInformer;

use super::*;
use crate::cache::Delta;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

/// A controller, and a server that carries out its applies.
struct World {
    controller: Arc<Controller>,
    roles: Arc<dyn AnyInformer>,
    driver: Driver<AsyncSync>,
    /// Whether the next write must fail.
    fails: bool,
    failures: Vec<String>,
}

fn rule(resource: &str) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]})
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let make = ClusterRoleAggregation::make;
        World {
            controller: make(&Setup::default(), &mut informers),
            roles: informers.take(Kind::CLUSTER_ROLE),
            driver: Driver::default(),
            fails: false,
            failures: Vec::new(),
        }
    }

    fn put(&self, name: &str, labels: Value, members: Value) {
        let mut role = members;
        role["metadata"] = json!({"name": name, "uid": name, "labels": labels});
        let role = DynamicObject::from_json(Kind::CLUSTER_ROLE, role).expect("a ClusterRole");
        self.roles.apply(Delta::Applied(Arc::new(role)), NOW);
    }

    /// Adds a role with rules for these resources that is aggregated into another role.
    fn part(&self, name: &str, of: &str, resources: &[&str]) {
        let rules: Vec<Value> = resources.iter().map(|it| rule(it)).collect();
        self.put(name, json!({of: "true"}), json!({"rules": rules}));
    }

    /// Adds a role that aggregates the roles with the label `from` and itself has the label
    /// `label`.
    fn whole(&self, name: &str, from: &str, label: &str) {
        let selectors = json!([{"matchLabels": {from: "true"}}]);
        let members = json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
        self.put(name, json!({label: "true"}), members);
    }

    fn delete(&self, name: &str) {
        let role = json!({"metadata": {"name": name, "uid": name}});
        let role = DynamicObject::from_json(Kind::CLUSTER_ROLE, role).expect("a ClusterRole");
        self.roles.apply(Delta::Deleted(Arc::new(role)), NOW);
    }

    /// Syncs the keys that are due, and those that become due. Returns the writes: each has a role
    /// and the resources of its rules.
    fn sync(&mut self) -> Vec<String> {
        let mut written = Vec::new();
        loop {
            let mut changed: Vec<AnyObject> = Vec::new();
            let shared = Arc::clone(&self.controller.0);
            let (fails, failures) = (&mut self.fails, &mut self.failures);
            let mut server = |request: &Request, _: Now| {
                let Request::Patch {
                    name,
                    patch,
                    of_status: false,
                    ..
                } = request
                else {
                    panic!("unexpected request: {request:?}");
                };
                let Patch::Apply {
                    object,
                    manager,
                    force: true,
                } = &**patch
                else {
                    panic!("expected an apply: {patch:?}");
                };
                assert_eq!(manager, "clusterrole-aggregation-controller");
                assert_eq!(object["kind"], "ClusterRole");
                assert_eq!(object["metadata"], json!({"name": name.as_str()}));
                if std::mem::take(fails) {
                    return Answer::Failed(ApiError::status(
                        500,
                        Reason::Other(String::new()),
                        "no",
                    ));
                }
                let stored = shared
                    .roles
                    .get_named("", name)
                    .expect("the role must be cached");
                let mut new = DynamicObject::clone(&stored);
                new.fields.remove("rules");
                let wanted = object.get("rules").cloned();
                new.fields
                    .extend(wanted.map(|rules| ("rules".to_owned(), rules)));
                let of_rule = |rule: &Value| rule["resources"][0].as_str().map(str::to_owned);
                let of_rules: Vec<String> = rules(&new).iter().filter_map(of_rule).collect();
                written.push(format!("{name}: {}", of_rules.join(" ")));
                let new: AnyObject = Arc::new(new);
                changed.push(new.clone());
                Answer::Object(new)
            };
            let ended = |sync: &mut AsyncSync| {
                failures.extend(
                    sync.failure()
                        .map(|it| format!("{}: {}", it.label, it.message)),
                );
            };
            let syncs = sync_all(&*self.controller, &mut self.driver, &mut server, NOW, ended);
            for role in changed {
                self.roles.apply(Delta::Applied(role), NOW);
            }
            if syncs == 0 {
                return written;
            }
        }
    }
}

#[test]
fn a_role_gets_each_matching_rule_once_by_role_name() {
    let mut world = World::new();
    world.part("b", "to-view", &["pods", "services"]);
    world.part("a", "to-view", &["services", "secrets"]);
    world.part("other", "to-edit", &["nodes"]);
    world.whole("view", "to-view", "to-admin");
    assert_eq!(world.sync(), ["view: services secrets pods"]);
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn every_role_change_updates_the_aggregate() {
    let mut world = World::new();
    world.whole("view", "to-view", "to-edit");
    assert_eq!(world.sync(), [""; 0]);
    world.part("chart", "to-view", &["certificates"]);
    assert_eq!(world.sync(), ["view: certificates"]);
    world.part("chart", "to-view", &["issuers"]);
    assert_eq!(world.sync(), ["view: issuers"]);
    // Rules that a client adds are removed.
    let selectors = json!([{"matchLabels": {"to-view": "true"}}]);
    let mine =
        json!({"aggregationRule": {"clusterRoleSelectors": selectors}, "rules": [rule("mine")]});
    world.put("view", json!({}), mine);
    assert_eq!(world.sync(), ["view: issuers"]);
    world.delete("chart");
    assert_eq!(world.sync(), ["view: "]);
    world.delete("view");
    world.part("chart", "to-view", &["certificates"]);
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn aggregated_roles_can_be_aggregated() {
    let mut world = World::new();
    world.whole("admin", "to-admin", "x");
    world.whole("edit", "to-edit", "to-admin");
    world.whole("view", "to-view", "to-edit");
    world.part("chart", "to-view", &["certificates"]);
    let written = world.sync();
    assert_eq!(
        written,
        [
            "view: certificates",
            "edit: certificates",
            "admin: certificates"
        ]
    );
}

#[test]
fn selectors_apply_in_order_and_skip_the_role_itself() {
    let mut world = World::new();
    world.part("a", "second", &["pods"]);
    world.part("b", "first", &["nodes"]);
    let both = json!([{"matchExpressions": [{"key": "first", "operator": "Exists"}]},
        {"matchLabels": {"second": "true"}}]);
    let members =
        json!({"aggregationRule": {"clusterRoleSelectors": both}, "rules": [rule("mine")]});
    world.put("own", json!({"first": "true"}), members);
    assert_eq!(world.sync(), ["own: nodes pods"]);
    // Without selectors, a role aggregates nothing.
    world.put(
        "own",
        json!({}),
        json!({"aggregationRule": {}, "rules": [rule("mine")]}),
    );
    assert_eq!(world.sync(), ["own: "]);
    // Without an aggregation rule, a role keeps its own rules.
    world.put("own", json!({}), json!({"rules": [rule("mine")]}));
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn failed_applies_are_retried() {
    let mut world = World::new();
    world.whole("view", "to-view", "x");
    world.part("chart", "to-view", &["pods"]);
    world.fails = true;
    assert_eq!(world.sync(), [""; 0]);
    assert_eq!(world.failures, ["apply failed: no"]);
    assert!(world.controller.queues()[0].next_due().is_some());
    let bad = json!([{"matchExpressions": [{"key": "a", "operator": "Near"}]}]);
    world.put(
        "bad",
        json!({}),
        json!({"aggregationRule": {"clusterRoleSelectors": bad}}),
    );
    world.sync();
    assert!(
        world.failures[1].starts_with("bad selector: "),
        "{:?}",
        world.failures
    );
}
