//! Tests of requests for pods.

use podstorm_objects::{OwnerReference, Resource};
use serde_json::{Value, json};

use super::super::testing::*;
use super::super::{ClusterOptions, Patch};
use super::*;
use crate::DeleteOptions;

/// Returns a template without a namespace.
fn template(patch: Value) -> Arc<Pod> {
    let mut template = pod("", patch);
    template.metadata.namespace = Default::default();
    Arc::new(template)
}

#[test]
fn a_template_without_a_name_takes_the_given_name() {
    let cluster = cluster();
    let template = template(json!({}));
    let namespace = Str::from("default");
    for name in ["a", "b"] {
        let made = cluster.create_pod(&namespace, &template, Some(&name.into()), at(0));
        assert_eq!(made.unwrap().metadata.name, name);
    }
    let nameless = cluster.create_pod(&namespace, &template, None, at(0));
    assert_eq!(fields(nameless), ["metadata.name"]);
}

#[test]
fn pods_of_templates_are_admitted_if_the_option_is_set() {
    let template =
        |spec: Value| template(json!({"metadata": {"generateName": "web-"}, "spec": spec}));
    let namespace = Str::from("default");
    let plain = template(json!({}));
    let strict = cluster_with(ClusterOptions {
        admits_templates: true,
        ..ClusterOptions::default()
    });
    let spec_in = |cluster: &Cluster| {
        let made = cluster.create_pod(&namespace, &plain, None, at(0));
        Value::Object(made.unwrap().spec.to_map(None))
    };
    let spec = spec_in(&strict);
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(
        spec["tolerations"][1]["key"],
        "node.kubernetes.io/unreachable"
    );
    assert_eq!(spec_in(&strict), spec, "the cached pod is the same");
    assert!(spec_in(&cluster()).get("tolerations").is_none());
    let classed = template(json!({"priorityClassName": "missing"}));
    let refused = strict.create_pod(&namespace, &classed, None, at(0));
    assert_eq!(
        refused.unwrap_err().message,
        "pods \"web-\" is forbidden: no PriorityClass with name missing was found"
    );
}

#[test]
fn pods_of_one_template_share_all_but_name_and_identity() {
    let cluster = cluster();
    let template = template(json!({"metadata": {"generateName": "web-"}}));
    let namespace = Str::from("default");
    let create = |namespace: &Str| {
        let created = cluster.create_pod(namespace, &template, None, at(3));
        created.unwrap()
    };
    let (a, b) = (create(&namespace), create(&namespace));
    assert!(Arc::ptr_eq(&a.spec, &b.spec));
    assert!(a.metadata.labels.is_same(&b.metadata.labels));
    assert_ne!(a.metadata.name, b.metadata.name);
    assert_ne!(a.metadata.uid, b.metadata.uid);
    assert_eq!(&*b.metadata.namespace, "default");
    // The result equals that of a plain create.
    let mut plain = Pod::clone(&template);
    plain.metadata.namespace = namespace.clone();
    let mut plain = Pod::clone(&cluster.create(plain, at(3)).unwrap());
    plain.metadata.name = a.metadata.name.clone();
    plain.metadata.uid = a.metadata.uid.clone();
    plain.metadata.resource_version = a.metadata.resource_version.clone();
    assert_eq!(plain, *a);
    // One template serves several namespaces.
    let other = create(&Str::from("other"));
    assert_eq!(&*other.metadata.namespace, "other");
}

#[test]
fn a_pod_of_a_shared_template_gets_the_requested_name() {
    let cluster = cluster();
    let template = template(json!({"metadata": {"generateName": "web-"}}));
    let namespace = Str::from("default");
    // Before the template is cached, and after.
    for name in ["web-bbbbb", "web-ccccc"] {
        let name = name.into();
        let created = cluster.create_pod(&namespace, &template, Some(&name), at(0));
        assert_eq!(created.unwrap().metadata.name, name);
        let again = cluster.create_pod(&namespace, &template, Some(&name), at(0));
        assert_eq!(refused(again), "409 AlreadyExists");
        let bad = cluster.create_pod(&namespace, &template, Some(&"Web_".into()), at(0));
        assert_eq!(refused(bad), "422 Invalid");
    }
    let generated = cluster.create_pod(&namespace, &template, None, at(0));
    assert!(generated.unwrap().metadata.name.starts_with("web-"));
    assert_eq!(cluster.last_version::<Pod>(), cluster.resource_version());
    assert!(cluster.last_version::<podstorm_objects::ReplicaSet>() < 1);
}

#[test]
fn creates_from_a_template_are_admitted_like_others() {
    let cluster = cluster();
    let named = Arc::new(pod("a", json!({})));
    let loose = template(json!({"metadata": {"generateName": "web-"}}));
    let create = |namespace: &str, template: &Arc<Pod>| {
        cluster.create_pod(&namespace.into(), template, None, at(0))
    };
    create("default", &named).unwrap();
    assert_eq!(refused(create("default", &named)), "409 AlreadyExists");
    assert_eq!(refused(create("other", &named)), "400 BadRequest");
    assert_eq!(refused(create("none", &loose)), "404 NotFound");
}

#[test]
fn binding_sets_node_and_condition_but_not_the_generation() {
    let cluster = cluster();
    let bound = bound_pod(&cluster, "a", json!({}));
    assert_eq!(bound.node_name.as_deref(), Some("n1"));
    assert_eq!(
        bound.status.conditions.first(ConditionType::PodScheduled),
        Some((ConditionStatus::True, at(0).wall().into()))
    );
    assert_eq!(bound.metadata.generation, 1);
}

#[test]
fn a_pod_status_patch_needs_the_uid_but_no_version() {
    let cluster = cluster();
    let first = bound_pod(&cluster, "a", json!({}));
    let mut status = first.status.clone();
    let (kind, to) = (ConditionType::Ready, ConditionStatus::True);
    status.conditions.set(kind, to, at(5).wall());
    let write = |uid: &Uid| cluster.patch_pod_status("default", "a", uid, status.clone(), at(5));
    assert_eq!(refused(write(&Uid::new("u"))), "409 Conflict");
    let ready = write(&first.metadata.uid).unwrap();
    assert!(ready.is_ready());
    let before = cluster.resource_version();
    write(&first.metadata.uid).unwrap();
    let after = cluster.resource_version();
    assert_eq!(after, before, "an equal status is not written");
    assert_eq!(cluster.write_counts().pods.ready, 1);
}

#[test]
fn ready_pods_are_counted_however_they_start_and_end() {
    let cluster = cluster();
    let count = |cluster: &Cluster| cluster.pod_totals().existing_ready;
    let set_ready = |name: &str, to: ConditionStatus| {
        let pod = cluster.get::<Pod>("default", name).unwrap();
        let (uid, mut status) = (pod.metadata.uid.clone(), pod.status.clone());
        status
            .conditions
            .set(ConditionType::Ready, to, at(5).wall());
        cluster
            .patch_pod_status("default", name, &uid, status, at(5))
            .unwrap();
    };
    let ready = json!({"spec": {"nodeName": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let ended = json!({"status": {"phase": "Succeeded",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    for (name, patch) in [
        ("a", json!({})),
        ("b", ready),
        ("c", json!({})),
        ("d", ended),
    ] {
        cluster.import(pod(name, patch), at(0)).unwrap();
    }
    assert_eq!(count(&cluster), 1, "the pod imported as ready");
    for name in ["a", "b", "c"] {
        set_ready(name, ConditionStatus::True);
    }
    assert_eq!(count(&cluster), 3);
    set_ready("c", ConditionStatus::False);
    assert_eq!(count(&cluster), 2);
    let state = cluster.state().unwrap();
    // A bound pod has its grace period; an unbound pod is removed immediately.
    let delete = |name: &str, options: &DeleteOptions| {
        cluster
            .delete::<Pod>("default", name, options, at(6))
            .unwrap();
        count(&cluster)
    };
    assert_eq!(delete("b", &DeleteOptions::default()), 1);
    assert_eq!(delete("b", &forced()), 1);
    assert_eq!(delete("a", &DeleteOptions::default()), 0);
    let restored = Cluster::restored(ClusterOptions::default(), &state, at(7)).unwrap();
    assert_eq!(
        count(&restored),
        2,
        "the counts are those of the restored state"
    );
    restored
        .delete::<Pod>("default", "a", &forced(), at(8))
        .unwrap();
    assert_eq!(count(&restored), 1);
}

/// Checks the typed request and the equivalent document.
#[test]
fn an_ended_pod_is_removed_with_its_last_finalizer() {
    type Request = fn(&Cluster, &str) -> Result<Arc<Pod>, ApiError>;
    let typed: Request =
        |cluster, name| cluster.remove_pod_finalizer("default", name, "x/y", at(1));
    let document: Request = |cluster, name| {
        let body = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}});
        let Value::Object(body) = body else {
            panic!("a patch must be a map")
        };
        cluster.patch("default", name, &Patch::Strategic(body), at(1))
    };
    for request in [typed, document] {
        let cluster = cluster();
        for (name, finalizers) in [("a", json!(["x/y", "x/z", "x/y"])), ("b", json!(["x/y"]))] {
            let held = pod(name, json!({"metadata": {"finalizers": finalizers}}));
            cluster.create(held, at(0)).unwrap();
            cluster
                .delete::<Pod>("default", name, &forced(), at(0))
                .unwrap();
        }
        let left = request(&cluster, "a").unwrap();
        assert_eq!(left.metadata.finalizers(), ["x/z"]);
        let before = cluster.resource_version();
        request(&cluster, "a").unwrap();
        assert_eq!(
            cluster.resource_version(),
            before,
            "removing nothing writes nothing"
        );
        assert_eq!(
            request(&cluster, "b").unwrap().metadata.finalizers(),
            [""; 0]
        );
        assert_eq!(
            request(&cluster, "b").unwrap_err().code,
            404,
            "the pod was removed"
        );
    }
}

/// Checks the typed request and the equivalent document.
#[test]
fn adopting_and_releasing_follow_the_merge_by_uid() {
    type Request = fn(&Cluster, &str, &OwnerPatch) -> Result<Arc<Pod>, ApiError>;
    let typed: Request =
        |cluster, name, patch| cluster.patch_pod_owner("default", name, patch, at(0));
    let document: Request = |cluster, name, patch| {
        let Value::Object(body) = patch.body() else {
            panic!("a patch must be a map")
        };
        cluster.patch("default", name, &Patch::Strategic(body), at(0))
    };
    for request in [typed, document] {
        let cluster = cluster();
        let stored = cluster.create(pod("a", json!({})), at(0)).unwrap();
        let pod_uid = &stored.metadata.uid;
        let other = &Uid::new("x");
        let patch = |patch: OwnerPatch| request(&cluster, "a", &patch);
        let adopt = |uid: &str, pod_uid: &Uid| OwnerPatch::Adopt {
            owner: Arc::new(OwnerReference {
                api_version: "apps/v1".into(),
                kind: "Foo".into(),
                name: uid.into(),
                uid: uid.into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }),
            uid: pod_uid.clone(),
        };
        let release = |uid: &str, pod_uid: &Uid| OwnerPatch::Release {
            owner_uid: uid.into(),
            uid: pod_uid.clone(),
        };
        // If the list is absent, the directive is dropped and nothing is written.
        let before = cluster.resource_version();
        let none = patch(release("u1", pod_uid)).unwrap();
        assert!(none.metadata.owner_references.is_empty());
        assert_eq!(cluster.resource_version(), before);
        assert_eq!(fields(patch(adopt("u1", other))), ["metadata.uid"]);
        assert_eq!(fields(patch(release("u1", other))), ["metadata.uid"]);
        let adopted = patch(adopt("u1", pod_uid)).unwrap();
        assert_eq!(adopted.metadata.controller().unwrap().uid, Uid::new("u1"));
        let second = patch(adopt("u2", pod_uid));
        assert_eq!(fields(second), ["metadata.ownerReferences"]);
        let before = cluster.resource_version();
        patch(adopt("u1", pod_uid)).unwrap();
        patch(release("u9", pod_uid)).unwrap();
        assert_eq!(cluster.resource_version(), before);
        let released = patch(release("u1", pod_uid)).unwrap();
        assert!(released.metadata.owner_references.is_empty());
        let pods = cluster.write_counts().pods;
        assert_eq!((pods.adopted, pods.released), (1, 1));
        let missing = request(&cluster, "none", &release("u", pod_uid));
        assert_eq!(refused(missing), "404 NotFound");
    }
    assert_eq!(Pod::KIND, Kind::POD);
}
