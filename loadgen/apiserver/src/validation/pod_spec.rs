//! The rules of a pod spec, of a pod or of a template.

use podstorm_objects::Labels;
use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::container::{self, Role, Surroundings, choice, items, member, number, text};
use super::metadata::check_labels;
use super::{Causes, names};

/// Checks the members of a defaulted pod spec, names of volumes in full. `node_name` is its
/// `nodeName`.
pub(super) fn check(
    fields: JsonValue<'_>,
    node_name: Option<&str>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let volumes = check_volumes(fields, path, causes);
    check_containers(fields, &volumes, path, causes);
    match text(fields, "restartPolicy") {
        "" => causes.required(&path.member("restartPolicy"), ""),
        _ => choice(
            fields,
            "restartPolicy",
            &["Always", "OnFailure", "Never"],
            path,
            causes,
        ),
    }
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    match text(fields, "dnsPolicy") {
        "" => causes.required(&path.member("dnsPolicy"), ""),
        _ => choice(fields, "dnsPolicy", &policies, path, causes),
    }
    choice(
        fields,
        "preemptionPolicy",
        &["PreemptLowerPriority", "Never"],
        path,
        causes,
    );
    if let Some(seconds) = fields
        .get("activeDeadlineSeconds")
        .and_then(|it| it.as_i64())
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.invalid(&path.member("activeDeadlineSeconds"), seconds, detail);
    }
    check_node_name(node_name, path, causes);
    for (key, rule) in [
        ("serviceAccountName", names::dns_subdomain as names::Rule),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
    ] {
        let value = text(fields, key);
        if !value.is_empty() {
            causes.text(&path.member(key), value, rule(value));
        }
    }
    if let Some(selector) = fields.get("nodeSelector")
        && let Ok(labels) = Labels::read(selector, path)
    {
        check_labels(&labels, &path.member("nodeSelector"), causes);
    }
    if let Some(resources) = member(fields, "resources") {
        container::check_resources(resources, &path.member("resources"), causes);
    }
    check_tolerations(fields, path, causes);
    check_topology_spread(fields, path, causes);
    check_gates(fields, node_name, path, causes);
}

pub(super) fn check_node_name(name: Option<&str>, path: &Path<'_>, causes: &mut Causes) {
    if let Some(name) = name {
        causes.text(&path.member("nodeName"), name, names::dns_subdomain(name));
    }
}

/// Checks the volumes and returns their names.
fn check_volumes<'a>(fields: JsonValue<'a>, path: &Path<'_>, causes: &mut Causes) -> Vec<&'a str> {
    let list = path.member("volumes");
    let mut seen = Vec::new();
    for (index, volume) in items(fields, "volumes") {
        let path = list.item(index);
        let name_path = path.member("name");
        let name = text(volume, "name");
        if name.is_empty() {
            causes.required(&name_path, "");
        } else if let Some(problem) = names::dns_label(name) {
            causes.invalid(&name_path, name, problem);
        } else if seen.contains(&name) {
            causes.duplicate(&name_path, name);
        }
        let mut sources = volume
            .pairs()
            .filter(|(key, value)| *key != "name" && !value.is_null());
        if sources.next().is_none() {
            causes.required(&path, "must specify a volume type");
        }
        for (source, _) in sources {
            causes.forbidden(
                &path.member(source),
                "may not specify more than 1 volume type",
            );
        }
        seen.push(name);
    }
    seen
}

fn check_containers(fields: JsonValue<'_>, volumes: &[&str], path: &Path<'_>, causes: &mut Causes) {
    let host_network = fields
        .get("hostNetwork")
        .is_some_and(|it| it.as_bool() == Some(true));
    let around = Surroundings {
        volumes,
        host_network,
    };
    if items(fields, "containers").next().is_none() {
        causes.required(&path.member("containers"), "");
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut host_ports: Vec<(&str, &str, i64)> = Vec::new();
    for (key, role) in [("containers", Role::Main), ("initContainers", Role::Init)] {
        let list = path.member(key);
        for (index, container) in items(fields, key) {
            let path = list.item(index);
            container::check(container, role, around, &path, causes);
            let name = text(container, "name");
            if seen.contains(&name) && !name.is_empty() {
                causes.duplicate(&path.member("name"), name);
            }
            seen.push(name);
            // Init containers run one after another, so that their host ports may repeat.
            if role == Role::Main {
                check_host_ports(container, &mut host_ports, &path, causes);
            }
        }
    }
}

/// Checks that no two containers take one port of the host.
fn check_host_ports<'a>(
    container: JsonValue<'a>,
    seen: &mut Vec<(&'a str, &'a str, i64)>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let list = path.member("ports");
    for (index, port) in items(container, "ports") {
        let number = number(port, "hostPort");
        if number == 0 {
            continue;
        }
        let taken = (text(port, "protocol"), text(port, "hostIP"), number);
        if seen.contains(&taken) {
            let path = list.item(index);
            let shown = format!("{}/{}/{number}", taken.0, taken.1);
            causes.duplicate(&path.member("hostPort"), shown);
        } else {
            seen.push(taken);
        }
    }
}

fn check_tolerations(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("tolerations");
    for (index, toleration) in items(fields, "tolerations") {
        let path = list.item(index);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let effect = text(toleration, "effect");
        let operator_path = path.member("operator");
        if key.is_empty() {
            if operator != "Exists" {
                let detail = "must be Exists when key is empty, which means all keys";
                causes.invalid(&operator_path, operator, detail);
            }
        } else {
            causes.text(&path.member("key"), key, names::qualified_name(key));
        }
        let seconds = toleration
            .get("tolerationSeconds")
            .is_some_and(|value| !value.is_null());
        if seconds && effect != "NoExecute" {
            let detail = "must be NoExecute when tolerationSeconds is set";
            causes.invalid(&path.member("effect"), effect, detail);
        }
        let value = text(toleration, "value");
        match operator {
            "" | "Equal" => causes.text(&operator_path, value, names::label_value(value)),
            "Exists" if !value.is_empty() => {
                causes.invalid(
                    &operator_path,
                    value,
                    "value must be empty when operator is Exists",
                );
            }
            "Exists" => {}
            other => causes.not_supported(&operator_path, other, &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        choice(toleration, "effect", &effects, &path, causes);
    }
}

fn check_topology_spread(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("topologySpreadConstraints");
    for (index, constraint) in items(fields, "topologySpreadConstraints") {
        let path = list.item(index);
        let skew = number(constraint, "maxSkew");
        if skew <= 0 {
            causes.invalid(&path.member("maxSkew"), skew, "must be greater than zero");
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            causes.required(&path.member("topologyKey"), "can not be empty");
        } else {
            causes.text(&path.member("topologyKey"), key, names::qualified_name(key));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        let action = text(constraint, "whenUnsatisfiable");
        if !actions.contains(&action) {
            causes.not_supported(&path.member("whenUnsatisfiable"), action, &actions);
        }
    }
}

fn check_gates(
    fields: JsonValue<'_>,
    node_name: Option<&str>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let list = path.member("readinessGates");
    for (index, gate) in items(fields, "readinessGates") {
        let (path, kind) = (list.item(index), text(gate, "conditionType"));
        causes.text(
            &path.member("conditionType"),
            kind,
            names::qualified_name(kind),
        );
    }
    let list = path.member("schedulingGates");
    let mut seen: Vec<&str> = Vec::new();
    for (index, gate) in items(fields, "schedulingGates") {
        let (path, name) = (list.item(index), text(gate, "name"));
        causes.text(&path, name, names::qualified_name(name));
        if seen.contains(&name) {
            causes.duplicate(&path, name);
        }
        seen.push(name);
    }
    if node_name.is_some() && !seen.is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.forbidden(&path.member("nodeName"), detail);
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Pod;
    use serde_json::{Value, json};

    use super::super::super::defaulting::default_pod;
    use super::super::testing::{merged, read, texts};
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
                    format!("{c}.ports[2].name: Invalid value: \"UP\""),
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
                    "valueFrom": {"fieldRef": {}}}, {"name": "B", "valueFrom": {}}]}),
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
                    "requests": {"cpu": "2", "x y": "1", "z": "-1"}}}),
                ),
                vec![
                    format!("{c}.resources.limits[memory]: Invalid value: \"many\""),
                    format!("{c}.resources.requests: Invalid value: \"2\": must be less"),
                    format!("{c}.resources.requests[memory]: Invalid value: \"many\""),
                    format!("{c}.resources.requests[x y]: Invalid value: \"x y\""),
                    format!("{c}.resources.requests[z]: Invalid value: \"-1\""),
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
                ],
            ),
            (
                json!({"initContainers": [{"name": "i", "image": "i", "lifecycle": {},
                    "livenessProbe": {}}]}),
                vec![
                    "spec.initContainers[0].livenessProbe: Forbidden".into(),
                    "spec.initContainers[0].lifecycle: Forbidden".into(),
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
            assert_eq!(found.len(), starts.len(), "{patch}: {found:?}");
            for (found, start) in found.iter().zip(starts) {
                assert!(
                    found.starts_with(&start),
                    "{found} should start with {start}"
                );
            }
        }
    }
}
