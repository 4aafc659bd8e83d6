//! `apps/v1` except ReplicaSets: Deployments, DaemonSets, StatefulSets, ControllerRevisions.

use podstorm_objects::cells::{containers, number, pairs, selector};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, GatedMember, Kind, Map, ResourceType, Rules,
};
use serde_json::Value;

use super::columns::{column, wide_column};
use super::counts::StatusNumbers;
use super::{rollout, template};
use crate::defaulting::{Fill, Within};
use crate::validation::{Checks, Field, IMMUTABLE, Workload, names};

const WORKLOAD: ResourceType = ResourceType {
    group: "apps",
    api_version: "apps/v1",
    has_status: true,
    has_generation: true,
    categories: &["all"],
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 4] = [
    ResourceType {
        columns: DEPLOYMENT,
        rules: Rules {
            default: default_deployment,
            validate: validate_deployment,
            validate_status: |new, old| OF_DEPLOYMENT.check(new, old),
            warnings: &template::WARNINGS_WITH_NAME,
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
            validate: validate_daemon_set,
            validate_status: |new, old| OF_DAEMON_SET.check(new, old),
            warnings: &template::WARNINGS,
            ..Rules::NONE
        },
        ..WORKLOAD
    },
    ResourceType {
        columns: STATEFUL_SET,
        rules: Rules {
            default: default_stateful_set,
            gated: &[GatedMember {
                gate: "MaxUnavailableStatefulSet",
                within: &["spec", "updateStrategy", "rollingUpdate"],
                name: "maxUnavailable",
                default: 1,
            }],
            validate: validate_stateful_set,
            validate_status: |new, old| OF_STATEFUL_SET.check(new, old),
            warnings: &template::WARNINGS,
            ..Rules::NONE
        },
        ..*Kind::STATEFUL_SET.row()
    },
    ResourceType {
        columns: CONTROLLER_REVISION,
        rules: Rules {
            default: |revision| revision.fields.set_absent("revision", 0),
            validate: validate_revision,
            ..Rules::NONE
        },
        ..*Kind::CONTROLLER_REVISION.row()
    },
];

fn default_deployment(deployment: &mut DynamicObject) {
    deployment.fields.within("spec", |spec| {
        spec.set_absent("replicas", 1);
        template::set_defaults(spec);
        spec.set_absent("revisionHistoryLimit", 10);
        spec.set_absent("progressDeadlineSeconds", 600);
        spec.within("strategy", |strategy| {
            strategy.set("type", "RollingUpdate");
            if strategy.text("type") == "RollingUpdate" {
                strategy.within("rollingUpdate", |rolling| {
                    rolling.set_absent("maxUnavailable", "25%");
                    rolling.set_absent("maxSurge", "25%");
                });
            }
        });
    });
}

fn default_daemon_set(set: &mut DynamicObject) {
    // Upstream has a typed field for the number and writes it back, so the writer owns the
    // annotation.
    if set.metadata.annotations.get(COUNT).is_none() {
        set.metadata.annotations = set.metadata.annotations.with(COUNT, "0");
    }
    set.fields.within("spec", |spec| {
        template::set_defaults(spec);
        spec.set_absent("revisionHistoryLimit", 10);
        spec.within("updateStrategy", |strategy| {
            strategy.set("type", "RollingUpdate");
            let rolls = strategy.text("type") == "RollingUpdate";
            let default = |rolling: &mut Map| {
                // Upstream's internal type has no absent numbers.
                rolling.set_absent("maxUnavailable", i64::from(rolls));
                rolling.set_absent("maxSurge", 0);
            };
            match rolls {
                true => strategy.within("rollingUpdate", default),
                false => strategy.with("rollingUpdate", default),
            }
        });
    });
}

fn default_stateful_set(set: &mut DynamicObject) {
    set.fields.within("spec", |spec| {
        spec.set_absent("replicas", 1);
        template::set_defaults(spec);
        spec.set_absent("serviceName", "");
        spec.set("podManagementPolicy", "OrderedReady");
        spec.set_absent("revisionHistoryLimit", 10);
        spec.within("updateStrategy", |strategy| {
            strategy.set("type", "RollingUpdate");
            if strategy.text("type") == "RollingUpdate" {
                strategy.within("rollingUpdate", |rolling| {
                    rolling.set_absent("partition", 0);
                });
            }
        });
        spec.within("persistentVolumeClaimRetentionPolicy", |policy| {
            policy.set("whenDeleted", "Retain");
            policy.set("whenScaled", "Retain");
        });
        spec.each("volumeClaimTemplates", |claim| {
            claim.set_absent("apiVersion", "v1");
            claim.set_absent("kind", "PersistentVolumeClaim");
            claim.within("status", |status| {
                status.set("phase", "Pending");
            });
            claim.with("spec", super::storage::default_claim_spec);
        });
    });
}

/// The annotation with the number of templates that a DaemonSet has had.
const COUNT: &str = "deprecated.daemonset.template.generation";

/// Updates the number of templates that a DaemonSet has had.
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

fn validate_deployment(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    rollout::check_deployment(&spec, template::validate(new, Workload::REPLICA_SET));
    keep_selector(&spec, old);
    checks.found()
}

fn validate_daemon_set(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    let mut shared = template::validate(new, Workload::DAEMON_SET);
    // Upstream checks only the entries of the selector, and that it is not empty.
    shared.retain(|cause| {
        cause.field != "spec.selector" || cause.message.contains("empty selector is invalid")
    });
    rollout::check_daemon_set(&spec, shared);
    keep_selector(&spec, old);
    checks.found()
}

fn keep_selector(spec: &Field<'_>, old: Option<&DynamicObject>) {
    if let Some(before) = old.map(|old| spec.checks.field(old, "spec").value) {
        spec.at("selector").unchanged(&before["selector"]);
    }
}

/// The numbers in the status of a StatefulSet.
const OF_STATEFUL_SET: StatusNumbers = StatusNumbers {
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

/// The numbers in the status of a Deployment. As in upstream, some paths lack their parent.
const OF_DEPLOYMENT: StatusNumbers = StatusNumbers {
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

/// The numbers in the status of a DaemonSet.
const OF_DAEMON_SET: StatusNumbers = StatusNumbers {
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

fn validate_stateful_set(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    let policy = spec.at("podManagementPolicy");
    if policy.value.is_string() && !["OrderedReady", "Parallel"].contains(&policy.text()) {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    rollout::check_stateful_set(&spec.at("updateStrategy"));
    for member in ["whenDeleted", "whenScaled"] {
        let policy = spec.at("persistentVolumeClaimRetentionPolicy").at(member);
        policy.one_of(&["Retain", "Delete"]);
    }
    let shared = template::validate(new, Workload::STATEFUL_SET);
    let is_of_template = |cause: &Cause| cause.field.starts_with("spec.template");
    let is_of_selector = |cause: &Cause| cause.field.starts_with("spec.selector");
    let (of_template, rest): (Vec<_>, Vec<_>) = shared.into_iter().partition(is_of_template);
    let (mut of_selector, counts): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_of_selector);
    checks.extend(counts);
    spec.at("ordinals").at("start").not_negative();
    for cause in &mut of_selector {
        cause.message = cause.message.replace(": invalid label selector", "");
    }
    checks.extend(of_selector);
    if old.is_none() {
        for claim in spec.at("volumeClaimTemplates").items() {
            super::storage::check_claim_spec(&claim.at("spec"));
        }
    }
    // Sic: the template's metadata is checked twice.
    let of_metadata = ["spec.template.labels", "spec.template.annotations"];
    let is_of_metadata = |cause: &Cause| {
        of_metadata
            .iter()
            .any(|field| cause.field.starts_with(field))
    };
    let again = of_template.iter().filter(|cause| is_of_metadata(cause));
    checks.extend(again.cloned().collect());
    checks.extend(of_template);
    let service = spec.at("serviceName");
    if old.is_none() && !service.text().is_empty() {
        service.fits(names::dns_label);
    }
    let before = old.map(|old| checks.field(old, "spec").value);
    if before.is_some_and(|before| spec.changes_beyond(before, &MUTABLE)) {
        spec.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
    checks.found()
}

fn validate_revision(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let data = checks.field(new, "data");
    match data.value {
        Value::Null => data.required("data is mandatory"),
        Value::Object(_) => {}
        _ => data.required("data must be a valid JSON object"),
    }
    checks.field(new, "revision").not_negative();
    // Upstream compares bytes, so a change of whitespace is a change.
    if let Some(old) = old
        && (old.fields.get("data") != new.fields.get("data") || old.has_blanks != new.has_blanks)
    {
        data.invalid(IMMUTABLE);
    }
    checks.found()
}

const DEPLOYMENT: &[Column] = &[
    Column::NAME,
    column("Ready", Cell::Of(ready)),
    column("Up-to-date", Cell::Number("/status/updatedReplicas")).of_type("string"),
    column("Available", Cell::Number("/status/availableReplicas")).of_type("string"),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    wide_column("Selector", Cell::Of(selector_of)),
];

const CONTAINERS: Column = wide_column(
    "Containers",
    Cell::Of(|object, _| containers(object, "name")),
);
const IMAGES: Column = wide_column("Images", Cell::Of(|object, _| containers(object, "image")));

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
    column("Ready", Cell::Of(ready)),
    Column::AGE,
    CONTAINERS,
    IMAGES,
];

const DAEMON_SET: &[Column] = &[
    Column::NAME,
    column("Desired", Cell::Number("/status/desiredNumberScheduled")),
    column("Current", Cell::Number("/status/currentNumberScheduled")),
    column("Ready", Cell::Number("/status/numberReady")),
    column("Up-to-date", Cell::Number("/status/updatedNumberScheduled")),
    column("Available", Cell::Number("/status/numberAvailable")),
    column(
        "Node Selector",
        Cell::Of(|set, _| pairs(&set["spec"]["template"]["spec"]["nodeSelector"])),
    ),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    wide_column("Selector", Cell::Of(selector_of)),
];

const CONTROLLER_REVISION: &[Column] = &[
    Column::NAME,
    column(
        "Controller",
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
    column("Revision", Cell::Number("/revision")).of_type("string"),
    Column::AGE,
];
