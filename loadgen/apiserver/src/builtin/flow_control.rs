//! `flowcontrol.apiserver.k8s.io`: stored, without any effect. The server does not prioritize
//! requests.
//!
//! Source: `pkg/registry/flowcontrol` and `pkg/apis/flowcontrol` of Kubernetes.

use podstorm_objects::cells::number;
use podstorm_objects::{Cell, Column, Map, MetadataChecks, Now, ResourceType, Rules};
use serde_json::Value;

use super::columns::column;
use super::members::missing;
use crate::defaulting::{Fill, Within};

const FLOW_CONTROL: ResourceType = ResourceType {
    group: "flowcontrol.apiserver.k8s.io",
    api_version: "flowcontrol.apiserver.k8s.io/v1",
    namespaced: false,
    has_status: true,
    has_generation: true,
    metadata_checks: MetadataChecks::BOTH,
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 2] = [
    ResourceType {
        kind: "FlowSchema",
        resource: "flowschemas",
        columns: SCHEMA,
        rules: Rules {
            default: |schema| {
                schema.fields.within("spec", |spec| {
                    spec.set("matchingPrecedence", 1000);
                })
            },
            validate: |schema, _| missing(schema, &["spec.priorityLevelConfiguration.name"]),
            ..Rules::NONE
        },
        ..FLOW_CONTROL
    },
    ResourceType {
        kind: "PriorityLevelConfiguration",
        resource: "prioritylevelconfigurations",
        columns: LEVEL,
        rules: Rules {
            default: |level| level.fields.within("spec", default_level),
            validate: |level, _| missing(level, &["spec.type"]),
            ..Rules::NONE
        },
        ..FLOW_CONTROL
    },
];

fn default_level(spec: &mut Map) {
    spec.with("limited", |limited| {
        limited.set_absent("nominalConcurrencyShares", 30);
        limited.set_absent("lendablePercent", 0);
        limited.with("limitResponse", |response| {
            response.with("queuing", |queuing| {
                queuing.set("queues", 64);
                queuing.set("handSize", 8);
                queuing.set("queueLengthLimit", 50);
            });
        });
    });
    spec.with("exempt", |exempt| {
        exempt.set_absent("nominalConcurrencyShares", 0);
        exempt.set_absent("lendablePercent", 0);
    });
}

const SCHEMA: &[Column] = &[
    Column::NAME,
    column(
        "PriorityLevel",
        Cell::TextOrEmpty("/spec/priorityLevelConfiguration/name"),
    ),
    column(
        "MatchingPrecedence",
        Cell::Number("/spec/matchingPrecedence"),
    ),
    column(
        "DistinguisherMethod",
        Cell::Text("/spec/distinguisherMethod/type"),
    ),
    Column::AGE,
    column("MissingPL", Cell::Of(missing_level)),
];

fn missing_level(schema: &Value, _: Now) -> Value {
    let conditions = schema["status"]["conditions"].as_array();
    let mut dangling = conditions
        .into_iter()
        .flatten()
        .filter(|it| it["type"] == "Dangling");
    dangling
        .next()
        .map_or("?".into(), |condition| condition["status"].clone())
}

const LEVEL: &[Column] = &[
    Column::NAME,
    column("Type", Cell::TextOrEmpty("/spec/type")),
    column(
        "NominalConcurrencyShares",
        Cell::Of(|level, _| of_limited(level, "/nominalConcurrencyShares")),
    ),
    column(
        "Queues",
        Cell::Of(|level, _| of_limited(level, "/limitResponse/queuing/queues")),
    ),
    column(
        "HandSize",
        Cell::Of(|level, _| of_limited(level, "/limitResponse/queuing/handSize")),
    ),
    column(
        "QueueLengthLimit",
        Cell::Of(|level, _| of_limited(level, "/limitResponse/queuing/queueLengthLimit")),
    ),
    Column::AGE,
];

fn of_limited(level: &Value, pointer: &str) -> Value {
    let limited = &level["spec"]["limited"];
    match limited.pointer(pointer) {
        Some(Value::Number(_)) => number(limited, pointer).to_string().into(),
        _ => "<none>".into(),
    }
}
