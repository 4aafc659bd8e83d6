//! LimitRanges: default resources for containers, and limits on the requests of pods, containers
//! and claims.
//!
//! Source: `plugin/pkg/admission/limitranger` of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::cells::items;
use podstorm_objects::{ApiError, Kind, Object, Pod, Quantity};
use serde_json::{Map, Value};

use crate::defaulting::{Fill, Within};
use crate::{Cluster, builtin, errors};

/// The annotation that lists the defaults that LimitRanges have set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Cluster {
    /// Sets missing requests and limits of a new pod's containers to the defaults of the
    /// LimitRanges.
    #[cold]
    pub(crate) fn apply_ranges(&self, pod: &mut Pod) {
        for range in self.objects_in(builtin::LIMIT_RANGE, &pod.metadata.namespace) {
            let (requests, limits) = defaults(&range.to_json()["spec"]);
            let mut spec = pod.spec.to_map(None);
            let mut told = Vec::new();
            for (list, what) in [
                ("containers", "container"),
                ("initContainers", "init container"),
            ] {
                spec.each(list, |container| {
                    let name = container.text("name").to_owned();
                    container.within("resources", |resources| {
                        for (member, word, defaults) in [
                            ("requests", "request", &requests),
                            ("limits", "limit", &limits),
                        ] {
                            let set = fill(resources, member, defaults);
                            if !set.is_empty() {
                                told.push(format!("{} {word} for {what} {name}", set.join(", ")));
                            }
                        }
                    });
                });
            }
            if told.is_empty() {
                continue;
            }
            if let Ok(filled) = pod.spec.with_members(spec) {
                pod.spec = Arc::new(filled);
                let text = format!("LimitRanger plugin set: {}", told.join("; "));
                pod.metadata.annotations = pod.metadata.annotations.with(ANNOTATION, &text);
            }
        }
    }

    /// Checks a new object against the ranges of its namespace.
    ///
    /// # Errors
    /// 403 if the object requests less or more than a range allows.
    #[cold]
    pub(crate) fn check_ranges(&self, object: &dyn Object) -> Result<(), ApiError> {
        let kind = object.kind();
        let is_claim = kind.resource() == "persistentvolumeclaims";
        if kind != Kind::POD && !is_claim {
            return Ok(());
        }
        let json = object.to_json();
        for range in self.objects_in(builtin::LIMIT_RANGE, &object.metadata().namespace) {
            let mut problems: Vec<String> = Vec::new();
            let spec = range.to_json()["spec"].clone();
            for limit in items(&spec, "/limits") {
                match limit["type"].as_str().unwrap_or("") {
                    "PersistentVolumeClaim" if is_claim => {
                        let asked = Asked::from_resources(&json["spec"]["resources"]);
                        asked.check_claim(limit, &mut problems);
                    }
                    "Container" if !is_claim => {
                        for container in items(&json, "/spec/containers")
                            .chain(items(&json, "/spec/initContainers"))
                        {
                            Asked::from_resources(&container["resources"])
                                .check(limit, &mut problems);
                        }
                    }
                    "Pod" if !is_claim => Asked::of_pod(&json["spec"]).check(limit, &mut problems),
                    _ => {}
                }
            }
            let why = match &problems[..] {
                [] => continue,
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            return Err(errors::forbidden(kind, &object.metadata().name, &why));
        }
        Ok(())
    }
}

/// Returns the default requests and limits that a LimitRange sets for containers.
fn defaults(spec: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in items(spec, "/limits").filter(|limit| limit["type"] == "Container") {
        let amounts = |member: &str| limit[member].as_object().cloned().unwrap_or_default();
        requests.extend(amounts("defaultRequest"));
        limits.extend(amounts("default"));
    }
    (requests, limits)
}

/// Sets the missing entries of a resource list. Returns the names of these entries.
fn fill(
    resources: &mut Map<String, Value>,
    member: &str,
    defaults: &Map<String, Value>,
) -> Vec<String> {
    let mut set = Vec::new();
    if defaults.is_empty() {
        return set;
    }
    resources.within(member, |list| {
        for (name, amount) in defaults {
            if list.get(name).is_none_or(Value::is_null) {
                list.insert(name.clone(), amount.clone());
                set.push(name.clone());
            }
        }
    });
    set
}

/// Amounts with their notation in messages.
type Amounts = BTreeMap<String, (Quantity, String)>;

struct Asked {
    requests: Amounts,
    limits: Amounts,
}

fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    let read = entries.filter_map(|(name, value)| {
        let amount = Quantity::from_json(value).ok()?;
        let text = amount.text_like(value.as_str().unwrap_or(""));
        Some((name.clone(), (amount, text)))
    });
    read.collect()
}

impl Asked {
    fn from_resources(resources: &Value) -> Asked {
        Asked {
            requests: amounts(&resources["requests"]),
            limits: amounts(&resources["limits"]),
        }
    }

    fn of_pod(spec: &Value) -> Asked {
        let sum = |list: &str| {
            let all = crate::quotas::of_containers(spec, list);
            // A sum has the notation of its first addend.
            let like = |name: &str| {
                let mut parts = items(spec, "/containers").chain(items(spec, "/initContainers"));
                let first = parts.find_map(|part| part["resources"][list][name].as_str());
                first.unwrap_or("").to_owned()
            };
            all.into_iter()
                .map(|(name, amount)| {
                    let text = amount.text_like(&like(&name));
                    (name, (amount, text))
                })
                .collect()
        };
        Asked {
            requests: sum("requests"),
            limits: sum("limits"),
        }
    }

    /// Checks the resources of a pod or container against a limit.
    fn check(&self, limit: &Value, problems: &mut Vec<String>) {
        let kind = limit["type"].as_str().unwrap_or("");
        for (name, (least, text)) in amounts(&limit["min"]) {
            self.check_least(kind, &name, least, &text, true, problems);
        }
        for (name, (most, text)) in amounts(&limit["max"]) {
            let rule = format!("maximum {name} usage per {kind} is {text}");
            match self.limits.get(&name) {
                None => problems.push(format!("{rule}.  No limit is specified")),
                Some((limit, text)) if *limit > most => {
                    problems.push(format!("{rule}, but limit is {text}"));
                }
                _ => {
                    if let Some((request, text)) = self.requests.get(&name)
                        && *request > most
                    {
                        problems.push(format!("{rule}, but request is {text}"));
                    }
                }
            }
        }
        for (name, (most, text)) in amounts(&limit["maxLimitRequestRatio"]) {
            let rule = format!("{name} max limit to request ratio per {kind} is {text}");
            let asked = |list: &Amounts| {
                let (amount, _) = list.get(&name)?;
                Some(*amount).filter(|amount| !amount.is_zero())
            };
            match (asked(&self.requests), asked(&self.limits)) {
                (None, _) => problems.push(format!(
                    "{rule}, but no request is specified or request is 0"
                )),
                (_, None) => {
                    problems.push(format!("{rule}, but no limit is specified or limit is 0"))
                }
                (Some(request), Some(limit)) => {
                    let ratio = limit.to_f64() / request.to_f64();
                    if ratio > most.to_f64() {
                        problems.push(format!("{rule}, but provided ratio is {ratio:.6}"));
                    }
                }
            }
        }
    }

    fn check_least(
        &self,
        kind: &str,
        name: &str,
        least: Quantity,
        text: &str,
        with_limit: bool,
        problems: &mut Vec<String>,
    ) {
        let rule = format!("minimum {name} usage per {kind} is {text}");
        match self.requests.get(name) {
            None => problems.push(format!("{rule}.  No request is specified")),
            Some((request, text)) if *request < least => {
                problems.push(format!("{rule}, but request is {text}"));
            }
            _ => {
                if let Some((limit, text)) = self.limits.get(name).filter(|_| with_limit)
                    && *limit < least
                {
                    problems.push(format!("{rule}, but limit is {text}"));
                }
            }
        }
    }

    /// Checks the requests of a claim against a limit.
    fn check_claim(&self, limit: &Value, problems: &mut Vec<String>) {
        let kind = "PersistentVolumeClaim";
        for (name, (least, text)) in amounts(&limit["min"]) {
            self.check_least(kind, &name, least, &text, false, problems);
        }
        for (name, (most, text)) in amounts(&limit["max"]) {
            let rule = format!("maximum {name} usage per {kind} is {text}");
            match self.requests.get(&name) {
                None => problems.push(format!("{rule}.  No request is specified")),
                Some((request, text)) if *request > most => {
                    problems.push(format!("{rule}, but request is {text}"));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_and_limits_are_compared_with_the_range() {
        let limit = json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"},
            "maxLimitRequestRatio": {"cpu": "2"}});
        let problems = |resources: Value| {
            let mut problems = Vec::new();
            Asked::from_resources(&resources).check(&limit, &mut problems);
            problems
        };
        assert_eq!(
            problems(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}})),
            [""; 0]
        );
        assert_eq!(
            problems(json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "2"}})),
            [
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum cpu usage per Container is 1, but limit is 2",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 40.000000",
            ]
        );
        assert_eq!(problems(json!({})).len(), 3);
    }
}
