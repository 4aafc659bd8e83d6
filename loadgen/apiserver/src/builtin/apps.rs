//! `apps/v1` but ReplicaSets: Deployments, DaemonSets, StatefulSets, ControllerRevisions.

use podstorm_objects::cells::{containers, number, pairs, selector};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Kind, MetadataChecks, ResourceType, Rules,
};
use serde_json::Value;

use super::columns::{column, wide_column};
use super::counts::Counts;
use super::{deployment, template};
use crate::defaulting::{Fill, Within};
use crate::errors::required;
use crate::validation::{Checks, Field, IMMUTABLE, names};

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
            default: |revision| revision.fields.set_absent("revision", 0),
            validate: validate_revision,
            ..Rules::NONE
        },
        ..APPS
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
    // Upstream keeps the number in a member of its own, and writes it back: so it belongs to who writes.
    if set.metadata.annotations.get(COUNT).is_none() {
        set.metadata.annotations = set.metadata.annotations.with(COUNT, "0");
    }
    set.fields.within("spec", |spec| {
        template::set_defaults(spec);
        spec.set_absent("revisionHistoryLimit", 10);
        spec.within("updateStrategy", |strategy| {
            strategy.set("type", "RollingUpdate");
            if strategy.text("type") == "RollingUpdate" {
                strategy.within("rollingUpdate", |rolling| {
                    rolling.set_absent("maxUnavailable", 1);
                    rolling.set_absent("maxSurge", 0);
                });
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
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    let before = old.map(|old| checks.field(old, "spec").value);
    let shared = template::validate(new);
    match new.kind().name() {
        "Deployment" => deployment::check(&spec, shared),
        "StatefulSet" => {
            checks.extend(shared);
            check_stateful(&spec, before);
            return checks.found();
        }
        _ => checks.extend(shared),
    }
    if let Some(before) = before {
        spec.at("selector").unchanged(&before["selector"]);
    }
    checks.found()
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
fn check_stateful(spec: &Field<'_>, before: Option<&Value>) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    for (number, claim) in spec.at("volumeClaimTemplates").items().enumerate() {
        super::storage::check_claim_spec(&claim.at("spec"));
        if claim.at("metadata").at("name").text().is_empty() {
            for member in ["persistentVolumeClaim.claimName", "name"] {
                let field = format!("spec.template.spec.volumes[{number}].{member}");
                spec.checks.push(required(field, ""));
            }
        }
    }
    for member in ["whenDeleted", "whenScaled"] {
        let policy = spec.at("persistentVolumeClaimRetentionPolicy").at(member);
        policy.one_of(&["Retain", "Delete"]);
    }
    let policy = spec.at("podManagementPolicy");
    if policy.value.is_string() && !["OrderedReady", "Parallel"].contains(&policy.text()) {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    spec.at("ordinals").at("start").not_negative();
    let service = spec.at("serviceName");
    if !service.text().is_empty() {
        service.fits(names::dns_label);
    }
    if before.is_some_and(|before| spec.changes_beyond(before, &MUTABLE)) {
        spec.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
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
    // Upstream compares the texts, so that other blanks are a change.
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
