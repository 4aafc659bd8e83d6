//! Upstream's admission plugins that fill in the spec of a pod. Some of them also apply to changes.
//!
//! Source: those default plugins of kube-apiserver 1.36 that affect pods here, in their order.
//! ServiceAccount is in [`account`], LimitRanger in [`ranges`](crate::ranges). For other kinds,
//! there are StorageObjectInUseProtection and, over HTTP, TaintNodesByCondition; both apply only to
//! new objects.

use std::fmt;
use std::sync::Arc;

use podstorm_objects::{ApiError, DecodeError, Kind, Labels, Pod, PodSpec, TOLERATED_TAINTS};
use serde_json::{Map, Value, json};

use super::account;
use crate::Places;
use crate::list::ListOptions;
use crate::{Cluster, errors, kind_named};

/// An admission plugin that can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// Gives a pod the service account of its namespace, and a volume with a token.
    ServiceAccount,
    /// Gives a pod the priority of its PriorityClass.
    Priority,
    /// Gives a pod tolerations for nodes that are not ready or unreachable.
    DefaultTolerationSeconds,
    /// Gives a pod the overhead and scheduling constraints of its RuntimeClass.
    RuntimeClass,
    /// Gives a claim the default StorageClass.
    DefaultStorageClass,
}

impl Plugin {
    /// All plugins, in the order in which they process an object.
    pub const ALL: [Plugin; 5] = [
        Plugin::ServiceAccount,
        Plugin::Priority,
        Plugin::DefaultTolerationSeconds,
        Plugin::RuntimeClass,
        Plugin::DefaultStorageClass,
    ];

    /// Returns the plugin with this name in upstream; `None` if there is none.
    pub fn named(name: &str) -> Option<Plugin> {
        Plugin::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// Returns the plugin's name in upstream.
    pub const fn name(self) -> &'static str {
        match self {
            Plugin::ServiceAccount => "ServiceAccount",
            Plugin::Priority => "Priority",
            Plugin::DefaultTolerationSeconds => "DefaultTolerationSeconds",
            Plugin::RuntimeClass => "RuntimeClass",
            Plugin::DefaultStorageClass => "DefaultStorageClass",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Applies the plugin to the spec of a new pod.
    fn admit(self, cluster: &Cluster, pod: &NewPod<'_>, spec: &mut Spec) -> Result<(), ApiError> {
        match self {
            Plugin::ServiceAccount => account::admit(cluster, pod, spec),
            Plugin::Priority => admit_priority(cluster, pod.name, spec, None),
            Plugin::DefaultTolerationSeconds => {
                tolerate(spec, cluster.options.unreachable_toleration_seconds);
                Ok(())
            }
            Plugin::RuntimeClass => admit_runtime_class(cluster, pod.name, spec),
            // Applies only to claims.
            Plugin::DefaultStorageClass => Ok(()),
        }
    }
}

/// A set of enabled plugins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Plugins(u8);

impl Plugins {
    /// All plugins.
    pub const ALL: Plugins = Plugins((1 << Plugin::ALL.len()) - 1);

    /// Returns the set with a plugin turned on or off.
    #[must_use]
    pub const fn with(self, plugin: Plugin, is_on: bool) -> Plugins {
        match is_on {
            true => Plugins(self.0 | plugin.bit()),
            false => Plugins(self.0 & !plugin.bit()),
        }
    }

    /// Reports whether a plugin is on.
    pub const fn has(self, plugin: Plugin) -> bool {
        self.0 & plugin.bit() != 0
    }
}

impl Default for Plugins {
    /// Returns all plugins except [`ServiceAccount`](Plugin::ServiceAccount), which needs accounts
    /// in every namespace.
    fn default() -> Plugins {
        Plugins::ALL.with(Plugin::ServiceAccount, false)
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = Plugin::ALL.iter().filter(|plugin| self.has(**plugin));
        f.debug_set().entries(on).finish()
    }
}

pub(super) type Spec = Map<String, Value>;

/// The data of a new pod that plugins read besides its spec.
#[derive(Clone, Copy, Debug)]
pub struct NewPod<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The name, or `generateName` if the name is empty.
    pub name: &'a str,
    /// The annotations of the pod.
    pub annotations: Annotations<'a>,
}

/// The annotations of a new pod, in one of two forms.
#[derive(Clone, Copy, Debug)]
pub enum Annotations<'a> {
    /// The annotations of a decoded pod.
    Read(&'a Labels),
    /// The annotations of a JSON document; `None` if it has none.
    Document(Option<&'a Map<String, Value>>),
}

impl NewPod<'_> {
    pub(super) fn is_annotated(&self, key: &str) -> bool {
        match self.annotations {
            Annotations::Read(annotations) => annotations.get(key).is_some(),
            Annotations::Document(annotations) => {
                annotations.is_some_and(|it| it.contains_key(key))
            }
        }
    }
}

/// How long a pod stays on a node that is not ready or is unreachable by default, in seconds.
const TOLERATED_SECONDS: i64 = 300;

impl Cluster {
    /// Reports whether an admission plugin is on.
    pub fn has_plugin(&self, plugin: Plugin) -> bool {
        self.options.plugins.has(plugin)
    }

    /// Fills in the missing parts of a new pod's spec: the account, the priority, the tolerations
    /// for nodes that are not ready or unreachable, and the values of the runtime class.
    ///
    /// # Errors
    /// 403 if a priority class, a runtime class or an account does not exist, and for a priority or
    /// an overhead that differs from that of the class.
    pub fn admit_pod(
        &self,
        pod: &NewPod<'_>,
        spec: &mut Map<String, Value>,
    ) -> Result<(), ApiError> {
        let plugins = Plugin::ALL.into_iter();
        let mut on = plugins.filter(|plugin| self.options.plugins.has(*plugin));
        on.try_for_each(|plugin| plugin.admit(self, pod, spec))
    }

    /// Fills in the missing parts of a changed pod's spec. The old pod was admitted before.
    ///
    /// # Errors
    /// 400 if the result is not a valid spec.
    pub(crate) fn admit_changed_pod(&self, new: &mut Pod, old: &Pod) -> Result<(), ApiError> {
        // An unchanged spec was admitted before.
        if new.spec == old.spec {
            return Ok(());
        }
        let (before, mut spec) = (old.spec.to_map(None), new.spec.to_map(None));
        let plugins = self.options.plugins;
        if plugins.has(Plugin::Priority) {
            admit_priority(self, &new.metadata.name, &mut spec, Some(&before))?;
        }
        if plugins.has(Plugin::DefaultTolerationSeconds) {
            tolerate(&mut spec, self.options.unreachable_toleration_seconds);
        }
        let changed = new.spec.with_members(spec).map_err(unreadable)?;
        new.spec = Arc::new(changed);
        Ok(())
    }

    /// Admits a new pod, or a template as a pod of its namespace: sets the spec and the name of the
    /// token volume. The admitted spec of a template is cached with the template: a PriorityClass
    /// that is deleted and recreated with another value is not read again.
    ///
    /// # Errors
    /// The same as [`admit_pod`](Cluster::admit_pod).
    pub fn admit_new(&self, pod: &mut Pod) -> Result<(), ApiError> {
        let metadata = &pod.metadata;
        let name = match &*metadata.name {
            "" => metadata.generate_name.as_deref().unwrap_or(""),
            name => name,
        };
        let new = NewPod {
            namespace: &metadata.namespace,
            name,
            annotations: Annotations::Read(&metadata.annotations),
        };
        let mut members = pod.spec.to_map(pod.token_volume);
        self.admit_pod(&new, &mut members)?;
        let (spec, token_volume) = PodSpec::with_volume(members).map_err(unreadable)?;
        (pod.spec, pod.token_volume) = (Arc::new(spec), token_volume);
        Ok(())
    }

    /// Admits a new pod without running the plugins. The pod's spec must equal the spec that
    /// `other`, an admitted pod in the same namespace, had before its admission.
    pub fn admit_alike(&self, pod: &mut Pod, other: &Pod) {
        pod.spec = Arc::clone(&other.spec);
        if pod.token_volume.is_none() && other.token_volume.is_some() {
            pod.token_volume = Some(self.token_volume());
        }
    }
}

fn unreadable(error: DecodeError) -> ApiError {
    errors::bad_request(error.to_string())
}

/// Returns the 403 for a pod with this problem.
pub(super) fn rejected(pod: &str, why: &str) -> ApiError {
    errors::forbidden(Kind::POD, pod, why)
}

pub(super) fn is_absent(spec: &Spec, member: &str) -> bool {
    spec.get(member).is_none_or(Value::is_null)
}

/// Sets the priority and preemption policy of a pod from its class. An update that omits them keeps
/// the values in `before`.
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
            // A class may leave the policy unset.
            _ if computed.is_null() => {}
            Some(given) if given != computed => return Err(told(what, given, computed)),
            _ => drop(spec.insert(member.to_owned(), computed.clone())),
        }
    }
    Ok(())
}

const PREEMPTS: &str = "PreemptLowerPriority";

impl Cluster {
    /// Returns the cluster-scoped object with this kind and name; `None` if it does not exist.
    fn named(&self, kind: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let kind = kind_named(kind).ok_or_else(errors::unknown_resource)?;
        Ok(self
            .api(kind)
            .get("", name)
            .ok()
            .map(|found| found.to_json()))
    }

    /// Returns the default PriorityClass, of several the one with the lowest value; `None` if there
    /// is none.
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

/// Adds the tolerations for nodes that are not ready or unreachable, unless the pod already
/// tolerates such nodes. The second toleration lasts `unreachable` seconds, or the default.
fn tolerate(spec: &mut Spec, unreachable: Option<i64>) {
    let text =
        |toleration: &Value, member: &str| toleration[member].as_str().unwrap_or("").to_owned();
    let unreachable = unreachable.unwrap_or(TOLERATED_SECONDS);
    let seconds = [TOLERATED_SECONDS, unreachable];
    for (key, seconds) in TOLERATED_TAINTS.into_iter().zip(seconds) {
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
                "tolerationSeconds": seconds}),
            );
        }
    }
}

/// Fills in the overhead and scheduling constraints of a pod's runtime class.
///
/// # Errors
/// 403 for a class that does not exist, for an overhead that differs from that of the class, and
/// for a node selector that contradicts that of the class.
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

/// Adds an entry to a list, which may be absent or null, unless the list has an entry with the same
/// `key`.
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
