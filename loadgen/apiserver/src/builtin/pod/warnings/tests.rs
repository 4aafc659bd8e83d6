//! Tests of warnings about pods.

use serde_json::json;

use super::*;

fn warnings(spec: Value) -> Vec<String> {
    of_pod(&Value::Null, &spec, "spec.template")
}

#[test]
fn ports_of_two_containers_cause_warnings() {
    let port = |more: Value| {
        let mut port = json!({"containerPort": 80, "protocol": "TCP"});
        for (name, value) in more.as_object().unwrap() {
            port[name] = value.clone();
        }
        json!({"name": "c", "ports": [port]})
    };
    let pair = |one: Value, other: Value| warnings(json!({"containers": [port(one), port(other)]}));
    let told = |what: &str| {
        vec![format!(
            "spec.template.spec.containers[1].ports[0]: {what} port definition with \
             spec.template.spec.containers[0].ports[0]"
        )]
    };
    assert_eq!(pair(json!({}), json!({})), told("duplicate"));
    assert_eq!(pair(json!({}), json!({"hostPort": 1})), told("overlapping"));
    let host = json!({"hostPort": 1, "hostIP": "192.0.2.1"});
    let ambiguous = told("dangerously ambiguous");
    assert_eq!(pair(json!({"hostPort": 1}), host), ambiguous);
    assert!(pair(json!({}), json!({"containerPort": 81})).is_empty());
    assert!(pair(json!({}), json!({"protocol": "UDP"})).is_empty());
    let spec = json!({"containers": [port(json!({"name": "p", "hostIP": "::1"}))]});
    let alone = of_pod(&Value::Null, &spec, "");
    let wanted = "spec.containers[0].ports[0]: hostIP set without hostPort: {Name:p HostPort:0 \
                  ContainerPort:80 Protocol:TCP HostIP:::1}";
    assert_eq!(alone, [wanted]);
}

#[test]
fn a_variable_may_extend_one_of_its_name() {
    let env = |second: Value| {
        warnings(json!({"containers": [{"env": [{"name": "A", "value": "a"}, second]}]}))
    };
    assert!(env(json!({"name": "A", "value": "$(A)b"})).is_empty());
    for hiding in [json!({"value": "b"}), json!({"value": "$(A)"}), json!({})] {
        let mut variable = hiding;
        variable["name"] = "A".into();
        assert_eq!(env(variable).len(), 1);
    }
}

#[test]
fn deprecated_labels_and_null_selectors_cause_warnings() {
    let term = json!({"matchExpressions": [{"key": "beta.kubernetes.io/os"}]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let warnings = warnings(json!({
        "nodeSelector": {"node-role.kubernetes.io/master": ""},
        "topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}],
        "affinity": {
            "nodeAffinity": {required: {"nodeSelectorTerms": [term]},
                preferred: [{"preference": term}]},
            "podAntiAffinity": {required: [{}], preferred: [{"podAffinityTerm": {}}]}}}));
    let os = "beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead";
    let wanted = [
        "nodeSelector[node-role.kubernetes.io/master]: use \
         \"node-role.kubernetes.io/control-plane\" instead"
            .to_owned(),
        format!(
            "affinity.nodeAffinity.{required}.nodeSelectorTerms[0].matchExpressions[0].key: {os}"
        ),
        format!("affinity.nodeAffinity.{preferred}[0].preference.matchExpressions[0].key: {os}"),
        "topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is \
         deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
            .to_owned(),
        format!("topologySpreadConstraints[0].labelSelector: {NO_SELECTOR}"),
        format!("affinity.podAntiAffinity.{required}[0].labelSelector: {NO_SELECTOR}"),
        format!(
            "affinity.podAntiAffinity.{preferred}[0].podAffinityTerm.labelSelector: \
             {NO_SELECTOR}"
        ),
    ];
    assert_eq!(
        warnings,
        wanted.map(|text| format!("spec.template.spec.{text}"))
    );
}

#[test]
fn fields_without_effect_cause_warnings() {
    let pod = json!({
        "metadata": {"annotations": {
            "security.alpha.kubernetes.io/sysctls": "a=b",
            "seccomp.security.alpha.kubernetes.io/pod": "x",
            "container.seccomp.security.alpha.kubernetes.io/c": "x",
            "container.seccomp.security.alpha.kubernetes.io/d": "x"}},
        "spec": {"volumes": [{"name": "v", "rbd": {}}], "containers": [{"name": "c"},
            {"name": "d", "securityContext": {"seccompProfile": {"type": "Unconfined"}}}]}});
    let wanted = r#"
metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the "sysctls" field instead
spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+
metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead
metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead
"#;
    let warnings = of_pod(&pod["metadata"], &pod["spec"], "");
    assert_eq!(warnings.join("\n"), wanted.trim());
}

#[test]
fn odd_values_cause_warnings() {
    let warnings = warnings(json!({
        "terminationGracePeriodSeconds": -1,
        "hostAliases": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}, {"ip": "192.0.2.01"}],
        "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
        "dnsConfig": {"nameservers": ["::0:1", "::ffff:192.0.2.1", "2001:db8::1"]},
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec":
            {"resources": {"requests": {"storage": "1500m"}}}}}}],
        "containers": [{"name": "c", "resources": {"limits": {"memory": "0.5"}}}]}));
    let wanted = r#"
volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer
hostAliases[1].ip: duplicate ip "192.0.2.1"
imagePullSecrets[1].name: duplicate name "a"
imagePullSecrets[2].name: invalid empty name ""
containers[0].resources.limits[memory]: fractional byte value "500m" is invalid, must be an integer
terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1
dnsConfig.nameservers[0]: IPv6 address "::0:1" should be in RFC 5952 canonical format ("::1")
dnsConfig.nameservers[1]: non-standard IP address "::ffff:192.0.2.1" will be considered invalid in a future Kubernetes release: use "192.0.2.1"
hostAliases[2].ip: non-standard IP address "192.0.2.01" will be considered invalid in a future Kubernetes release: use "192.0.2.1"
"#;
    let wanted = wanted.trim().lines();
    let wanted: Vec<String> = wanted
        .map(|text| format!("spec.template.spec.{text}"))
        .collect();
    assert_eq!(warnings, wanted);
}

#[test]
fn overlapping_paths_in_a_volume_cause_warnings() {
    let items = |paths: &[&str]| -> Value {
        paths
            .iter()
            .map(|path| json!({"key": "k", "path": path}))
            .collect()
    };
    let warnings = warnings(json!({"volumes": [
        {"name": "a", "configMap": {"name": "m", "items": items(&["x", "x/y", "z"])}},
        {"name": "b", "projected": {"sources": [
            {"secret": {"name": "s", "items": items(&["k"])}},
            {"serviceAccountToken": {"path": "k"}}, {}]}}]}));
    let wanted = [
        "volume \"a\" (ConfigMap \"m\"): overlapping paths: \"x/y\" with \"x\"",
        "volume \"b\" (Projected ServiceAccountToken): overlapping paths: \"k\" with \"k\"",
        "volume \"b\" (Projected) has no sources provided",
    ];
    assert_eq!(warnings, wanted);
}
