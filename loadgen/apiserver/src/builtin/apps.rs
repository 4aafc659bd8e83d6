//! `apps/v1` but ReplicaSets: Deployments, DaemonSets, StatefulSets, ControllerRevisions.

use podstorm_objects::cells::{containers, number, pairs, selector};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Kind, MetadataChecks, ResourceType, Rules,
};
use serde_json::Value;

use super::counts::Counts;
use super::{deployment, template};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{forbidden_field, invalid_value, not_supported, required};
use crate::validation::dns_label_problem;

const APPS: ResourceType = ResourceType {
    group: "apps",
    api_version: "apps/v1",
    ..ResourceType::DEFAULT
};

const WORKLOAD: ResourceType = ResourceType {
    has_status: true,
    has_generation: true,
    categories: &["all"],
    ..APPS
};

pub(super) static ROWS: [ResourceType; 4] = [
    ResourceType {
        columns: DEPLOYMENT,
        rules: Rules {
            default: default_deployment,
            new_status: "{}",
            validate,
            validate_status: |new, old| OF_DEPLOYMENT.check(new, old),
            ..Rules::NONE
        },
        ..*Kind::DEPLOYMENT.row()
    },
    ResourceType {
        kind: "DaemonSet",
        resource: "daemonsets",
        short_names: &["ds"],
        columns: DAEMON_SET,
        rules: Rules {
            default: default_daemon_set,
            prepare: count_templates,
            validate,
            validate_status: |new, old| OF_DAEMON_SET.check(new, old),
            new_status: r#"{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#,
            ..Rules::NONE
        },
        ..WORKLOAD
    },
    ResourceType {
        kind: "StatefulSet",
        resource: "statefulsets",
        short_names: &["sts"],
        has_scale: true,
        columns: STATEFUL_SET,
        rules: Rules {
            default: default_stateful_set,
            validate,
            validate_status: |new, old| OF_STATEFUL_SET.check(new, old),
            new_status: r#"{"replicas":0,"availableReplicas":0}"#,
            ..Rules::NONE
        },
        ..WORKLOAD
    },
    ResourceType {
        kind: "ControllerRevision",
        metadata_checks: MetadataChecks::BOTH,
        resource: "controllerrevisions",
        columns: CONTROLLER_REVISION,
        rules: Rules {
            default: |revision| {
                revision
                    .fields
                    .set_absent("revision", DefaultValue::Number(0))
            },
            validate: validate_revision,
            ..Rules::NONE
        },
        ..APPS
    },
];

fn default_deployment(deployment: &mut DynamicObject) {
    deployment.fields.within("spec", |spec| {
        spec.set_absent("replicas", DefaultValue::Number(1));
        template::set_defaults(spec);
        spec.set_absent("revisionHistoryLimit", DefaultValue::Number(10));
        spec.set_absent("progressDeadlineSeconds", DefaultValue::Number(600));
        spec.within("strategy", |strategy| {
            strategy.set("type", DefaultValue::Text("RollingUpdate"));
            if strategy.text("type") == "RollingUpdate" {
                strategy.within("rollingUpdate", |rolling| {
                    rolling.set_absent("maxUnavailable", DefaultValue::Text("25%"));
                    rolling.set_absent("maxSurge", DefaultValue::Text("25%"));
                });
            }
        });
    });
}

fn default_daemon_set(set: &mut DynamicObject) {
    // Upstream keeps the number in a member of its own, and writes it back: so it belongs to who writes.
    if set.metadata.annotations.get(COUNT).is_none() {
        set.metadata.annotations = set.metadata.annotations.with(COUNT, "0");
    }
    set.fields.within("spec", |spec| {
        template::set_defaults(spec);
        spec.set_absent("revisionHistoryLimit", DefaultValue::Number(10));
        spec.within("updateStrategy", |strategy| {
            strategy.set("type", DefaultValue::Text("RollingUpdate"));
            if strategy.text("type") == "RollingUpdate" {
                strategy.within("rollingUpdate", |rolling| {
                    rolling.set_absent("maxUnavailable", DefaultValue::Number(1));
                    rolling.set_absent("maxSurge", DefaultValue::Number(0));
                });
            }
        });
    });
}

fn default_stateful_set(set: &mut DynamicObject) {
    set.fields.within("spec", |spec| {
        spec.set_absent("replicas", DefaultValue::Number(1));
        template::set_defaults(spec);
        spec.set_absent("serviceName", DefaultValue::Text(""));
        spec.set("podManagementPolicy", DefaultValue::Text("OrderedReady"));
        spec.set_absent("revisionHistoryLimit", DefaultValue::Number(10));
        spec.within("updateStrategy", |strategy| {
            strategy.set("type", DefaultValue::Text("RollingUpdate"));
            if strategy.text("type") == "RollingUpdate" {
                strategy.within("rollingUpdate", |rolling| {
                    rolling.set_absent("partition", DefaultValue::Number(0));
                });
            }
        });
        spec.within("persistentVolumeClaimRetentionPolicy", |policy| {
            policy.set("whenDeleted", DefaultValue::Text("Retain"));
            policy.set("whenScaled", DefaultValue::Text("Retain"));
        });
        spec.each("volumeClaimTemplates", |claim| {
            claim.set_absent("apiVersion", DefaultValue::Text("v1"));
            claim.set_absent("kind", DefaultValue::Text("PersistentVolumeClaim"));
            claim.within("status", |status| {
                status.set("phase", DefaultValue::Text("Pending"));
            });
            claim.with("spec", super::storage::default_claim_spec);
        });
    });
}

/// The annotation with the number of templates that a DaemonSet had.
const COUNT: &str = "deprecated.daemonset.template.generation";

/// Counts the templates that a DaemonSet had.
fn count_templates(new: &mut DynamicObject, old: Option<&DynamicObject>) {
    let template = |set: &DynamicObject| {
        set.fields
            .get("spec")
            .and_then(|spec| spec.get("template"))
            .cloned()
    };
    let count = match old {
        None => 1,
        Some(old) => {
            let count = old
                .metadata
                .annotations
                .get(COUNT)
                .and_then(|count| count.parse::<i64>().ok());
            count.unwrap_or(1) + i64::from(template(new) != template(old))
        }
    };
    new.metadata.annotations = new.metadata.annotations.with(COUNT, &count.to_string());
}

/// What Deployments, DaemonSets and StatefulSets have in common with ReplicaSets.
fn validate(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let kind = new.kind().name();
    let is_stateful = kind == "StatefulSet";
    let mut causes = template::validate(new);
    let spec = |object: &DynamicObject| object.fields.get("spec").cloned().unwrap_or_default();
    let (new, old) = (spec(new), old.map(spec));
    match kind {
        "StatefulSet" => check_stateful(&new, &mut causes),
        "Deployment" => deployment::check(&new, &mut causes),
        _ => {}
    }
    if let Some(old) = &old
        && !is_stateful
        && new["selector"] != old["selector"]
    {
        let cause = invalid_value("spec.selector", &new["selector"], "field is immutable");
        causes.push(cause);
    }
    if let Some(old) = &old
        && is_stateful
    {
        const MUTABLE: [&str; 7] = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        let fixed = |spec: &Value| {
            let mut spec = spec.as_object().cloned().unwrap_or_default();
            spec.retain(|name, _| !MUTABLE.contains(&name.as_str()));
            spec
        };
        if fixed(&new) != fixed(old) {
            causes.push(forbidden_field(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                 'template', 'updateStrategy', 'revisionHistoryLimit', \
                 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
    }
    causes
}

/// The numbers of the status of a StatefulSet.
const OF_STATEFUL_SET: Counts = Counts {
    numbers: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &[
        ("readyReplicas", "replicas", "status.replicas"),
        ("currentReplicas", "replicas", "status.replicas"),
        ("updatedReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "status.readyReplicas"),
    ],
};

/// Those of a Deployment. Sic: not all are told with their parent.
const OF_DEPLOYMENT: Counts = Counts {
    numbers: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &[
        ("updatedReplicas", "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ],
};

/// Those of a DaemonSet.
const OF_DAEMON_SET: Counts = Counts {
    numbers: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
};

/// The rules of StatefulSets alone: their claims, numbers and names.
fn check_stateful(spec: &Value, causes: &mut Vec<Cause>) {
    let claims = podstorm_objects::cells::items(spec, "/volumeClaimTemplates");
    for (number, claim) in claims.enumerate() {
        let at = format!("spec.volumeClaimTemplates[{number}].spec");
        super::storage::check_claim_spec(&claim["spec"], &at, causes);
        if claim["metadata"]["name"].as_str().unwrap_or("").is_empty() {
            let volume = format!("spec.template.spec.volumes[{number}]");
            let claim = format!("{volume}.persistentVolumeClaim.claimName");
            causes.push(required(claim, ""));
            causes.push(required(format!("{volume}.name"), ""));
        }
    }
    for member in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"][member];
        let policies = ["Retain", "Delete"];
        if let Some(policy) = policy.as_str().filter(|it| !policies.contains(it)) {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{member}");
            causes.push(not_supported(field, policy, &policies));
        }
    }
    let policies = ["OrderedReady", "Parallel"];
    if let Some(policy) = spec["podManagementPolicy"].as_str()
        && !policies.contains(&policy)
    {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        let field = "spec.podManagementPolicy";
        causes.push(invalid_value(field, &policy.into(), detail));
    }
    if let Some(start) = spec["ordinals"]["start"]
        .as_i64()
        .filter(|start| *start < 0)
    {
        let detail = "must be greater than or equal to 0";
        causes.push(invalid_value("spec.ordinals.start", &start.into(), detail));
    }
    let service = spec["serviceName"].as_str().unwrap_or("");
    if let Some(problem) = dns_label_problem(service).filter(|_| !service.is_empty()) {
        causes.push(invalid_value("spec.serviceName", &service.into(), &problem));
    }
}

fn validate_revision(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match new.fields.get("data") {
        None | Some(Value::Null) => causes.push(required("data", "data is mandatory")),
        Some(Value::Object(_)) => {}
        Some(_) => causes.push(required("data", "data must be a valid JSON object")),
    }
    let revision = new.fields.get("revision").and_then(Value::as_i64);
    if let Some(revision) = revision.filter(|revision| *revision < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(invalid_value("revision", &revision.into(), detail));
    }
    // Upstream compares the texts, so that other blanks are a change.
    if let Some(old) = old
        && (old.fields.get("data") != new.fields.get("data") || old.has_blanks != new.has_blanks)
    {
        let data = new.fields.get("data").cloned().unwrap_or_default();
        causes.push(invalid_value("data", &data, "field is immutable"));
    }
    causes
}

const DEPLOYMENT: &[Column] = &[
    Column::NAME,
    Column::new("Ready", "Number of the pod with ready state", Cell::Of(ready)),
    Column::new("Up-to-date", "Total number of non-terminating pods targeted by this deployment that have the desired template spec.", Cell::Number("/status/updatedReplicas")).of_type("string"),
    Column::new("Available", "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.", Cell::Number("/status/availableReplicas")).of_type("string"),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    Column::wide("Selector", "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this deployment. It must match the pod template's labels.", Cell::Of(selector_of)),
];

const CONTAINERS: Column = Column::wide(
    "Containers",
    "Names of each container in the template.",
    Cell::Of(|object, _| containers(object, "name")),
);
const IMAGES: Column = Column::wide(
    "Images",
    "Images referenced by each container in the template.",
    Cell::Of(|object, _| containers(object, "image")),
);

fn selector_of(object: &Value, _: podstorm_objects::Now) -> Value {
    selector(&object["spec"]["selector"])
}

fn ready(object: &Value, _: podstorm_objects::Now) -> Value {
    let (ready, wanted) = (
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas"),
    );
    format!("{ready}/{wanted}").into()
}

const STATEFUL_SET: &[Column] = &[
    Column::NAME,
    Column::new(
        "Ready",
        "Number of the pod with ready state",
        Cell::Of(ready),
    ),
    Column::AGE,
    CONTAINERS,
    IMAGES,
];

const DAEMON_SET: &[Column] = &[
    Column::NAME,
    Column::new(
        "Desired",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        Cell::Number("/status/desiredNumberScheduled"),
    ),
    Column::new(
        "Current",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        Cell::Number("/status/currentNumberScheduled"),
    ),
    Column::new(
        "Ready",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod running with a Ready Condition.",
        Cell::Number("/status/numberReady"),
    ),
    Column::new(
        "Up-to-date",
        "The total number of nodes that are running updated daemon pod",
        Cell::Number("/status/updatedNumberScheduled"),
    ),
    Column::new(
        "Available",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available (ready for at least spec.minReadySeconds)",
        Cell::Number("/status/numberAvailable"),
    ),
    Column::new(
        "Node Selector",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's labels for the pod to be scheduled on that node. More info: https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
        Cell::Of(|set, _| pairs(&set["spec"]["template"]["spec"]["nodeSelector"])),
    ),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    Column::wide(
        "Selector",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        Cell::Of(selector_of),
    ),
];

const CONTROLLER_REVISION: &[Column] = &[
    Column::NAME,
    Column::new(
        "Controller",
        "Controller of the object",
        Cell::Of(|revision, _| {
            let mut owners = podstorm_objects::cells::items(revision, "/metadata/ownerReferences");
            match owners.find(|owner| owner["controller"] == true) {
                None => "<none>".into(),
                Some(owner) => {
                    let group = owner["apiVersion"]
                        .as_str()
                        .and_then(|version| version.split_once('/'));
                    let kind = owner["kind"].as_str().unwrap_or("").to_lowercase();
                    let dot = group.map_or(String::new(), |(group, _)| format!(".{group}"));
                    format!("{kind}{dot}/{}", owner["name"].as_str().unwrap_or("")).into()
                }
            }
        }),
    ),
    Column::new(
        "Revision",
        "Revision indicates the revision of the state represented by Data.",
        Cell::Number("/revision"),
    )
    .of_type("string"),
    Column::AGE,
];
