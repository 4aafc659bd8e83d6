//! What upstream's admission plugins fill into the spec of a pod, and which of them look at changes too.
//!
//! Source: the plugins that kube-apiserver 1.36 has on by default, as far as they concern pods here, in their order.
//! LimitRanger is in [`ranges`](crate::ranges). Of other kinds StorageObjectInUseProtection and, over HTTP,
//! TaintNodesByCondition are there; both look at new objects alone.

use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Pod, PodSpec};
use serde_json::{Map, Value, json};

use crate::list::ListOptions;
use crate::places::Places;
use crate::{Cluster, errors, kind_named};

/// A plugin, which brings the spec of a pod of that name into form. Of one that is changed it gets the stored spec.
struct Plugin {
    sees_changes: bool,
    admit: fn(&Cluster, &str, &mut Spec, Option<&Spec>) -> Result<(), ApiError>,
}

type Spec = Map<String, Value>;

const PLUGINS: [Plugin; 3] = [
    // Priority
    Plugin {
        sees_changes: true,
        admit: admit_priority,
    },
    // DefaultTolerationSeconds
    Plugin {
        sees_changes: true,
        admit: |_, _, spec, _| {
            tolerate(spec);
            Ok(())
        },
    },
    // RuntimeClass
    Plugin {
        sees_changes: false,
        admit: |cluster, pod, spec, _| admit_runtime_class(cluster, pod, spec),
    },
];

/// Keys of the `NoExecute` taints that every new pod tolerates for a while: its node is not ready, or not reachable.
pub const TOLERATED_TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Seconds that a pod stays on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;

impl Cluster {
    /// Fills in what is missing in the spec of a new pod: priority, tolerations of nodes that are not ready or not
    /// reachable, and what its runtime class says.
    ///
    /// # Errors
    /// 403 for a class of priority or of runtimes that does not exist, and for a priority or an overhead that is another
    /// than that of the class.
    pub fn admit_pod(&self, name: &str, spec: &mut Map<String, Value>) -> Result<(), ApiError> {
        let mut all = PLUGINS.iter();
        all.try_for_each(|plugin| (plugin.admit)(self, name, spec, None))
    }

    /// Fills in what is missing in the spec of a pod that was admitted before and is changed.
    ///
    /// # Errors
    /// 400 where that is no spec any more.
    pub(crate) fn admit_changed_pod(&self, new: &mut Pod, old: &Pod) -> Result<(), ApiError> {
        // What stays has been admitted.
        if new.spec == old.spec {
            return Ok(());
        }
        let (before, mut spec) = (old.spec.to_map(None), new.spec.to_map(None));
        let mut plugins = PLUGINS.iter().filter(|plugin| plugin.sees_changes);
        plugins
            .try_for_each(|it| (it.admit)(self, &new.metadata.name, &mut spec, Some(&before)))?;
        new.spec = with_members(&new.spec, spec)?;
        Ok(())
    }

    /// The spec of a new pod as admitted, or of a template's pods. It is cached with the template: a PriorityClass
    /// that is deleted and created again with another value is not read again.
    ///
    /// # Errors
    /// Those of [`admit_pod`](Cluster::admit_pod).
    pub fn admitted(&self, template: &Pod) -> Result<Arc<PodSpec>, ApiError> {
        let metadata = &template.metadata;
        let name = match &*metadata.name {
            "" => metadata.generate_name.as_deref().unwrap_or(""),
            name => name,
        };
        let mut members = template.spec.to_map(None);
        self.admit_pod(name, &mut members)?;
        with_members(&template.spec, members)
    }
}

fn with_members(spec: &PodSpec, members: Spec) -> Result<Arc<PodSpec>, ApiError> {
    let admitted = spec.with_members(members);
    let admitted = admitted.map_err(|error| errors::bad_request(error.to_string()))?;
    Ok(Arc::new(admitted))
}

/// # Errors
/// 403 for a pod with this problem.
fn rejected(pod: &str, why: &str) -> ApiError {
    errors::forbidden(Kind::POD, pod, why)
}

fn is_absent(spec: &Spec, member: &str) -> bool {
    spec.get(member).is_none_or(Value::is_null)
}

/// Sets the priority of a pod and whether it preempts others, as its class says. A change that leaves them out keeps them.
fn admit_priority(
    cluster: &Cluster,
    pod: &str,
    spec: &mut Spec,
    before: Option<&Spec>,
) -> Result<(), ApiError> {
    const MEMBERS: [&str; 2] = ["priority", "preemptionPolicy"];
    if let Some(before) = before {
        for member in MEMBERS {
            if let Some(kept) = before.get(member)
                && is_absent(spec, member)
            {
                spec.insert(member.to_owned(), kept.clone());
            }
        }
        return Ok(());
    }
    let class = spec.get("priorityClassName").and_then(Value::as_str);
    let found = match class.unwrap_or("") {
        "" => match cluster.default_class()? {
            Some(class) => {
                let name = class["metadata"]["name"].clone();
                spec.insert("priorityClassName".to_owned(), name);
                class
            }
            None => json!({"value": 0, "preemptionPolicy": PREEMPTS}),
        },
        "system-cluster-critical" => json!({"value": 2_000_000_000, "preemptionPolicy": PREEMPTS}),
        "system-node-critical" => json!({"value": 2_000_001_000, "preemptionPolicy": PREEMPTS}),
        class => cluster.named("PriorityClass", class)?.ok_or_else(|| {
            let why = format!("no PriorityClass with name {class} was found");
            rejected(pod, &why)
        })?,
    };
    let told = |what: &str, given: &Value, computed: &Value| {
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        let (given, computed) = (text(given), text(computed));
        let why = format!(
            "the {what} ({given}) must not be provided in pod spec; priority admission controller \
             computed {computed} from the given PriorityClass name"
        );
        rejected(pod, &why)
    };
    let computed = [&found["value"], &found["preemptionPolicy"]];
    let names = [
        "integer value of priority",
        "string value of PreemptionPolicy",
    ];
    for ((member, what), computed) in MEMBERS.into_iter().zip(names).zip(computed) {
        match spec.get(member).filter(|given| !given.is_null()) {
            // A class may leave the policy open.
            _ if computed.is_null() => {}
            Some(given) if given != computed => return Err(told(what, given, computed)),
            _ => drop(spec.insert(member.to_owned(), computed.clone())),
        }
    }
    Ok(())
}

const PREEMPTS: &str = "PreemptLowerPriority";

impl Cluster {
    /// An object of a kind of the whole cluster, if there is one of that name.
    fn named(&self, kind: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let kind = kind_named(kind).ok_or_else(errors::unknown_resource)?;
        Ok(self
            .api(kind)
            .get("", name)
            .ok()
            .map(|found| found.to_json()))
    }

    /// The class of priority of pods that name none: of several that are said to be it, the lowest.
    fn default_class(&self) -> Result<Option<Value>, ApiError> {
        if !self.seen.has_classes() {
            return Ok(None);
        }
        let kind = kind_named("PriorityClass").ok_or_else(errors::unknown_resource)?;
        let all = self.api(kind).list(&ListOptions::default())?.items;
        let all = all.iter().map(|class| class.to_json());
        let defaults = all.filter(|class| class["globalDefault"] == true);
        Ok(defaults.min_by_key(|class| class["value"].as_i64()))
    }
}

/// Adds the tolerations of nodes that are not ready or not reachable, where the pod has none that does.
fn tolerate(spec: &mut Spec) {
    let text =
        |toleration: &Value, member: &str| toleration[member].as_str().unwrap_or("").to_owned();
    for key in TOLERATED_TAINTS {
        let tolerates = |it: &Value| {
            ["", key].contains(&&*text(it, "key"))
                && ["", "NoExecute"].contains(&&*text(it, "effect"))
        };
        let list = spec.entry("tolerations").or_insert(Value::Null);
        if list.is_null() {
            *list = json!([]);
        }
        if let Value::Array(tolerations) = list
            && !tolerations.iter().any(tolerates)
        {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS}),
            );
        }
    }
}

/// Fills in what the class of runtimes says of a pod's overhead and of where it may run.
///
/// # Errors
/// 403 for a class that does not exist, for another overhead than that of the class, which alone gives it, and for another
/// node than it allows.
fn admit_runtime_class(cluster: &Cluster, pod: &str, spec: &mut Spec) -> Result<(), ApiError> {
    let class = match spec.get("runtimeClassName").and_then(Value::as_str) {
        Some(name) => cluster.named("RuntimeClass", name)?.ok_or_else(|| {
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            rejected(pod, &why)
        })?,
        None => Value::Null,
    };
    let wanted = &class["overhead"]["podFixed"];
    let given = spec.get("overhead").filter(|it| !it.is_null());
    let is_empty = |given: &Value| given.as_object().is_none_or(Map::is_empty);
    match given {
        None if wanted.is_null() => {}
        None => drop(spec.insert("overhead".to_owned(), wanted.clone())),
        Some(given) if wanted.is_null() && !is_empty(given) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                       Overhead";
            return Err(rejected(pod, why));
        }
        Some(given) if !wanted.is_null() && given != wanted => {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(rejected(pod, why));
        }
        Some(_) => {}
    }
    let scheduling = &class["scheduling"];
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let selector = spec.entry("nodeSelector").or_insert(Value::Null);
        if selector.is_null() {
            *selector = json!({});
        }
        let Value::Object(selector) = selector else {
            continue;
        };
        let given = selector
            .entry(key.as_str())
            .or_insert_with(|| wanted.clone());
        if given != wanted {
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            let (given, wanted) = (text(given), text(wanted));
            return Err(rejected(
                pod,
                &format!(
                    "conflict: runtimeClass.Scheduling.NodeSelector[{key}] = {wanted}; \
                     pod.Spec.NodeSelector[{key}] = {given}"
                ),
            ));
        }
    }
    let more = scheduling["tolerations"].as_array();
    if let Some(more) = more.filter(|more| !more.is_empty())
        && let Some(Value::Array(tolerations)) = spec.get_mut("tolerations")
    {
        let mut known: Places<String> = tolerations.iter().map(Value::to_string).collect();
        for toleration in more {
            let text = toleration.to_string();
            if !known.contains(&text) {
                known.push(text);
                tolerations.push(toleration.clone());
            }
        }
    }
    Ok(())
}

/// Adds an entry to a list, which may be absent or null, unless it has one of that `key`.
pub fn add_by_key(object: &mut Map<String, Value>, list: &str, entry: Value) {
    let list = object.entry(list).or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    if let Value::Array(entries) = list
        && !entries.iter().any(|present| present["key"] == entry["key"])
    {
        entries.push(entry);
    }
}
