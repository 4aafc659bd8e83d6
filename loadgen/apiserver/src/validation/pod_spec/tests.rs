//! Broken rules of pod specs.

use podstorm_objects::Pod;
use serde_json::{Value, json};

use super::super::super::defaulting::default_pod;
use super::super::testing::{assert_starts, merged, read, texts};
use super::*;

fn problems(patch: &Value) -> Vec<String> {
    let base = json!({"spec": {"containers": [{"name": "c", "image": "img"}]}});
    let mut pod: Pod = read(merged(base, &json!({"spec": patch})));
    default_pod(&mut pod);
    let mut causes = Causes::default();
    let path = Path::ROOT.member("spec");
    pod.spec.look(pod.token_volume, |spec| {
        check(spec, pod.node_name.as_deref(), &path, &mut causes);
    });
    texts(&causes.0)
}

fn one_container(members: Value) -> Value {
    json!({"containers": [merged(json!({"name": "c", "image": "img"}), &members)]})
}

#[test]
fn good_specs_break_no_rule() {
    for patch in [
        json!({}),
        json!({"nodeName": "n1", "activeDeadlineSeconds": 1, "nodeSelector": {"zone": "a"}}),
        json!({"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["true"]}}}]}),
        json!({"tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v",
            "effect": "NoExecute", "tolerationSeconds": 0}]}),
        json!({"terminationGracePeriodSeconds": -1}),
        one_container(json!({"ports": [{"containerPort": 80, "name": "http"},
            {"containerPort": 80, "hostPort": 80}]})),
        json!({"volumes": [{"name": "kube-api-access-q7w2n"}], "containers": [{"name": "c",
            "image": "i", "volumeMounts": [{"name": "kube-api-access-q7w2n",
                "mountPath": "/a"}]}]}),
        json!({"volumes": [{"name": "v"}], "containers": [{"name": "c", "image": "i",
            "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}}}]}),
    ] {
        assert_eq!(problems(&patch), [""; 0], "{patch}");
    }
}

#[test]
fn each_broken_rule_is_named() {
    let c = "spec.containers[0]";
    let cases: Vec<(Value, Vec<String>)> = vec![
        (
            json!({"containers": null}),
            vec!["spec.containers: Required value".into()],
        ),
        (
            json!({"containers": [{}]}),
            vec![
                format!("{c}.name: Required value"),
                format!("{c}.image: Required value"),
            ],
        ),
        (
            json!({"containers": [{"name": "A_", "image": " i"}]}),
            vec![
                format!("{c}.name: Invalid value: \"A_\""),
                format!("{c}.image: Invalid"),
            ],
        ),
        (
            json!({"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}],
                "initContainers": [{"name": "a", "image": "i"}]}),
            vec![
                "spec.containers[1].name: Duplicate value: \"a\"".into(),
                "spec.initContainers[0].name: Duplicate value: \"a\"".into(),
            ],
        ),
        (
            one_container(json!({"imagePullPolicy": "Often"})),
            vec![format!("{c}.imagePullPolicy: Unsupported value: \"Often\"")],
        ),
        (
            one_container(
                json!({"ports": [{}, {"containerPort": 70000, "hostPort": -1},
                {"containerPort": 1, "name": "UP", "protocol": "ICMP"},
                {"containerPort": 2, "name": "x"}, {"containerPort": 3, "name": "x"}]}),
            ),
            vec![
                format!("{c}.ports[0].containerPort: Required"),
                format!("{c}.ports[1].containerPort: Invalid value: 70000"),
                format!("{c}.ports[1].hostPort: Invalid value: -1"),
                format!("{c}.ports[2].name: Invalid value: \"UP\": must contain only"),
                format!("{c}.ports[2].name: Invalid value: \"UP\": must contain at least one"),
                format!("{c}.ports[2].protocol: Unsupported value: \"ICMP\""),
                format!("{c}.ports[4].name: Duplicate value: \"x\""),
            ],
        ),
        (
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i",
                "ports": [{"containerPort": 80, "hostPort": 81}]}]}),
            vec![format!(
                "{c}.ports[0].hostPort: Invalid value: 81: must match"
            )],
        ),
        (
            json!({"containers": [
                {"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 9}]},
                {"name": "b", "image": "i", "ports": [{"containerPort": 2, "hostPort": 9}]}]}),
            vec!["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//9\"".into()],
        ),
        (
            one_container(
                json!({"env": [{}, {"name": "a=b"}, {"name": "A", "value": "x",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "valueFrom": {}}]}),
            ),
            vec![
                format!("{c}.env[0].name: Required"),
                format!("{c}.env[1].name: Invalid"),
                format!("{c}.env[2].valueFrom: Invalid"),
                format!("{c}.env[3].valueFrom: Invalid"),
            ],
        ),
        (
            one_container(json!({"volumeMounts": [{"name": "no", "mountPath": "/a"}]})),
            vec![format!("{c}.volumeMounts[0].name: Not found: \"no\"")],
        ),
        (
            one_container(
                json!({"resources": {"limits": {"cpu": "1", "memory": "many"},
                "requests": {"cpu": "2", "x y": "1", "a.b/z": "-1", "q": "1"}}}),
            ),
            vec![
                format!("{c}.resources.limits[memory]: Invalid value: \"many\""),
                format!("{c}.resources.requests[a.b/z]: Invalid value: \"-1\""),
                format!("{c}.resources.limits: Required value: Limit must be set"),
                format!("{c}.resources.requests: Invalid value: \"2\": must be less"),
                format!("{c}.resources.requests[memory]: Invalid value: \"many\""),
                format!("{c}.resources.requests[q]: Invalid value: \"q\": must be a standard resource type"),
                format!("{c}.resources.requests[q]: Invalid value: \"q\": must be a standard resource for"),
                format!("{c}.resources.requests[x y]: Invalid value: \"x y\""),
            ],
        ),
        (
            one_container(json!({"resources": {"limits":
                {"a.b/z": "1.5", "hugepages-2Mi": "3Mi", "ephemeral-storage": "-1"}}})),
            vec![
                format!("{c}.resources.limits[a.b/z]: Invalid value: \"1500m\": must be an integer"),
                format!("{c}.resources.limits[ephemeral-storage]: Invalid value: \"-1\""),
                format!("{c}.resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not"),
                format!("{c}.resources.requests[a.b/z]: Invalid value: \"1500m\": must be an integer"),
                format!("{c}.resources.requests[ephemeral-storage]: Invalid value: \"-1\""),
                format!("{c}.resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not"),
                format!("{c}.resources: Forbidden: HugePages require cpu or memory"),
            ],
        ),
        (
            json!({"volumes": [
                {"name": "a", "iscsi": {"iqn": "x"}},
                {"name": "b", "configMap": {"name": "m", "defaultMode": 999,
                    "items": [{"path": "..a"}]}},
                {"name": "d", "downwardAPI": {"items": [{"path": "x",
                    "fieldRef": {"fieldPath": "metadata.labels['a b']"}}]}},
                {"name": "e", "downwardAPI": {"items": [{"path": "x",
                    "fieldRef": {"fieldPath": "spec.nowhere"}}]}}]}),
            vec![
                "spec.volumes[0].iscsi.targetPortal: Required".into(),
                "spec.volumes[1].configMap.defaultMode: Invalid value: 999".into(),
                "spec.volumes[1].configMap.items[0].key: Required".into(),
                "spec.volumes[1].configMap.items[0].path: Invalid value: \"..a\": must not start with".into(),
                "spec.volumes[2].downwardAPI.fieldRef.fieldPath: Invalid value: \"a b\"".into(),
                "spec.volumes[3].downwardAPI.fieldRef.fieldPath: Invalid value: \"spec.nowhere\": error converting".into(),
            ],
        ),
        (
            json!({"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "-"}],
                "preferredDuringSchedulingIgnoredDuringExecution":
                    [{"weight": 0, "podAffinityTerm": {}}]}}}),
            vec![
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid".into(),
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0".into(),
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Required".into(),
            ],
        ),
        (
            one_container(
                json!({"livenessProbe": {"periodSeconds": -1, "successThreshold": 2},
                "readinessProbe": {"exec": {}, "grpc": {"port": 1}}}),
            ),
            vec![
                format!("{c}.livenessProbe.periodSeconds: Invalid value: -1"),
                format!("{c}.livenessProbe.successThreshold: Invalid value: 2: must be 1"),
                format!("{c}.livenessProbe: Required value"),
                format!("{c}.readinessProbe.grpc: Forbidden"),
                format!("{c}.readinessProbe.exec.command: Required"),
            ],
        ),
        (
            json!({"initContainers": [{"name": "i", "image": "i", "lifecycle": {},
                "livenessProbe": {}}]}),
            vec![
                "spec.initContainers[0].lifecycle: Forbidden".into(),
                "spec.initContainers[0].livenessProbe: Forbidden".into(),
            ],
        ),
        (
            json!({"volumes": [{}, {"name": "A"}, {"name": "v"}, {"name": "v"},
                {"name": "w", "emptyDir": {}, "secret": {}}]}),
            vec![
                "spec.volumes[0].name: Required".into(),
                "spec.volumes[1].name: Invalid".into(),
                "spec.volumes[3].name: Duplicate".into(),
                "spec.volumes[4].secret: Forbidden".into(),
            ],
        ),
        (
            json!({"volumes": [{"name": "kube-api-access-q7w2n"},
                {"name": "kube-api-access-q7w2n"}], "containers": [{"name": "c", "image": "i",
                "volumeMounts": [{"name": "kube-api-access-q7w2n", "mountPath": "/a"},
                    {"name": "kube-api-access-00000", "mountPath": "/b"}]}]}),
            vec![
                "spec.volumes[1].name: Duplicate value: \"kube-api-access-q7w2n\"".into(),
                format!("{c}.volumeMounts[1].name: Not found: \"kube-api-access-00000\""),
            ],
        ),
        (
            json!({"volumes": [{"name": "kube-api-access-*"}]}),
            vec!["spec.volumes[0].name: Invalid value: \"kube-api-access-*\"".into()],
        ),
        (
            json!({"restartPolicy": "Sometimes", "dnsPolicy": "Any", "hostname": "a.b",
                "activeDeadlineSeconds": 0, "nodeName": "N", "serviceAccountName": "A"}),
            vec![
                "spec.restartPolicy: Unsupported value: \"Sometimes\"".into(),
                "spec.dnsPolicy: Unsupported value: \"Any\"".into(),
                "spec.activeDeadlineSeconds: Invalid value: 0".into(),
                "spec.nodeName: Invalid value: \"N\"".into(),
                "spec.serviceAccountName: Invalid value: \"A\"".into(),
                "spec.hostname: Invalid value: \"a.b\"".into(),
            ],
        ),
        (
            json!({"nodeSelector": {"-": "x"}}),
            vec!["spec.nodeSelector: Invalid value: \"-\"".into()],
        ),
        (
            json!({"tolerations": [{}, {"key": "a", "operator": "In"}, {"key": "a",
                "operator": "Exists", "value": "x"}, {"key": "a", "tolerationSeconds": 1},
                {"key": "a", "effect": "Never"}]}),
            vec![
                "spec.tolerations[0].operator: Invalid value: \"\"".into(),
                "spec.tolerations[1].operator: Unsupported value: \"In\"".into(),
                "spec.tolerations[2].operator: Invalid value: \"x\"".into(),
                "spec.tolerations[3].effect: Invalid value: \"\"".into(),
                "spec.tolerations[4].effect: Unsupported value: \"Never\"".into(),
            ],
        ),
        (
            json!({"topologySpreadConstraints": [{"whenUnsatisfiable": "Wait"}]}),
            vec![
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0".into(),
                "spec.topologySpreadConstraints[0].topologyKey: Required".into(),
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported".into(),
            ],
        ),
        (
            json!({"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"}),
            vec![
                "spec.schedulingGates[1]: Duplicate value: \"a\"".into(),
                "spec.nodeName: Forbidden".into(),
            ],
        ),
    ];
    for (patch, starts) in cases {
        let found = problems(&patch);
        assert_starts(&found, &starts, &patch);
    }
}
