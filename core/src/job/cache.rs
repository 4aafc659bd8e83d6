//! The cached Jobs, each with values derived once, when the Job arrives.

use std::sync::{Arc, OnceLock};

use podstorm_objects::{
    AnyObject, DynamicObject, Kind, LabelSelector, Now, ObjectReference, OwnerReference, Pod,
    PodTemplate, Selector, SelectorError,
};
use podstorm_runtime::informer::Informed;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::Cached;
use serde_json::{Value, json};

use super::SECOND_NS;
use super::pod::{COMPLETION_INDEX, FAILURE_COUNT, TRACKING_FINALIZER};
use super::policies::{FailurePolicy, SuccessPolicy};
use super::status::JobStatus;
use crate::cache::selector_mark;
use crate::replicaset::reconcile::{NO_LABELS_ERROR, pod_of};

/// The value of `spec.managedBy` that assigns a Job to this controller, as an absent value does.
const MANAGER: &str = "kubernetes.io/job-controller";

/// The environment variable that holds the completion index of the pod.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// A compiled selector, or the compile error.
pub(super) type JobSelector = Result<Arc<Selector>, SelectorError>;

/// A cached Job.
#[derive(Debug)]
pub(crate) struct CachedJob {
    pub(super) object: Arc<DynamicObject>,
    pub(super) spec: Arc<JobSpec>,
    pub(super) status: JobStatus,
    pub(super) selector: JobSelector,
    /// A nonzero hash of the selector, which distinguishes it from earlier selectors of the Job.
    pub(super) selector_mark: u32,
    /// The controller reference that the Job's pods carry.
    pub(super) controller_ref: Arc<OwnerReference>,
    /// The reference that Events about the Job carry.
    pub(super) reference: Arc<ObjectReference>,
    /// The common pod, from which all pods of the Job are built. It is built on first use.
    pod: OnceLock<Result<Arc<Pod>, String>>,
}

/// The parts of the spec that a sync reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobSpec {
    pub(super) parallelism: i64,
    pub(super) completions: Option<i64>,
    pub(super) mode: Option<CompletionMode>,
    pub(super) backoff_limit: i64,
    pub(super) backoff_limit_per_index: Option<i64>,
    pub(super) max_failed_indexes: Option<i64>,
    pub(super) active_deadline_seconds: Option<i64>,
    pub(super) is_suspended: bool,
    /// Whether a controller other than this one manages the Job.
    pub(super) is_foreign: bool,
    /// Whether a terminating pod is replaced only after it has failed.
    pub(super) only_replace_failed: bool,
    pub(super) failure_policy: Option<FailurePolicy>,
    pub(super) success_policy: Option<SuccessPolicy>,
    /// Whether the pods have `restartPolicy: OnFailure`.
    pub(super) restarts_in_place: bool,
}

/// `spec.completionMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionMode {
    NonIndexed,
    Indexed,
    /// A mode that Kubernetes doesn't define.
    Unknown,
}

impl JobSpec {
    pub(super) fn read(object: &DynamicObject) -> JobSpec {
        let spec = object.fields.get("spec").unwrap_or(&Value::Null);
        let number = |name: &str| spec[name].as_i64();
        let backoff_limit_per_index = number("backoffLimitPerIndex");
        let failure_policy = FailurePolicy::read(&spec["podFailurePolicy"]);
        JobSpec {
            parallelism: number("parallelism").unwrap_or(1),
            completions: number("completions"),
            mode: spec["completionMode"].as_str().map(|mode| match mode {
                "NonIndexed" => CompletionMode::NonIndexed,
                "Indexed" => CompletionMode::Indexed,
                _ => CompletionMode::Unknown,
            }),
            // The server's defaults for absent members.
            backoff_limit: number("backoffLimit").unwrap_or(match backoff_limit_per_index {
                Some(_) => i64::from(i32::MAX),
                None => 6,
            }),
            backoff_limit_per_index,
            max_failed_indexes: number("maxFailedIndexes"),
            active_deadline_seconds: number("activeDeadlineSeconds"),
            is_suspended: spec["suspend"] == true,
            is_foreign: spec["managedBy"].as_str().is_some_and(|by| by != MANAGER),
            only_replace_failed: spec["podReplacementPolicy"] == "Failed"
                || failure_policy.is_some(),
            failure_policy,
            success_policy: SuccessPolicy::read(&spec["successPolicy"]),
            restarts_in_place: spec["template"]["spec"]["restartPolicy"] == "OnFailure",
        }
    }

    /// Returns the mode as a metric label; `None` for a mode that Kubernetes doesn't define.
    pub(super) fn mode_label(&self) -> Option<&'static str> {
        match self.mode {
            None | Some(CompletionMode::NonIndexed) => Some("NonIndexed"),
            Some(CompletionMode::Indexed) => Some("Indexed"),
            Some(CompletionMode::Unknown) => None,
        }
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.mode == Some(CompletionMode::Indexed)
    }

    /// Returns the number of indexes; 0 if the Job is not indexed.
    pub(super) fn indexes(&self) -> i64 {
        match self.is_indexed() {
            true => self.completions.unwrap_or(0),
            false => 0,
        }
    }

    pub(super) fn has_index(&self, index: i64) -> bool {
        (0..self.indexes()).contains(&index)
    }
}

impl CachedJob {
    /// Reports whether `podReplacementPolicy` requires that a terminating pod fails before it is
    /// replaced.
    pub(super) fn replaces_only_failed(&self) -> bool {
        spec_of(&self.object).is_some_and(|spec| spec["podReplacementPolicy"] == "Failed")
    }

    /// Returns the name of the controller that manages the Job.
    pub(super) fn manager(&self) -> &str {
        let manager = spec_of(&self.object).and_then(|spec| spec["managedBy"].as_str());
        manager.unwrap_or(MANAGER)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.status.conditions.end().is_some()
    }

    /// Returns the time in ns from `now` to the deadline of a Job that started at `start_ns`;
    /// negative after the deadline. `None` if the Job has no deadline or has not started.
    pub(super) fn deadline_left_ns(&self, start_ns: Option<i64>, now: Now) -> Option<i64> {
        let deadline = self.spec.active_deadline_seconds?.saturating_mul(SECOND_NS);
        Some(deadline.saturating_sub(now.wall_ns.saturating_sub(start_ns?)))
    }

    /// Returns the common pod, from which all pods of the Job are built: the template with the
    /// tracking finalizer. In an indexed Job, its containers have the environment variable for the
    /// index, and it has no host name: each pod gets its own with its index.
    ///
    /// # Errors
    /// Fails if the template can't be read or has no labels.
    pub(super) fn pod(&self) -> Result<Arc<Pod>, String> {
        let made = self.pod.get_or_init(|| {
            let spec = self.object.fields.get("spec").unwrap_or(&Value::Null);
            let mut template = spec["template"].clone();
            if self.spec.is_indexed() {
                let spec = &mut template["spec"];
                add_index_variable(spec);
                if let Some(members) = spec.as_object_mut() {
                    members.remove("hostname");
                }
            }
            let read = PodTemplate::from_json(template);
            let mut template = read.map_err(|error| format!("spec.template: {error}"))?;
            template.metadata.add_finalizer(TRACKING_FINALIZER);
            let job = &self.object.metadata.name;
            let mut pod = pod_of(job, &template, &self.controller_ref);
            if self.spec.is_indexed() {
                // The maps of all pods share this key. Each pod sets its own index.
                for map in [&mut pod.metadata.labels, &mut pod.metadata.annotations] {
                    *map = map.with(COMPLETION_INDEX, "");
                }
                if self.spec.backoff_limit_per_index.is_some() {
                    let annotations = &mut pod.metadata.annotations;
                    *annotations = annotations.with(FAILURE_COUNT, "0");
                }
            }
            match pod.metadata.labels.is_empty() {
                true => Err(NO_LABELS_ERROR.to_owned()),
                false => Ok(Arc::new(pod)),
            }
        });
        made.clone()
    }
}

/// Adds the environment variable with the index to each container that does not define it.
fn add_index_variable(spec: &mut Value) {
    let path = format!("metadata.labels['{COMPLETION_INDEX}']");
    let variable = json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            let variables = container.entry("env").or_insert(Value::Null);
            if variables.is_null() {
                *variables = json!([]);
            }
            if let Value::Array(variables) = variables
                && !variables.iter().any(|it| it["name"] == INDEX_VARIABLE)
            {
                variables.push(variable.clone());
            }
        }
    }
}

fn spec_of(object: &DynamicObject) -> Option<&Value> {
    object.fields.get("spec")
}

/// Returns the selector of a Job. An absent selector matches nothing; an empty one matches every
/// pod.
pub(super) fn selector_of(job: &DynamicObject) -> JobSelector {
    let selector = spec_of(job).and_then(|spec| spec.get("selector"));
    let selector = selector.filter(|it| !it.is_null()).cloned();
    let selector = selector.and_then(|it| LabelSelector::from_json(it).ok());
    Selector::compile(selector.as_ref()).map(Arc::new)
}

impl Cached for CachedJob {
    type Object = DynamicObject;
    type Context = ();

    fn derive(object: Arc<DynamicObject>, _: KeyId, old: Option<&Self>, _: &()) -> Self {
        let is_same = |old: &&Self| {
            let uids = [&old.object.metadata.uid, &object.metadata.uid];
            uids[0] == uids[1] && spec_of(&old.object) == spec_of(&object)
        };
        let (spec, selector, pod) = match old.filter(is_same) {
            Some(same) => (same.spec.clone(), same.selector.clone(), same.pod.clone()),
            None => (
                Arc::new(JobSpec::read(&object)),
                selector_of(&object),
                OnceLock::new(),
            ),
        };
        let meta = &object.metadata;
        CachedJob {
            selector_mark: selector_mark(&selector),
            spec,
            status: JobStatus::read(&object),
            selector,
            controller_ref: Arc::new(Kind::JOB.controller_reference(meta)),
            reference: Arc::new(ObjectReference::new(Kind::JOB, meta)),
            pod,
            object,
        }
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.object
    }

    fn selector(&self) -> Option<&Arc<Selector>> {
        self.selector.as_ref().ok()
    }
}

impl Informed for CachedJob {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}
