//! `flowcontrol.apiserver.k8s.io`: stored. This server takes requests as they come.
//!
//! Source: `pkg/registry/flowcontrol` and `pkg/apis/flowcontrol` of Kubernetes.

use podstorm_objects::cells::{number, text};
use podstorm_objects::{Cell, Column, Map, MetadataChecks, Now, ResourceType, Rules};
use serde_json::Value;

use super::members::missing;
use crate::defaulting::{DefaultValue, Fill, Within};

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
                    spec.set("matchingPrecedence", DefaultValue::Number(1000));
                })
            },
            validate: |schema, _| missing(schema, &["spec.priorityLevelConfiguration.name"]),
            new_status: "{}",
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
            new_status: "{}",
            ..Rules::NONE
        },
        ..FLOW_CONTROL
    },
];

fn default_level(spec: &mut Map) {
    spec.with("limited", |limited| {
        limited.set_absent("nominalConcurrencyShares", DefaultValue::Number(30));
        limited.set_absent("lendablePercent", DefaultValue::Number(0));
        limited.with("limitResponse", |response| {
            response.with("queuing", |queuing| {
                queuing.set("queues", DefaultValue::Number(64));
                queuing.set("handSize", DefaultValue::Number(8));
                queuing.set("queueLengthLimit", DefaultValue::Number(50));
            });
        });
    });
    spec.with("exempt", |exempt| {
        exempt.set_absent("nominalConcurrencyShares", DefaultValue::Number(0));
        exempt.set_absent("lendablePercent", DefaultValue::Number(0));
    });
}

const SCHEMA: &[Column] = &[
    Column::NAME,
    Column::new(
        "PriorityLevel",
        "`priorityLevelConfiguration` should reference a PriorityLevelConfiguration in the cluster. If the reference cannot be resolved, the FlowSchema will be ignored and marked as invalid in its status. Required.",
        Cell::TextOrEmpty("/spec/priorityLevelConfiguration/name"),
    ),
    Column::new(
        "MatchingPrecedence",
        "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The chosen FlowSchema is among those with the numerically lowest (which we take to be logically highest) MatchingPrecedence.  Each MatchingPrecedence value must be ranged in [1,10000]. Note that if the precedence is not specified, it will be set to 1000 as default.",
        Cell::Number("/spec/matchingPrecedence"),
    ),
    Column::new(
        "DistinguisherMethod",
        "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this schema. `nil` specifies that the distinguisher is disabled and thus will always be the empty string.",
        Cell::Of(
            |schema, _| match text(schema, "/spec/distinguisherMethod/type") {
                "" => "<none>".into(),
                method => method.into(),
            },
        ),
    ),
    Column::AGE,
    Column::new(
        "MissingPL",
        "Status: whether the referenced priority level exists",
        Cell::Of(missing_level),
    ),
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
    Column::new(
        "Type",
        "`type` indicates whether this priority level is subject to limitation on request execution.  A value of `\"Exempt\"` means that requests of this priority level are not subject to a limit (and thus are never queued) and do not detract from the capacity made available to other priority levels.  A value of `\"Limited\"` means that (a) requests of this priority level _are_ subject to limits and (b) some of the server's limited capacity is made available exclusively to this priority level. Required.",
        Cell::TextOrEmpty("/spec/type"),
    ),
    Column::new(
        "NominalConcurrencyShares",
        "The concurrency shares of the level",
        Cell::Of(|level, _| of_limited(level, "/nominalConcurrencyShares")),
    ),
    Column::new(
        "Queues",
        "How many queues it has",
        Cell::Of(|level, _| of_limited(level, "/limitResponse/queuing/queues")),
    ),
    Column::new(
        "HandSize",
        "How many of them a flow may use",
        Cell::Of(|level, _| of_limited(level, "/limitResponse/queuing/handSize")),
    ),
    Column::new(
        "QueueLengthLimit",
        "How many requests wait in a queue at most",
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
