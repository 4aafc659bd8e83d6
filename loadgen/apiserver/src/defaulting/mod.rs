//! What the API server fills in: the defaults of ReplicaSets, ReplicationControllers and pods, as
//! Kubernetes 1.36 sets them.
//!
//! All functions are pure. A pod spec that needs nothing keeps its allocation, so pods and
//! templates that share one go on sharing it.

mod fill;

use std::sync::Arc;

use podstorm_objects::json::JsonValue;
use podstorm_objects::{Pod, PodSpec, PodTemplate, Quantity, ReplicaSet, ReplicationController};

use self::fill::{DefaultValue, Fill, MissingMembers};

/// Mode of files in volumes made from API objects: 0644.
const FILE_MODE: DefaultValue = DefaultValue::Number(0o644);
/// Seconds until a projected service-account token expires.
const TOKEN_SECONDS: DefaultValue = DefaultValue::Number(3600);

/// Fills in a ReplicaSet: one replica, and the defaults of its pod template.
pub fn default_replica_set(replica_set: &mut ReplicaSet) {
    default_replicas(replica_set);
    default_template(&mut replica_set.spec.template);
}

/// Fills in a ReplicaSet but for its pod template.
pub fn default_replicas(replica_set: &mut ReplicaSet) {
    replica_set.spec.replicas.get_or_insert(1);
}

/// Fills in a ReplicationController: one replica, the template's labels as selector and as its
/// own labels where those are empty, and the defaults of its pod template.
pub fn default_replication_controller(controller: &mut ReplicationController) {
    controller.replicas.get_or_insert(1);
    let Some(template) = &mut controller.template else {
        return;
    };
    let labels = &template.metadata.labels;
    if !labels.is_empty() {
        if controller.selector.is_empty() {
            controller.selector = labels.clone();
        }
        if controller.metadata.labels.is_empty() {
            controller.metadata.labels = labels.clone();
        }
    }
    default_template(template);
}

/// Fills in a pod: the defaults of any pod spec, and those of pods alone: requests from limits,
/// service links, host ports of pods in the host's network.
pub fn default_pod(pod: &mut Pod) {
    default_spec(&mut pod.spec, true);
}

/// Fills in the spec of a pod template.
pub fn default_template(template: &mut Arc<PodTemplate>) {
    let mut spec = template.spec.clone();
    default_spec(&mut spec, false);
    if !Arc::ptr_eq(&spec, &template.spec) {
        Arc::make_mut(template).spec = spec;
    }
}

/// The quality-of-service class of a pod with this spec: `Guaranteed`, `Burstable`, `BestEffort`.
pub fn qos_class(spec: &PodSpec) -> &'static str {
    spec.look(None, class_of)
}

fn class_of(spec: JsonValue<'_>) -> &'static str {
    // Requests and limits of the pod as a whole, where given, stand for those of its containers.
    let of_pod = spec
        .get("resources")
        .filter(|resources| has_amounts(Some(*resources)));
    let lists = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| spec.get(list));
    let containers = lists.flat_map(|list| list.items());
    let all: Vec<Option<JsonValue<'_>>> = match of_pod {
        Some(resources) => vec![Some(resources)],
        None => containers
            .map(|container| container.get("resources"))
            .collect(),
    };
    if !all.iter().any(|resources| has_amounts(*resources)) {
        "BestEffort"
    } else if all.iter().all(|resources| is_guaranteed(*resources)) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The amount of CPU or memory under `list`, unless absent, unreadable or zero.
fn amount(resources: Option<JsonValue<'_>>, list: &str, resource: &str) -> Option<Quantity> {
    let value = resources?.get(list)?.get(resource)?;
    Quantity::read(value)
        .ok()
        .filter(|amount| !amount.is_zero())
}

fn has_amounts(resources: Option<JsonValue<'_>>) -> bool {
    ["requests", "limits"].into_iter().any(|list| {
        ["cpu", "memory"]
            .into_iter()
            .any(|name| amount(resources, list, name).is_some())
    })
}

fn is_guaranteed(resources: Option<JsonValue<'_>>) -> bool {
    ["cpu", "memory"].into_iter().all(|name| {
        let limit = amount(resources, "limits", name);
        // A request that is absent is the limit.
        let request = amount(resources, "requests", name).or(limit);
        limit.is_some() && request == limit
    })
}

fn default_spec(spec: &mut Arc<PodSpec>, is_pod: bool) {
    fn fill<T: Fill>(spec: &mut T, is_pod: bool) {
        fill_spec(spec);
        if is_pod {
            fill_pod_only(spec);
        }
    }
    // Most specs that come from a server lack nothing.
    let is_complete = spec.look(None, |members| {
        let mut look = MissingMembers::at(members);
        fill(&mut look, is_pod);
        !look.lacks
    });
    if is_complete {
        return;
    }
    let mut members = spec.to_map(None);
    fill(&mut members, is_pod);
    // Defaults keep every member readable; should one not be, validation says so.
    if let Ok(filled) = spec.with_members(members) {
        *spec = filled.into();
    }
}

fn fill_spec(spec: &mut impl Fill) {
    spec.set("restartPolicy", DefaultValue::Text("Always"));
    spec.set("dnsPolicy", DefaultValue::Text("ClusterFirst"));
    spec.set("schedulerName", DefaultValue::Text("default-scheduler"));
    spec.set_absent("terminationGracePeriodSeconds", DefaultValue::Number(30));
    spec.set_absent("securityContext", DefaultValue::EmptyObject);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        spec.each(list, fill_container);
    }
    spec.each("volumes", fill_volume);
}

fn fill_container<T: Fill>(container: &mut T) {
    let policy = match tag(container.text("image")) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    };
    container.set("imagePullPolicy", DefaultValue::Text(policy));
    let message = DefaultValue::Text("/dev/termination-log");
    container.set("terminationMessagePath", message);
    container.set("terminationMessagePolicy", DefaultValue::Text("File"));
    container.each("ports", |port| {
        port.set("protocol", DefaultValue::Text("TCP"))
    });
    container.each("env", |variable| {
        variable.with("valueFrom", fill_field_reference);
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container.with(probe, |probe| {
            probe.set("timeoutSeconds", DefaultValue::Number(1));
            probe.set("periodSeconds", DefaultValue::Number(10));
            probe.set("successThreshold", DefaultValue::Number(1));
            probe.set("failureThreshold", DefaultValue::Number(3));
            probe.with("httpGet", fill_http_get);
        });
    }
    container.with("lifecycle", |lifecycle| {
        for moment in ["postStart", "preStop"] {
            lifecycle.with(moment, |handler| handler.with("httpGet", fill_http_get));
        }
    });
}

fn fill_http_get(action: &mut impl Fill) {
    action.set("path", DefaultValue::Text("/"));
    action.set("scheme", DefaultValue::Text("HTTP"));
}

fn fill_field_reference<T: Fill>(holder: &mut T) {
    holder.with("fieldRef", |reference| {
        reference.set("apiVersion", DefaultValue::Text("v1"));
    });
}

fn fill_volume<T: Fill>(volume: &mut T) {
    if !volume.has_others("name") {
        volume.set_absent("emptyDir", DefaultValue::EmptyObject);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        volume.with(source, |source| source.set_absent("defaultMode", FILE_MODE));
    }
    volume.with("hostPath", |source| {
        source.set_absent("type", DefaultValue::Text(""))
    });
    volume.with("downwardAPI", |source| {
        source.each("items", fill_field_reference)
    });
    volume.with("projected", |projected| {
        projected.each("sources", |source| {
            source.with("serviceAccountToken", |token| {
                token.set_absent("expirationSeconds", TOKEN_SECONDS);
            });
            source.with("downwardAPI", |source| {
                source.each("items", fill_field_reference)
            });
        });
    });
}

fn fill_pod_only(spec: &mut impl Fill) {
    spec.set_absent("enableServiceLinks", DefaultValue::True);
    let in_host_network = spec.is_true("hostNetwork");
    for list in ["containers", "initContainers"] {
        spec.each(list, |container| {
            // What is limited but not requested is requested.
            container.with("resources", |resources| {
                resources.copy_members("limits", "requests");
            });
            if in_host_network {
                container.each("ports", |port| {
                    port.copy_number("containerPort", "hostPort")
                });
            }
        });
    }
}

/// The tag of an image; `latest` when it has neither tag nor digest, `None` with a digest alone.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => Some(tag),
        (None, Some(_)) => None,
        (None, None) => Some("latest"),
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Map;
    use podstorm_objects::{Object, Resource};
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
        assert_eq!(
            rs.spec.template.spec.termination_grace_period_seconds,
            Some(30)
        );
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
    fn what_is_complete_keeps_its_allocation() {
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
        assert_eq!(
            rs.spec.template.spec.termination_grace_period_seconds,
            Some(0)
        );
    }

    #[test]
    fn a_replication_controller_takes_selector_and_labels_from_its_template() {
        let read = |value| {
            let mut controller = ReplicationController::from_json(value).unwrap();
            default_replication_controller(&mut controller);
            (
                controller.replicas,
                controller.selector,
                controller.metadata.labels,
            )
        };
        let template = json!({"metadata": {"labels": {"app": "web"}}});
        let (replicas, selector, labels) = read(json!({"spec": {"template": template}}));
        assert_eq!(replicas, Some(1));
        assert_eq!(selector.to_json(), json!({"app": "web"}));
        assert!(labels.is_same(&selector));
        let (_, selector, labels) = read(json!({"metadata": {"labels": {"own": "1"}},
            "spec": {"selector": {"x": "y"}, "template": template}}));
        assert_eq!(selector.to_json(), json!({"x": "y"}));
        assert_eq!(labels.to_json(), json!({"own": "1"}));
        assert!(read(json!({"spec": {}})).1.is_absent());
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
        let container = &pod.spec.to_map(None)["containers"][0];
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert_eq!(
            container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"],
            "v1"
        );
        assert_eq!(
            container["readinessProbe"],
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
                "periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3})
        );
        assert_eq!(
            pod.spec.to_map(None)["volumes"],
            json!([{"name": "a", "emptyDir": {}},
                {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
                {"name": "c", "projected": {"defaultMode": 420, "sources":
                    [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}}])
        );
    }

    #[test]
    fn pods_alone_request_what_is_limited() {
        let pod = pod(
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i",
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}]}),
        );
        let container = &pod.spec.to_map(None)["containers"][0];
        assert_eq!(
            container["resources"]["requests"],
            json!({"cpu": "1", "memory": "1Gi"})
        );
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(pod.spec.to_map(None)["enableServiceLinks"], true);
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
            assert_eq!(
                pod.spec.to_map(None)["containers"][0]["imagePullPolicy"],
                policy,
                "{image}"
            );
        }
    }

    #[test]
    fn the_service_class_follows_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            (json!([{}]), "BestEffort"),
            (
                json!([{"resources": {"requests": {"ephemeral-storage": "1"}}}]),
                "BestEffort",
            ),
            (
                json!([{"resources": {"requests": {"cpu": "0"}}}]),
                "BestEffort",
            ),
            (
                json!([{"resources": {"requests": {"cpu": "1"}}}]),
                "Burstable",
            ),
            (json!([{"resources": {"limits": both}}]), "Guaranteed"),
            (
                json!([{"resources": {"limits": both,
                    "requests": {"cpu": "1000m", "memory": "1024Mi"}}}]),
                "Guaranteed",
            ),
            (
                json!([{"resources": {"limits": both, "requests": {"cpu": "1"}}}, {}]),
                "Burstable",
            ),
            (
                json!([{"resources": {"limits": both, "requests": {"cpu": "500m"}}}]),
                "Burstable",
            ),
        ];
        for (containers, class) in cases {
            let fields = Map::from_iter([("containers".to_owned(), containers.clone())]);
            assert_eq!(
                qos_class(&PodSpec::from_json(fields).unwrap()),
                class,
                "{containers}"
            );
        }
    }
}
