//! An object's usage of each quota resource.
//!
//! Source: the evaluators in Kubernetes' `pkg/quota/v1/evaluator/core`.

use std::collections::BTreeSet;

use podstorm_objects::cells::items;
use podstorm_objects::{Kind, Quantity};
use serde_json::Value;

use super::{Amounts, amounts};

/// The kinds that are counted under their own name as well as under `count/`.
const BY_NAME: [&str; 5] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Reports whether an ordinary update can change the usage of an object of this kind. Returns false
/// for pods, because only a resize changes their usage.
pub(super) fn changes(kind: Kind) -> bool {
    ["services", "persistentvolumeclaims"].contains(&kind.resource()) && kind.group().is_empty()
}

/// Returns the amounts by which usage increases.
pub(super) fn increase(before: &Amounts, after: &Amounts) -> Amounts {
    let more = after.iter().map(|(name, amount)| {
        let before = before.get(name).copied().unwrap_or_default();
        (name.clone(), amount.minus(before))
    });
    more.filter(|(_, amount)| *amount > Quantity::default())
        .collect()
}

/// Reports whether objects of a kind use any of these resources.
pub(super) fn is_measured(kind: Kind, hard: &Amounts) -> bool {
    let count = format!("count/{}", kind.group_resource());
    let resource = kind.resource();
    hard.contains_key(&count)
        || kind.group().is_empty()
            && hard.keys().any(|name| match resource {
                "pods" => !name.starts_with("count/"),
                "persistentvolumeclaims" => {
                    name == "requests.storage"
                        || name.ends_with(resource)
                        || name.contains("storageclass")
                }
                _ => BY_NAME.contains(&resource) && name.starts_with(resource),
            })
}

pub(super) fn usage_of(kind: Kind, object: &Value) -> Amounts {
    let one = one();
    let mut all = Amounts::new();
    all.insert(format!("count/{}", kind.group_resource()), one);
    if !kind.group().is_empty() {
        return all;
    }
    match kind.resource() {
        "pods" => of_pod(object, &mut all),
        "services" => {
            all.insert("services".to_owned(), one);
            let ports = items(object, "/spec/ports").count();
            let kind = object["spec"]["type"].as_str().unwrap_or("");
            let allocates = object["spec"]["allocateLoadBalancerNodePorts"] != false;
            let on_nodes = kind == "NodePort" || kind == "LoadBalancer" && allocates;
            let count = |count: usize| (0..count).fold(Quantity::default(), |sum, _| sum.plus(one));
            let on_nodes = if on_nodes { ports } else { 0 };
            let balanced = usize::from(kind == "LoadBalancer");
            all.insert("services.nodeports".to_owned(), count(on_nodes));
            all.insert("services.loadbalancers".to_owned(), count(balanced));
        }
        "persistentvolumeclaims" => of_claim(object, &mut all),
        resource if BY_NAME.contains(&resource) => {
            all.insert(resource.to_owned(), one);
        }
        _ => {}
    }
    all
}

fn one() -> Quantity {
    "1".parse().unwrap_or_default()
}

fn of_claim(claim: &Value, all: &mut Amounts) {
    let storage = amounts(&claim["spec"]["resources"]["requests"]);
    let storage = storage.get("storage").copied().unwrap_or_default();
    for (name, amount) in [
        ("persistentvolumeclaims", one()),
        ("requests.storage", storage),
    ] {
        all.insert(name.to_owned(), amount);
        if let Some(class) = claim["spec"]["storageClassName"].as_str() {
            all.insert(
                format!("{class}.storageclass.storage.k8s.io/{name}"),
                amount,
            );
        }
    }
}

fn of_pod(pod: &Value, all: &mut Amounts) {
    // A finished pod counts only towards `count/pods`.
    if ["Succeeded", "Failed"]
        .iter()
        .any(|phase| pod["status"]["phase"] == *phase)
    {
        return;
    }
    all.insert("pods".to_owned(), one());
    for (name, amount) in of_containers(&pod["spec"], "requests") {
        let is_domestic = !name.contains('/');
        if is_domestic {
            all.insert(name.clone(), amount);
        }
        all.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in of_containers(&pod["spec"], "limits") {
        if ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) {
            all.insert(format!("limits.{name}"), amount);
        }
    }
}

/// Returns the total requests or limits of a pod, by resource: the sum over the containers that run
/// at the same time, or more if an earlier init container needs more. Pod-level resources replace
/// this total, and the pod's overhead is added. `list` is `requests` or `limits`.
pub(crate) fn of_containers(spec: &Value, list: &str) -> Amounts {
    let mut sum = Amounts::new();
    let add = |to: &mut Amounts, more: &Amounts| {
        for (name, amount) in more {
            let before = to.entry(name.clone()).or_default();
            *before = before.plus(*amount);
        }
    };
    for container in items(spec, "/containers") {
        add(&mut sum, &amounts(&container["resources"][list]));
    }
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for container in items(spec, "/initContainers") {
        let own = amounts(&container["resources"][list]);
        let mut at_once = beside.clone();
        add(&mut at_once, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut beside, &own);
        }
        for (name, amount) in at_once {
            let before = most.entry(name).or_default();
            *before = (*before).max(amount);
        }
    }
    add(&mut sum, &beside);
    for (name, amount) in most {
        let before = sum.entry(name).or_default();
        *before = (*before).max(amount);
    }
    // Pod-level resources replace the total of the containers.
    sum.extend(amounts(&spec["resources"][list]));
    add(&mut sum, &amounts(&spec["overhead"]));
    sum
}

/// Returns the resources that a quota measures but the pod does not specify, each with the
/// containers that lack it: `cpu for: a,b; memory for: a`. Returns `None` if the pod specifies them
/// all.
pub(super) fn unspecified(kind: Kind, pod: &Value, hard: &Amounts) -> Option<String> {
    const MEASURED: [(&str, &str, &str); 6] = [
        ("cpu", "requests", "cpu"),
        ("limits.cpu", "limits", "cpu"),
        ("limits.memory", "limits", "memory"),
        ("memory", "requests", "memory"),
        ("requests.cpu", "requests", "cpu"),
        ("requests.memory", "requests", "memory"),
    ];
    if kind != Kind::POD {
        return None;
    }
    let of_pod = &pod["spec"]["resources"];
    let missing = |list: &str, name: &str| -> BTreeSet<String> {
        let all = items(&pod["spec"], "/containers").chain(items(&pod["spec"], "/initContainers"));
        let lacks = |container: &&Value| container["resources"][list][name].is_null();
        let names = all
            .filter(lacks)
            .filter_map(|container| container["name"].as_str());
        match of_pod[list][name].is_null() {
            true => names.map(str::to_owned).collect(),
            false => BTreeSet::new(),
        }
    };
    let told: Vec<String> = (MEASURED.iter())
        .filter(|(resource, ..)| hard.contains_key(*resource))
        .filter_map(|(resource, list, name)| {
            let names = missing(list, name);
            let names: Vec<String> = names.into_iter().collect();
            (!names.is_empty()).then(|| format!("{resource} for: {}", names.join(",")))
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}
