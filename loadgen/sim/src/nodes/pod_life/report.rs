//! The mounts and resources in the statuses of a pod and its containers. All of them follow from
//! the spec.
//!
//! `user` is omitted, because a container runtime reads it from the image, and simulated images are
//! empty.
//!
//! Source: `kubelet_pods.go` of Kubernetes' kubelet, 1.36.

use std::sync::Arc;

use podstorm_apiserver::{pod_limits, pod_requests};
use podstorm_objects::json::Members;
use podstorm_objects::{Map, Pod, Quantity};
use serde_json::{Value, json};

use super::PodLife;

/// The parts of a container's status that follow from its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The `volumeMounts`, if there are any.
    mounts: Option<Value>,
    /// The `resources` of a created container.
    resources: Value,
    /// The `allocatedResources`, if the container requests any.
    allocated: Option<Value>,
}

impl Report {
    /// Returns the report for a container in a spec.
    pub(super) fn from_container(container: &Value) -> Report {
        let mounts = container["volumeMounts"].as_array();
        let mounts: Vec<Value> = mounts.into_iter().flatten().map(mount).collect();
        let asked = &container["resources"];
        let is_some = |list: &&str| asked[*list].as_object().is_some_and(|it| !it.is_empty());
        let lists = ["limits", "requests"].into_iter().filter(is_some);
        let resources: Map = lists
            .map(|list| (list.to_owned(), asked[list].clone()))
            .collect();
        Report {
            mounts: (!mounts.is_empty()).then_some(mounts.into()),
            allocated: resources.get("requests").cloned(),
            resources: resources.into(),
        }
    }

    /// Writes the report into the members of a status.
    pub(super) fn write(&self, status: &mut Members<'_>, was_created: bool) {
        if let Some(mounts) = &self.mounts {
            status.set_with("volumeMounts", |out| out.value(mounts));
        }
        if was_created {
            put(status, &self.resources, self.allocated.as_ref());
        }
    }
}

/// The parts of statuses that follow from a spec.
#[derive(Debug)]
pub(super) struct SpecReport {
    /// The reports of the containers, init containers first.
    containers: Vec<Arc<Report>>,
    pod: Arc<PodReport>,
}

impl SpecReport {
    /// Returns the report for a spec with these members.
    pub(super) fn from_members(members: Map) -> SpecReport {
        let containers =
            containers(&members).map(|container| Arc::new(Report::from_container(container)));
        SpecReport {
            containers: containers.collect(),
            pod: Arc::new(PodReport::from_spec(members)),
        }
    }
}

impl PodLife {
    /// Makes statuses include this report, which must be that of the stored pod's spec.
    pub(super) fn report_on(&mut self, live: &Pod, report: &SpecReport) {
        for (container, report) in self.containers.iter_mut().zip(&report.containers) {
            container.report = Some(Arc::clone(report));
        }
        self.report = Some((Arc::clone(&live.spec), Arc::clone(&report.pod)));
    }
}

/// Returns the containers of a spec, init containers first.
pub(super) fn containers(spec: &Map) -> impl Iterator<Item = &Value> {
    let lists = [spec.get("initContainers"), spec.get("containers")];
    let lists = lists.into_iter().flatten().filter_map(Value::as_array);
    lists.flatten()
}

/// The parts of a pod's own status that follow from the spec: the sums over its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodReport {
    resources: Value,
    allocated: Option<Value>,
}

impl PodReport {
    /// Returns the report for a pod with that spec.
    pub(super) fn from_spec(mut spec: Map) -> PodReport {
        // The reported sums do not include the overhead.
        spec.remove("overhead");
        let spec = Value::Object(spec);
        let mut resources = Map::new();
        for (list, amounts) in [
            ("limits", pod_limits(&spec)),
            ("requests", pod_requests(&spec)),
        ] {
            let amounts = amounts.into_iter();
            let texts: Map = amounts
                .map(|(name, amount)| {
                    let text = spelled(&spec, list, &name, amount);
                    (name, text.into())
                })
                .collect();
            if !texts.is_empty() {
                resources.insert(list.to_owned(), texts.into());
            }
        }
        PodReport {
            allocated: resources.get("requests").cloned(),
            resources: resources.into(),
        }
    }

    /// Writes the report into the members of a status.
    pub(super) fn write(&self, status: &mut Members<'_>) {
        put(status, &self.resources, self.allocated.as_ref());
    }
}

fn put(status: &mut Members<'_>, resources: &Value, allocated: Option<&Value>) {
    status.set_with("resources", |out| out.value(resources));
    match allocated {
        Some(allocated) => status.set_with("allocatedResources", |out| out.value(allocated)),
        None => status.remove("allocatedResources"),
    }
}

fn mount(mount: &Value) -> Value {
    let mut told = json!({"name": mount["name"], "mountPath": mount["mountPath"]});
    if mount["readOnly"] == true {
        // The simulated runtime supports recursive read-only mounts.
        let recursive = match mount["recursiveReadOnly"].as_str() {
            Some("Enabled" | "IfPossible") => "Enabled",
            _ => "Disabled",
        };
        told["readOnly"] = true.into();
        told["recursiveReadOnly"] = recursive.into();
    }
    told
}

/// Formats a sum with the type of suffix that the first of its parts has.
fn spelled(spec: &Value, list: &str, name: &str, sum: Quantity) -> String {
    let containers = [&spec["containers"], &spec["initContainers"]];
    let containers = containers.into_iter().filter_map(Value::as_array).flatten();
    let parts = containers.map(|container| &container["resources"]);
    let mut parts = [&spec["resources"]].into_iter().chain(parts);
    let first = parts.find_map(|part| part[list][name].as_str());
    sum.text_like(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Rest;

    use super::*;

    #[test]
    fn a_pod_reports_its_containers_sums_without_overhead() {
        let resources = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}});
        let spec = json!({
            "overhead": {"cpu": "1"},
            "initContainers": [{"resources": {"requests": {"cpu": "2"}}},
                {"restartPolicy": "Always", "resources": resources("100m", "1Mi")}],
            "containers": [{"resources": resources("250m", "512Mi")},
                {"resources": resources("0.25", "512Mi")}, {}],
        });
        let told = |spec: &Value| {
            let none = Rest::NONE;
            let mut status = none.edit();
            PodReport::from_spec(spec.as_object().unwrap().clone()).write(&mut status);
            status.done().to_map()
        };
        let status = told(&spec);
        let requests = json!({"cpu": "2", "memory": "1025Mi"});
        let expected = json!({"allocatedResources": requests,
            "resources": {"requests": requests, "limits": {"memory": "1025Mi"}}});
        assert_eq!(Value::Object(status), expected);

        // The pod as a whole may request more than its containers.
        let mut whole = spec;
        whole["resources"] = json!({"requests": {"cpu": "4"}});
        assert_eq!(told(&whole)["allocatedResources"]["cpu"], "4");
    }

    #[test]
    fn a_read_only_mount_reports_whether_it_is_recursive() {
        let told = |members: &Value| {
            let mut given = json!({"name": "v", "mountPath": "/v", "subPath": "s"});
            given
                .as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            let mut told = mount(&given);
            let members = told.as_object_mut().unwrap();
            assert_eq!(members.remove("name"), Some("v".into()));
            assert_eq!(members.remove("mountPath"), Some("/v".into()));
            told
        };
        let with = |recursive: &str| json!({"readOnly": true, "recursiveReadOnly": recursive});
        assert_eq!(told(&json!({"readOnly": false})), json!({}));
        assert_eq!(told(&json!({"readOnly": true})), with("Disabled"));
        assert_eq!(told(&with("IfPossible")), with("Enabled"));
    }
}
