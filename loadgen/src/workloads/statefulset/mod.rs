//! The StatefulSet workload.

mod audit;
mod explain;
mod input;

use std::sync::Arc;

use compact_str::format_compact;
use podstorm::statefulset::course::{Course, settled_status};
use podstorm::statefulset::spec::SetSpec;
use podstorm_objects::{AnyObject, DynamicObject, Kind, Labels, Object, ObjectMeta, Pod, Str};
use serde_json::{Value, json};

use super::explain::{Asked, Explanation};
use super::flags::{Flag, FlagValues, Form};
use super::objects::{Objects, members, recreated};
use super::{
    Demand, Findings, Gates, LaboratoryWorkload, Limits, NameFlag, OwnsPods, Part, Progress,
    RollsOut, StatusCounts,
};
use crate::input::InputObject;
use crate::owned_pods::PodsByOwner;

static FLAGS: [Flag; 5] = [
    Flag {
        name: "statefulsets",
        form: Form::Size,
        help: "StatefulSets; the pods are divided over them evenly [default: pods/50, unless the scenario \
            sets another number]",
    },
    Flag {
        name: "pods-per-statefulset",
        form: Form::Size,
        help: "Pods of each StatefulSet; any two of this, --pods and --statefulsets determine the third",
    },
    Flag {
        name: "parallel-pod-management",
        form: Form::Switch,
        help: "podManagementPolicy Parallel in the generated StatefulSets: no pod waits for the previous one",
    },
    Flag {
        name: "partition",
        form: Form::Number(0),
        help: "partition of their rolling updates: this number of pods of each StatefulSet, the first ones, is not \
            updated [default: 0, unless the scenario sets another number]",
    },
    Flag {
        name: "statefulset-max-unavailable",
        form: Form::Number(1),
        help: "maxUnavailable of their rolling updates; it takes effect only with the feature gate \
            MaxUnavailableStatefulSet [default: 1, unless the scenario sets another number]",
    },
];

static PARALLEL: &Flag = &FLAGS[2];
static PARTITION: &Flag = &FLAGS[3];
static MAX_UNAVAILABLE: &Flag = &FLAGS[4];

/// The StatefulSet workload. StatefulSets own their pods and have rollouts.
#[derive(Debug)]
pub(super) struct StatefulSets;

impl LaboratoryWorkload for StatefulSets {
    fn kind(&self) -> Kind {
        Kind::STATEFUL_SET
    }

    fn flags(&self) -> &'static [Flag] {
        &FLAGS
    }

    fn check_flags(&self, values: &FlagValues, _: i32) -> Result<(), String> {
        match MAX_UNAVAILABLE.number(values) {
            0 => Err(format!(
                "--{} must be at least 1: no pod could be replaced",
                MAX_UNAVAILABLE.name
            )),
            _ => Ok(()),
        }
    }

    /// Returns the StatefulSet as a user would write it.
    fn make(&self, part: Part, objects: &Objects) -> Option<AnyObject> {
        let values = &objects.values;
        let name = format_compact!("set-{:05}", part.number);
        let labels = Labels::from_pairs([("app", name.as_str())]);
        let policy = match PARALLEL.is_on(values) {
            true => "Parallel",
            false => "OrderedReady",
        };
        let mut rolling = json!({"partition": PARTITION.number(values)});
        if let at_once @ 2.. = MAX_UNAVAILABLE.number(values) {
            rolling["maxUnavailable"] = at_once.into();
        }
        let spec = json!({
            "replicas": part.replicas,
            "serviceName": name.as_str(),
            "selector": {"matchLabels": {"app": name.as_str()}},
            "podManagementPolicy": policy,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "minReadySeconds": objects.min_ready_seconds,
            "template": objects.template(&labels).to_json(),
        });
        let mut set = DynamicObject::new(Kind::STATEFUL_SET);
        set.metadata = ObjectMeta {
            name,
            namespace: Str::clone(objects.namespace_of(part.number)),
            labels,
            ..ObjectMeta::default()
        };
        set.fields = members(json!({ "spec": spec }));
        Some(Arc::new(set))
    }

    fn name_flag(&self) -> NameFlag {
        NameFlag {
            name: "statefulset",
            help: "A StatefulSet: its next syncs, the pod or claim that it then waits for, and the pod that \
                unblocks it if it is stuck; with --replicas or --image, after that change",
        }
    }

    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>> {
        explain::answer(name, asked)
    }

    fn pods(&self) -> Option<&dyn OwnsPods> {
        Some(self)
    }

    fn rollouts(&self) -> Option<&dyn RollsOut> {
        Some(self)
    }
}

/// Converts a number from a spec or status, which has at most 32 bits on every server.
fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl OwnsPods for StatefulSets {
    fn demand(&self, object: &dyn Object) -> Option<Demand> {
        let course = Course::from_object(object)?;
        Some(Demand {
            replicas: int32(course.replicas),
            status: StatusCounts {
                replicas: int32(course.pods),
                ready: int32(course.ready),
                available: int32(course.available),
                observed_generation: course.observed_generation,
            },
        })
    }

    fn selected_labels(&self, object: &dyn Object) -> Option<Labels> {
        let set = of_kind(object)?;
        let labels = &set.fields.get("spec")?["selector"]["matchLabels"];
        Labels::from_json(labels.clone()).ok()
    }

    /// Returns `None`: every pod has its own name, and only the controller creates it.
    fn pod(&self, _number: u64, _owner: Option<&ObjectMeta>, _objects: &Objects) -> Option<Pod> {
        None
    }

    fn recreated(&self, object: &dyn Object) -> Option<AnyObject> {
        let mut set = of_kind(object)?.clone();
        set.metadata = recreated(&set.metadata);
        set.fields.remove("status");
        Some(Arc::new(set))
    }

    fn claim_templates(&self, object: &dyn Object) -> Vec<DynamicObject> {
        let spec = of_kind(object).and_then(|set| set.fields.get("spec")?.as_object());
        let templates = spec.map(|spec| SetSpec::read(spec).claim_templates);
        let templates = templates.into_iter().flatten();
        templates.map(|template| template.0).collect()
    }

    fn audits_pods(&self) -> bool {
        true
    }

    fn audit(&self, object: &dyn Object, pods: &[Arc<Pod>]) -> Result<(), String> {
        audit::check(object, pods)
    }

    fn settled(&self, object: &dyn Object, _gates: &Gates) -> Option<AnyObject> {
        let mut set = of_kind(object)?.clone();
        let status = settled_status(&set).ok()?;
        set.fields.insert("status".to_owned(), status);
        Some(Arc::new(set))
    }
}

fn of_kind(object: &dyn Object) -> Option<&DynamicObject> {
    let set = object.downcast_ref::<DynamicObject>()?;
    (object.kind() == Kind::STATEFUL_SET).then_some(set)
}

impl RollsOut for StatefulSets {
    /// Returns the progress of a rollout. With OnDelete, which rolls out nothing, a rollout is
    /// complete once the status describes the newest spec.
    fn progress(&self, object: &dyn Object) -> Option<Progress> {
        let course = Course::from_object(object)?;
        let is_observed = course.is_observed();
        let is_complete = course
            .rollout_status()
            .map_or(is_observed, |status| status.done);
        Some(Progress {
            replicas: int32(course.replicas),
            is_complete,
            is_over: is_complete,
            is_observed,
            is_paused: false,
        })
    }

    /// Sets `maxUnavailable`, which the server accepts if its gate is on. StatefulSets have no
    /// surge.
    fn set_limits(&self, spec: &mut Value, limits: Limits) {
        let mut rolling =
            json!({"partition": spec["updateStrategy"]["rollingUpdate"]["partition"]});
        if !limits.max_unavailable.is_zero() {
            rolling["maxUnavailable"] = limits.max_unavailable.to_json();
        }
        spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    }

    fn examine(&self, objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings) {
        input::examine(objects, owned, found);
    }
}

#[cfg(test)]
mod tests;
