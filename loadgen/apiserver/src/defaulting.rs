//! What the API server fills in: the defaults of ReplicaSets, ReplicationControllers and pods, as
//! Kubernetes 1.36 sets them.
//!
//! All functions are pure. A pod spec that needs nothing keeps its allocation, so pods and
//! templates that share one go on sharing it.

use std::sync::Arc;

use podstorm_objects::{
    Map, Pod, PodSpec, PodTemplate, Quantity, ReplicaSet, ReplicationController,
};
use serde_json::{Value, json};

/// Mode of files in volumes made from API objects: 0644.
const FILE_MODE: i32 = 0o644;
/// Seconds until a projected service-account token expires.
const TOKEN_SECONDS: i64 = 3600;

/// Fills in a ReplicaSet: one replica, and the defaults of its pod template.
pub fn default_replica_set(replica_set: &mut ReplicaSet) {
    let spec = &mut replica_set.spec;
    spec.replicas.get_or_insert(1);
    default_template(&mut spec.template);
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
    // Requests and limits of the pod as a whole, where given, stand for those of its containers.
    let of_pod = spec
        .fields
        .get("resources")
        .filter(|resources| has_amounts(resources));
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| {
            let items = spec.fields.get(list).and_then(Value::as_array);
            items
                .into_iter()
                .flatten()
                .map(|container| &container["resources"])
        });
    let all: Vec<&Value> = match of_pod {
        Some(resources) => vec![resources],
        None => containers.collect(),
    };
    if !all.iter().any(|resources| has_amounts(resources)) {
        "BestEffort"
    } else if all.iter().all(|resources| is_guaranteed(resources)) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The amount of CPU or memory under `list`, unless absent, unreadable or zero.
fn amount(resources: &Value, list: &str, resource: &str) -> Option<Quantity> {
    let value = resources.get(list)?.get(resource)?;
    Quantity::from_json(value)
        .ok()
        .filter(|amount| !amount.is_zero())
}

fn has_amounts(resources: &Value) -> bool {
    ["requests", "limits"].into_iter().any(|list| {
        ["cpu", "memory"]
            .into_iter()
            .any(|name| amount(resources, list, name).is_some())
    })
}

fn is_guaranteed(resources: &Value) -> bool {
    ["cpu", "memory"].into_iter().all(|name| {
        let limit = amount(resources, "limits", name);
        // A request that is absent is the limit.
        let request = amount(resources, "requests", name).or(limit);
        limit.is_some() && request == limit
    })
}

fn default_spec(spec: &mut Arc<PodSpec>, is_pod: bool) {
    // What nobody else holds is looked through where it is.
    let mut own = Arc::get_mut(spec);
    let mut fields = match &mut own {
        Some(own) => std::mem::take(&mut own.fields),
        None => spec.fields.clone(),
    };
    let mut filler = Filler { changed: false };
    filler.spec(&mut fields);
    if is_pod {
        filler.pod_only(&mut fields);
    }
    // Defaults keep every member readable; should one not be, validation says so.
    if filler.changed
        && let Ok(filled) = PodSpec::from_json(fields.clone())
    {
        *spec = filled.into();
    } else if let Some(own) = Arc::get_mut(spec) {
        own.fields = fields;
    }
}

/// Fills in members and remembers whether there was anything to fill.
struct Filler {
    changed: bool,
}

impl Filler {
    /// Sets a member that is absent or has Go's zero value.
    fn set(&mut self, map: &mut Map, key: &str, value: impl Into<Value>) {
        let is_set = match map.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Number(number)) => number.as_i64() != Some(0),
            Some(_) => true,
        };
        if !is_set {
            map.insert(key.to_owned(), value.into());
            self.changed = true;
        }
    }

    /// Sets a member that is absent: zero and empty are values of their own.
    fn set_absent(&mut self, map: &mut Map, key: &str, value: impl Into<Value>) {
        if map.get(key).is_none_or(Value::is_null) {
            map.insert(key.to_owned(), value.into());
            self.changed = true;
        }
    }

    fn spec(&mut self, fields: &mut Map) {
        self.set(fields, "restartPolicy", "Always");
        self.set(fields, "dnsPolicy", "ClusterFirst");
        self.set(fields, "schedulerName", "default-scheduler");
        self.set_absent(fields, "terminationGracePeriodSeconds", 30);
        self.set_absent(fields, "securityContext", Map::new());
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            each(fields, list, |container| self.container(container));
        }
        each(fields, "volumes", |volume| self.volume(volume));
    }

    fn container(&mut self, container: &mut Map) {
        let image = container.get("image").and_then(Value::as_str).unwrap_or("");
        let policy = if tag(image) == Some("latest") {
            "Always"
        } else {
            "IfNotPresent"
        };
        self.set(container, "imagePullPolicy", policy);
        self.set(container, "terminationMessagePath", "/dev/termination-log");
        self.set(container, "terminationMessagePolicy", "File");
        each(container, "ports", |port| self.set(port, "protocol", "TCP"));
        each(container, "env", |variable| {
            with(variable, "valueFrom", |source| self.field_reference(source));
        });
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            with(container, probe, |probe| {
                self.set(probe, "timeoutSeconds", 1);
                self.set(probe, "periodSeconds", 10);
                self.set(probe, "successThreshold", 1);
                self.set(probe, "failureThreshold", 3);
                with(probe, "httpGet", |action| self.http_get(action));
            });
        }
        with(container, "lifecycle", |lifecycle| {
            for moment in ["postStart", "preStop"] {
                with(lifecycle, moment, |handler| {
                    with(handler, "httpGet", |action| self.http_get(action));
                });
            }
        });
    }

    fn http_get(&mut self, action: &mut Map) {
        self.set(action, "path", "/");
        self.set(action, "scheme", "HTTP");
    }

    fn field_reference(&mut self, holder: &mut Map) {
        with(holder, "fieldRef", |reference| {
            self.set(reference, "apiVersion", "v1")
        });
    }

    fn volume(&mut self, volume: &mut Map) {
        let has_source = volume
            .iter()
            .any(|(key, value)| key != "name" && !value.is_null());
        if !has_source {
            self.set_absent(volume, "emptyDir", Map::new());
        }
        for source in ["secret", "configMap", "downwardAPI", "projected"] {
            with(volume, source, |source| {
                self.set_absent(source, "defaultMode", FILE_MODE)
            });
        }
        with(volume, "hostPath", |source| {
            self.set_absent(source, "type", "")
        });
        with(volume, "downwardAPI", |source| {
            each(source, "items", |item| self.field_reference(item));
        });
        with(volume, "projected", |projected| {
            each(projected, "sources", |source| {
                with(source, "serviceAccountToken", |token| {
                    self.set_absent(token, "expirationSeconds", TOKEN_SECONDS);
                });
                with(source, "downwardAPI", |source| {
                    each(source, "items", |item| self.field_reference(item));
                });
            });
        });
    }

    fn pod_only(&mut self, fields: &mut Map) {
        self.set_absent(fields, "enableServiceLinks", true);
        let in_host_network = fields.get("hostNetwork") == Some(&Value::Bool(true));
        for list in ["containers", "initContainers"] {
            each(fields, list, |container| {
                with(container, "resources", |resources| self.requests(resources));
                if in_host_network {
                    each(container, "ports", |port| {
                        let number = port.get("containerPort").cloned().unwrap_or(json!(0));
                        if number != 0 {
                            self.set(port, "hostPort", number);
                        }
                    });
                }
            });
        }
    }

    /// Requests what is limited but not requested.
    fn requests(&mut self, resources: &mut Map) {
        let Some(Value::Object(limits)) = resources.get("limits") else {
            return;
        };
        let limits = limits.clone();
        if !limits.is_empty() && resources.get("requests").is_none_or(Value::is_null) {
            resources.insert("requests".to_owned(), Map::new().into());
        }
        with(resources, "requests", |requests| {
            for (name, amount) in limits {
                self.set_absent(requests, &name, amount);
            }
        });
    }
}

/// Calls `change` for each object in the list `map[key]`.
fn each(map: &mut Map, key: &str, mut change: impl FnMut(&mut Map)) {
    if let Some(Value::Array(items)) = map.get_mut(key) {
        for item in items {
            if let Value::Object(item) = item {
                change(item);
            }
        }
    }
}

/// Calls `change` for the object `map[key]`.
fn with(map: &mut Map, key: &str, change: impl FnOnce(&mut Map)) {
    if let Some(Value::Object(member)) = map.get_mut(key) {
        change(member);
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
    use podstorm_objects::{Object, Resource};

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
        let container = &pod.spec.fields["containers"][0];
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
            pod.spec.fields["volumes"],
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
        let container = &pod.spec.fields["containers"][0];
        assert_eq!(
            container["resources"]["requests"],
            json!({"cpu": "1", "memory": "1Gi"})
        );
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(pod.spec.fields["enableServiceLinks"], true);
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
                pod.spec.fields["containers"][0]["imagePullPolicy"], policy,
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
