//! Tests of the rules of pod specs.

use podstorm_objects::Pod;
use serde_json::{Value, json};

use super::super::super::defaulting::default_pod;
use super::super::testing::{assert_starts, cases, merged, read, texts};
use super::*;

fn problems(patch: &Value) -> Vec<String> {
    let base = json!({"spec": {"containers": [{"name": "c", "image": "img"}]}});
    let mut pod: Pod = read(merged(base, &json!({"spec": patch})));
    default_pod(&mut pod);
    let mut causes = Causes::default();
    let path = Path::ROOT.member("spec");
    pod.look_at_spec(|spec| {
        check(spec, pod.node_name.as_deref(), &path, &mut causes);
    });
    texts(&causes.found())
}

fn one_container(members: Value) -> Value {
    json!({"containers": [merged(json!({"name": "c", "image": "img"}), &members)]})
}

#[test]
fn valid_specs_break_no_rule_and_broken_rules_are_reported() {
    let specs = r#"
{}

{"nodeName": "n1", "activeDeadlineSeconds": 1, "nodeSelector": {"zone": "a"}}

{"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always",
    "startupProbe": {"exec": {"command": ["true"]}}}]}

{"tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoExecute",
    "tolerationSeconds": 0}]}

{"terminationGracePeriodSeconds": -1}

{"volumes": [{"name": "kube-api-access-q7w2n"}], "containers": [{"name": "c", "image": "i",
    "volumeMounts": [{"name": "kube-api-access-q7w2n", "mountPath": "/a"}]}]}

{"volumes": [{"name": "v"}], "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v",
    "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}], "resources": {"limits": {"cpu": "1"},
    "requests": {"cpu": "1000m"}}}]}

{"containers": null}
> spec.containers: Required value

{"containers": [{}]}
> spec.containers[0].name: Required value
> spec.containers[0].image: Required value

{"containers": [{"name": "A_", "image": " i"}]}
> spec.containers[0].name: Invalid value: "A_"
> spec.containers[0].image: Invalid

{"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}], "initContainers": [{"name": "a",
    "image": "i"}]}
> spec.containers[1].name: Duplicate value: "a"
> spec.initContainers[0].name: Duplicate value: "a"

{"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80,
    "hostPort": 81}]}]}
> spec.containers[0].ports[0].hostPort: Invalid value: 81: must match

{"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 9}]}, {"name": "b",
    "image": "i", "ports": [{"containerPort": 2, "hostPort": 9}]}]}
> spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//9"

{"volumes": [{"name": "a", "iscsi": {"iqn": "x"}}, {"name": "b", "configMap": {"name": "m",
    "defaultMode": 999, "items": [{"path": "..a"}]}}, {"name": "d", "downwardAPI": {"items": [{"path": "x",
    "fieldRef": {"fieldPath": "metadata.labels['a b']"}}]}}, {"name": "e",
    "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "spec.nowhere"}}]}}]}
> spec.volumes[0].iscsi.targetPortal: Required
> spec.volumes[1].configMap.defaultMode: Invalid value: 999
> spec.volumes[1].configMap.items[0].key: Required
> spec.volumes[1].configMap.items[0].path: Invalid value: "..a": must not start with
> spec.volumes[2].downwardAPI.fieldRef.fieldPath: Invalid value: "a b"
> spec.volumes[3].downwardAPI.fieldRef.fieldPath: Invalid value: "spec.nowhere": error converting

{"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "-"}],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {}}]}}}
> spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid
> spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0
> spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Required
> spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Invalid value: "": name part must be non-empty
> spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Invalid value: "": name part must consist of

{"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", "namespaces": ["ok", "Bad_", "a.b"]}]}}}
> spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "Bad_": a lowercase RFC 1123 label
> spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "a.b": must not contain dots

{"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "i", "lifecycle": {"postStart": {"httpGet": {"port": 0}, "exec": {"command": ["a"]}, "sleep": {"seconds": 99}}, "preStop": {"sleep": {"seconds": 6}}}}]}
> spec.containers[0].lifecycle.postStart.httpGet: Forbidden: may not specify more than 1 handler type
> spec.containers[0].lifecycle.postStart.sleep: Forbidden: may not specify more than 1 handler type
> spec.containers[0].lifecycle.preStop.sleep: Invalid value: 6: must be non-negative and less than terminationGracePeriodSeconds (5)

{"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}, "livenessProbe": {"tcpSocket": {"port": 1}, "grpc": {"port": 0}}}]}
> spec.containers[0].livenessProbe.grpc: Forbidden: may not specify more than 1 handler type

{"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}]}]}
> spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2

{"initContainers": [{"name": "i", "image": "i", "lifecycle": {}, "livenessProbe": {}}]}
> spec.initContainers[0].lifecycle: Forbidden
> spec.initContainers[0].livenessProbe: Forbidden

{"volumes": [{}, {"name": "A"}, {"name": "v"}, {"name": "v"}, {"name": "w", "emptyDir": {}, "secret": {}}]}
> spec.volumes[0].name: Required
> spec.volumes[1].name: Invalid
> spec.volumes[3].name: Duplicate
> spec.volumes[4].secret: Forbidden

{"volumes": [{"name": "kube-api-access-q7w2n"}, {"name": "kube-api-access-q7w2n"}],
    "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "kube-api-access-q7w2n",
    "mountPath": "/a"}, {"name": "kube-api-access-00000", "mountPath": "/b"}]}]}
> spec.volumes[1].name: Duplicate value: "kube-api-access-q7w2n"
> spec.containers[0].volumeMounts[1].name: Not found: "kube-api-access-00000"

{"volumes": [{"name": "kube-api-access-*"}]}
> spec.volumes[0].name: Invalid value: "kube-api-access-*"

{"restartPolicy": "Sometimes", "dnsPolicy": "Any", "hostname": "a.b", "activeDeadlineSeconds": 0,
    "nodeName": "N", "serviceAccountName": "A"}
> spec.restartPolicy: Unsupported value: "Sometimes"
> spec.dnsPolicy: Unsupported value: "Any"
> spec.activeDeadlineSeconds: Invalid value: 0
> spec.nodeName: Invalid value: "N"
> spec.serviceAccountName: Invalid value: "A"
> spec.hostname: Invalid value: "a.b"

{"nodeSelector": {"-": "x"}}
> spec.nodeSelector: Invalid value: "-"

{"tolerations": [{}, {"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "value": "x"},
    {"key": "a", "tolerationSeconds": 1}, {"key": "a", "effect": "Never"}]}
> spec.tolerations[0].operator: Invalid value: ""
> spec.tolerations[1].operator: Unsupported value: "In"
> spec.tolerations[2].operator: Invalid value: "x"
> spec.tolerations[3].effect: Invalid value: ""
> spec.tolerations[4].effect: Unsupported value: "Never"

{"topologySpreadConstraints": [{"whenUnsatisfiable": "Wait"}]}
> spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0
> spec.topologySpreadConstraints[0].topologyKey: Required
> spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported

{"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"}
> spec.schedulingGates[1]: Duplicate value: "a"
> spec.nodeName: Forbidden
"#;
    let containers = r#"
{"ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "hostPort": 80}]}

{"imagePullPolicy": "Often"}
> spec.containers[0].imagePullPolicy: Unsupported value: "Often"

{"ports": [{}, {"containerPort": 70000, "hostPort": -1}, {"containerPort": 1, "name": "UP",
    "protocol": "ICMP"}, {"containerPort": 2, "name": "x"}, {"containerPort": 3, "name": "x"}]}
> spec.containers[0].ports[0].containerPort: Required
> spec.containers[0].ports[1].containerPort: Invalid value: 70000
> spec.containers[0].ports[1].hostPort: Invalid value: -1
> spec.containers[0].ports[2].name: Invalid value: "UP": must contain only
> spec.containers[0].ports[2].name: Invalid value: "UP": must contain at least one
> spec.containers[0].ports[2].protocol: Unsupported value: "ICMP"
> spec.containers[0].ports[4].name: Duplicate value: "x"

{"env": [{}, {"name": "a=b"}, {"name": "A", "value": "x",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "valueFrom": {}}]}
> spec.containers[0].env[0].name: Required
> spec.containers[0].env[1].name: Invalid
> spec.containers[0].env[2].valueFrom: Invalid
> spec.containers[0].env[3].valueFrom: Invalid

{"volumeMounts": [{"name": "no", "mountPath": "/a"}]}
> spec.containers[0].volumeMounts[0].name: Not found: "no"

{"resources": {"limits": {"cpu": "1", "memory": "many"}, "requests": {"cpu": "2", "x y": "1", "a.b/z": "-1",
    "q": "1"}}}
> spec.containers[0].resources.limits[memory]: Invalid value: "many"
> spec.containers[0].resources.requests[a.b/z]: Invalid value: "-1"
> spec.containers[0].resources.limits: Required value: Limit must be set
> spec.containers[0].resources.requests: Invalid value: "2": must be less
> spec.containers[0].resources.requests[memory]: Invalid value: "many"
> spec.containers[0].resources.requests[q]: Invalid value: "q": must be a standard resource type
> spec.containers[0].resources.requests[q]: Invalid value: "q": must be a standard resource for
> spec.containers[0].resources.requests[x y]: Invalid value: "x y"

{"resources": {"limits": {"a.b/z": "1.5", "hugepages-2Mi": "3Mi", "ephemeral-storage": "-1"}}}
> spec.containers[0].resources.limits[a.b/z]: Invalid value: "1500m": must be an integer
> spec.containers[0].resources.limits[ephemeral-storage]: Invalid value: "-1"
> spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not
> spec.containers[0].resources.requests[a.b/z]: Invalid value: "1500m": must be an integer
> spec.containers[0].resources.requests[ephemeral-storage]: Invalid value: "-1"
> spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not
> spec.containers[0].resources: Forbidden: HugePages require cpu or memory

{"livenessProbe": {"periodSeconds": -1, "successThreshold": 2}, "readinessProbe": {"exec": {},
    "grpc": {"port": 1}}}
> spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1
> spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
> spec.containers[0].livenessProbe: Required value
> spec.containers[0].readinessProbe.exec.command: Required
> spec.containers[0].readinessProbe.grpc: Forbidden
"#;
    for (patch, starts) in cases(specs) {
        assert_starts(&problems(&patch), &starts, &patch);
    }
    for (members, starts) in cases(containers) {
        assert_starts(
            &problems(&one_container(members.clone())),
            &starts,
            &members,
        );
    }
}
