//! Tests of the defaults.

use crate::Map;
use crate::{Object, Resource};
use serde_json::{Value, json};

use super::*;

fn pod(spec: Value) -> Pod {
    let mut pod = Pod::from_json(json!({"spec": spec})).expect("a pod");
    default_pod(&mut pod);
    pod
}

#[test]
fn a_replica_set_gets_one_replica_and_a_full_template() {
    let mut rs = ReplicaSet::from_json(json!({"spec": {"template": {"spec": {
        "containers": [{"name": "c", "image": "img", "resources": {"limits": {"cpu": "1"}}}]
    }}}}))
    .unwrap();
    default_replica_set(&mut rs);
    assert_eq!(rs.spec.replicas, Some(1));
    assert_eq!(rs.spec.selector, None);
    assert_eq!(
        rs.to_json()["spec"]["template"]["spec"],
        json!({
            "containers": [{"name": "c", "image": "img", "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {"limits": {"cpu": "1"}}}],
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {},
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30
        })
    );
    let spec = &rs.spec.template.spec;
    assert_eq!(spec.termination_grace_period_seconds, Some(30));
}

#[test]
fn the_name_of_a_pods_own_volume_stays() {
    let name = "kube-api-access-aaaaa";
    let spec = json!({"volumes": [{"name": name}], "containers": [{"name": "c", "image": "img",
        "volumeMounts": [{"name": name, "mountPath": "/a"}]}]});
    let mut pod = pod(spec.clone());
    default_pod(&mut pod);
    let mut template = Arc::new(PodTemplate::from_json(json!({"spec": spec})).unwrap());
    default_template(&mut template);
    for filled in [pod.to_json(), template.to_json()] {
        let spec = &filled["spec"];
        assert_eq!(spec["volumes"], json!([{"name": name, "emptyDir": {}}]));
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], name);
        assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    }
}

#[test]
fn a_complete_spec_keeps_its_allocation() {
    let mut pod = pod(json!({"containers": [{"name": "c", "image": "img:1"}]}));
    let before = pod.spec.clone();
    default_pod(&mut pod);
    assert!(Arc::ptr_eq(&before, &pod.spec));
    let mut template = Arc::new(PodTemplate {
        spec: before.clone(),
        ..PodTemplate::default()
    });
    let same = template.clone();
    default_template(&mut template);
    assert!(Arc::ptr_eq(&same, &template));
}

#[test]
fn zero_replicas_and_zero_grace_stay() {
    let mut rs = ReplicaSet::from_json(json!({"spec": {"replicas": 0, "template": {"spec":
        {"terminationGracePeriodSeconds": 0}}}}))
    .unwrap();
    default_replica_set(&mut rs);
    assert_eq!(rs.spec.replicas, Some(0));
    let spec = &rs.spec.template.spec;
    assert_eq!(spec.termination_grace_period_seconds, Some(0));
}

#[test]
fn a_replication_controller_defaults_from_its_template() {
    let read = |value| {
        let mut controller = ReplicationController::from_json(value).unwrap();
        default_replication_controller(&mut controller);
        controller
    };
    let template = json!({"metadata": {"labels": {"app": "web"}}});
    let bare = read(json!({"spec": {"template": template}}));
    assert_eq!(bare.replicas, Some(1));
    assert_eq!(bare.selector.to_json(), json!({"app": "web"}));
    assert!(bare.metadata.labels.is_same(&bare.selector));
    let full = read(json!({"metadata": {"labels": {"own": "1"}},
        "spec": {"selector": {"x": "y"}, "template": template}}));
    assert_eq!(full.selector.to_json(), json!({"x": "y"}));
    assert_eq!(full.metadata.labels.to_json(), json!({"own": "1"}));
    assert!(read(json!({"spec": {}})).selector.is_absent());
}

#[test]
fn probes_ports_references_and_volumes_are_filled() {
    let pod = pod(json!({
        "containers": [{"name": "c", "image": "img:1", "ports": [{"containerPort": 80}],
            "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 2}}],
        "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}},
            {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    }));
    let spec = pod.spec.to_map(None);
    let container = &spec["containers"][0];
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    let reference = &container["env"][0]["valueFrom"]["fieldRef"];
    assert_eq!(reference["apiVersion"], "v1");
    assert_eq!(
        container["readinessProbe"],
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
            "periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(
        spec["volumes"],
        json!([{"name": "a", "emptyDir": {}},
            {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
            {"name": "c", "projected": {"defaultMode": 420, "sources":
                [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}}])
    );
}

#[test]
fn rarer_probes_references_and_volumes_are_filled_too() {
    let pod = pod(json!({
        "containers": [{"name": "c", "image": "img:1", "livenessProbe": {"grpc": {"port": 1}},
            "env": [{"name": "E", "valueFrom": {"fileKeyRef": {"key": "k"}}}]}],
        "volumes": [{"name": "a", "iscsi": {}}, {"name": "b", "rbd": {"user": "me"}},
            {"name": "c", "azureDisk": {}}, {"name": "d", "scaleIO": {}},
            {"name": "e", "image": {"reference": "img"}},
            {"name": "f", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    }));
    let spec = pod.spec.to_map(None);
    let container = &spec["containers"][0];
    assert_eq!(container["livenessProbe"]["grpc"]["service"], "");
    let reference = &container["env"][0]["valueFrom"]["fileKeyRef"];
    assert_eq!(*reference, json!({"key": "k", "optional": false}));
    let rbd = json!({"user": "me", "pool": "rbd", "keyring": "/etc/ceph/keyring"});
    let azure =
        json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false});
    let scale_io = json!({"storageMode": "ThinProvisioned", "fsType": "xfs"});
    let claim = json!({"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}});
    let wanted = json!([{"name": "a", "iscsi": {"iscsiInterface": "default"}}, {"name": "b", "rbd": rbd},
        {"name": "c", "azureDisk": azure}, {"name": "d", "scaleIO": scale_io},
        {"name": "e", "image": {"reference": "img", "pullPolicy": "Always"}},
        {"name": "f", "ephemeral": claim}]);
    assert_eq!(spec["volumes"], wanted);
}

#[test]
fn only_pods_get_requests_from_limits() {
    let pod = pod(
        json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}]}),
    );
    let spec = pod.spec.to_map(None);
    let container = &spec["containers"][0];
    let wanted = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(container["resources"]["requests"], wanted);
    assert_eq!(container["ports"][0]["hostPort"], 80);
    assert_eq!(spec["enableServiceLinks"], true);
}

#[test]
fn the_pull_policy_follows_the_tag() {
    let cases = [
        ("img", "Always"),
        ("img:latest", "Always"),
        ("img:1", "IfNotPresent"),
        ("host:5000/img", "Always"),
        ("host:5000/a/img:2", "IfNotPresent"),
        ("img@sha256:0123", "IfNotPresent"),
        ("img:latest@sha256:0123", "Always"),
    ];
    for (image, policy) in cases {
        let pod = pod(json!({"containers": [{"name": "c", "image": image}]}));
        let container = &pod.spec.to_map(None)["containers"][0];
        assert_eq!(container["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn the_service_class_follows_requests_and_limits() {
    let of = |resources: Value| json!([{"resources": resources}]);
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let same = json!({"cpu": "1000m", "memory": "1024Mi"});
    let (one, half) = (json!({"cpu": "1"}), json!({"cpu": "500m"}));
    let disk = json!({"ephemeral-storage": "1"});
    let cases = [
        (json!([{}]), "BestEffort"),
        (of(json!({"requests": disk})), "BestEffort"),
        (of(json!({"requests": {"cpu": "0"}})), "BestEffort"),
        (of(json!({"requests": one})), "Burstable"),
        (of(json!({"limits": both})), "Guaranteed"),
        (of(json!({"limits": both, "requests": same})), "Guaranteed"),
        (
            json!([{"resources": {"limits": both, "requests": one}}, {}]),
            "Burstable",
        ),
        (of(json!({"limits": both, "requests": half})), "Burstable"),
    ];
    for (containers, class) in cases {
        let fields = Map::from_iter([("containers".to_owned(), containers.clone())]);
        let spec = PodSpec::from_json(fields).unwrap();
        assert_eq!(qos_class(&spec), class, "{containers}");
    }
}
