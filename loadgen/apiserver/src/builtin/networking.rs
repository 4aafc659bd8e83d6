//! `networking.k8s.io`: stored without any effect. Traffic is not simulated.
//!
//! Source: `pkg/registry/networking` and `pkg/apis/networking` of Kubernetes.

use podstorm_objects::cells::{items, or_none, selector, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Map, MetadataChecks, Now, ResourceType, Rules,
};
use serde_json::Value;

use super::columns::{column, first_of};
use super::members::{missing, needed_and_fixed, unchanged};
use crate::defaulting::{Fill, Within};
use crate::validation::{Checks, Field, names};

const NETWORKING: ResourceType = ResourceType {
    group: "networking.k8s.io",
    api_version: "networking.k8s.io/v1",
    metadata_checks: MetadataChecks::BOTH,
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 5] = [
    ResourceType {
        kind: "Ingress",
        resource: "ingresses",
        has_status: true,
        has_generation: true,
        short_names: &["ing"],
        columns: INGRESS,
        rules: Rules {
            validate: |ingress, _| validate_ingress(ingress),
            ..Rules::NONE
        },
        ..NETWORKING
    },
    ResourceType {
        kind: "IngressClass",
        resource: "ingressclasses",
        namespaced: false,
        has_generation: true,
        columns: CLASS,
        rules: Rules {
            default: |class| {
                class.fields.with("spec", |spec| {
                    spec.with("parameters", |parameters| {
                        parameters.set_absent("scope", "Cluster");
                    });
                });
            },
            validate: |new, old| {
                needed_and_fixed(new, old, &["spec.controller"], &["spec.controller"])
            },
            ..Rules::NONE
        },
        ..NETWORKING
    },
    ResourceType {
        kind: "NetworkPolicy",
        resource: "networkpolicies",
        has_generation: true,
        short_names: &["netpol"],
        columns: POLICY,
        rules: Rules {
            default: |policy| policy.fields.within("spec", default_policy),
            validate: |policy, _| validate_policy(policy),
            ..Rules::NONE
        },
        ..NETWORKING
    },
    ResourceType {
        kind: "IPAddress",
        resource: "ipaddresses",
        namespaced: false,
        short_names: &["ip"],
        columns: ADDRESS,
        rules: Rules {
            validate: |address, _| {
                let spec = [
                    "spec.parentRef",
                    "spec.parentRef.resource",
                    "spec.parentRef.name",
                ];
                missing(address, &spec)
            },
            ..Rules::NONE
        },
        ..NETWORKING
    },
    ResourceType {
        kind: "ServiceCIDR",
        resource: "servicecidrs",
        namespaced: false,
        has_status: true,
        columns: RANGE,
        rules: Rules {
            validate: validate_range,
            ..Rules::NONE
        },
        ..NETWORKING
    },
];

/// Sets the defaults of a NetworkPolicy. Ports use TCP. The policy applies to incoming traffic and,
/// if it has egress rules, also to outgoing traffic.
fn default_policy(spec: &mut Map) {
    let mut types: &[&str] = &["Ingress"];
    for direction in ["ingress", "egress"] {
        spec.each(direction, |rule| {
            rule.each("ports", |port| port.set_absent("protocol", "TCP"));
        });
    }
    let goes_out = spec.get("egress").and_then(Value::as_array);
    if goes_out.is_some_and(|rules| !rules.is_empty()) {
        types = &["Ingress", "Egress"];
    }
    if spec
        .get("policyTypes")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec.insert("policyTypes".to_owned(), types.into());
    }
    spec.set_absent("podSelector", Map::new());
}

fn validate_policy(policy: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    for given in checks.field(policy, "spec").at("policyTypes").items() {
        given.must_be_one_of(&["Egress", "Ingress"]);
    }
    checks.found()
}

fn validate_ingress(ingress: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(ingress, "spec");
    let (rules, default) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.items().next().is_none() && default.is_null() {
        spec.invalid("either `defaultBackend` or `rules` must be specified");
    }
    if !default.is_null() {
        check_backend(&default);
    }
    for rule in rules.items() {
        let http = rule.at("http");
        let paths = http.at("paths");
        if http.value.is_object() && paths.items().next().is_none() {
            paths.required("");
        }
        for path in paths.items() {
            check_path(&path);
        }
    }
    checks.found()
}

fn check_path(path: &Field<'_>) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let (kind, text) = (path.at("pathType"), path.at("path"));
    match kind.value.as_str() {
        None => kind.required("pathType must be specified"),
        Some(name) if !TYPES.contains(&name) => kind.one_of(&TYPES),
        Some(name) => {
            let may_be_empty = name == "ImplementationSpecific" && text.text().is_empty();
            if !text.text().starts_with('/') && !may_be_empty {
                text.invalid_as(text.text(), "must be an absolute path");
            }
        }
    }
    check_backend(&path.at("backend"));
}

/// Checks a backend: either a service with a port, by name or number, or a resource.
fn check_backend(backend: &Field<'_>) {
    const NO_PORT: &str = "port name or number is required";
    let (service, resource) = (backend.at("service"), backend.at("resource"));
    match (service.is_null(), resource.is_null()) {
        (true, true) => {
            service.at("name").required("");
            backend.required(NO_PORT);
        }
        (false, false) => {
            backend.invalid_as("", "cannot set both resource and service backends");
        }
        (false, true) => {
            service.at("name").needs_text("");
            let port = service.at("port");
            let number = port.at("number");
            match (port.at("name").text(), number.number()) {
                ("", 0) => backend.required(NO_PORT),
                ("", given) if !(1..=65_535).contains(&given) => {
                    number.invalid("must be between 1 and 65535, inclusive");
                }
                ("", _) | (_, 0) => {}
                _ => backend.invalid_as("", "cannot set both port name & port number"),
            }
        }
        (true, false) => {}
    }
}

fn validate_range(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    let ranges = spec.at("cidrs");
    match ranges.items().count() {
        0 => ranges.required("at least one CIDR required"),
        1 | 2 => {}
        _ => spec.invalid("may only hold up to 2 values"),
    }
    for range in ranges.items() {
        if let Some(problem) = names::range(range.text()) {
            range.invalid(problem);
        }
    }
    checks.extend(unchanged(new, old, &["spec.cidrs"]));
    checks.found()
}

const INGRESS: &[Column] = &[
    Column::NAME,
    column("Class", Cell::Of(|ingress, _| or_none(class_of(ingress)))),
    column("Hosts", Cell::Of(hosts)),
    column("Address", Cell::Of(addresses)),
    column(
        "Ports",
        Cell::Of(|ingress, _| match items(ingress, "/spec/tls").next() {
            Some(_) => "80, 443".into(),
            None => "80".into(),
        }),
    ),
    Column::AGE,
];

/// Returns the class of an ingress, from the newer field or else from the older annotation; `None`
/// if both are absent.
fn class_of(ingress: &Value) -> Option<&Value> {
    let annotation = "/metadata/annotations/kubernetes.io~1ingress.class";
    ingress
        .pointer("/spec/ingressClassName")
        .or_else(|| ingress.pointer(annotation))
}

/// Returns up to three hosts and the number of the others.
fn hosts(ingress: &Value, _: Now) -> Value {
    let all: Vec<&str> = items(ingress, "/spec/rules")
        .map(|rule| text(rule, "/host"))
        .filter(|host| !host.is_empty())
        .collect();
    first_of(&all, 3, ",", "*")
}

fn addresses(ingress: &Value, _: Now) -> Value {
    let all = items(ingress, "/status/loadBalancer/ingress");
    let texts: Vec<&str> = all
        .map(|point| match text(point, "/ip") {
            "" => text(point, "/hostname"),
            address => address,
        })
        .collect();
    texts.join(",").into()
}

const CLASS: &[Column] = &[
    Column::NAME,
    column("Controller", Cell::TextOrEmpty("/spec/controller")),
    column(
        "Parameters",
        Cell::Of(|class, _| match &class["spec"]["parameters"] {
            Value::Null => "<none>".into(),
            parameters => match (text(parameters, "/kind"), text(parameters, "/apiGroup")) {
                (kind, "") => format!("{kind}/{}", text(parameters, "/name")).into(),
                (kind, group) => format!("{kind}.{group}/{}", text(parameters, "/name")).into(),
            },
        }),
    ),
    Column::AGE,
];

const POLICY: &[Column] = &[
    Column::NAME,
    column(
        "Pod-Selector",
        Cell::Of(|policy, _| selector(&policy["spec"]["podSelector"])),
    ),
    Column::AGE,
];

const ADDRESS: &[Column] = &[
    Column::NAME,
    column(
        "ParentRef",
        Cell::Of(|address, _| {
            let of = &address["spec"]["parentRef"];
            let part = |name: &str| text(of, name).to_owned();
            let parts = [
                part("/group"),
                part("/resource"),
                part("/namespace"),
                part("/name"),
            ];
            let given: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            given.join("/").into()
        }),
    ),
];

const RANGE: &[Column] = &[
    Column::NAME,
    column(
        "CIDRs",
        Cell::Of(|range, _| {
            let all = items(range, "/spec/cidrs").filter_map(Value::as_str);
            all.collect::<Vec<_>>().join(",").into()
        }),
    ),
    Column::AGE,
];
