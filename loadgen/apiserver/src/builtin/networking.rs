//! `networking.k8s.io`: stored, and nothing here acts by them. No traffic is simulated.
//!
//! Source: `pkg/registry/networking` and `pkg/apis/networking` of Kubernetes.

use podstorm_objects::cells::{items, or_none, selector, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Map, MetadataChecks, Now, ResourceType, Rules,
};
use serde_json::Value;

use super::members::{missing, unchanged};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{invalid_value, not_supported, required};

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
            new_status: r#"{"loadBalancer":{}}"#,
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
                        parameters.set_absent("scope", DefaultValue::Text("Cluster"));
                    });
                });
            },
            validate: |new, old| {
                let mut causes = missing(new, &["spec.controller"]);
                causes.extend(unchanged(new, old, &["spec.controller"]));
                causes
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
            new_status: "{}",
            ..Rules::NONE
        },
        ..NETWORKING
    },
];

fn member<'o>(object: &'o DynamicObject, name: &str) -> &'o Value {
    object.fields.get(name).unwrap_or(&Value::Null)
}

/// Ports speak TCP unless they say so; a policy is about what comes in, and about what goes out where it has
/// rules of that.
fn default_policy(spec: &mut Map) {
    let mut types: &[&str] = &["Ingress"];
    for direction in ["ingress", "egress"] {
        spec.each(direction, |rule| {
            rule.each("ports", |port| {
                port.set_absent("protocol", DefaultValue::Text("TCP"))
            });
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
    spec.set_absent("podSelector", DefaultValue::EmptyObject);
}

fn validate_policy(policy: &DynamicObject) -> Vec<Cause> {
    const TYPES: [&str; 2] = ["Egress", "Ingress"];
    let spec = member(policy, "spec");
    let given = items(spec, "/policyTypes").enumerate();
    let wrong = given.filter_map(|(index, given)| {
        let text = given.as_str().unwrap_or("");
        let field = format!("spec.policyTypes[{index}]");
        (!TYPES.contains(&text)).then(|| not_supported(field, text, &TYPES))
    });
    wrong.collect()
}

fn validate_ingress(ingress: &DynamicObject) -> Vec<Cause> {
    let spec = member(ingress, "spec");
    let mut causes = Vec::new();
    if items(spec, "/rules").next().is_none() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        causes.push(invalid_value("spec", spec, detail));
    }
    if !spec["defaultBackend"].is_null() {
        check_backend(&spec["defaultBackend"], "spec.defaultBackend", &mut causes);
    }
    for (number, rule) in items(spec, "/rules").enumerate() {
        let at = format!("spec.rules[{number}].http.paths");
        if rule["http"].is_object() && items(rule, "/http/paths").next().is_none() {
            causes.push(required(&at, ""));
        }
        for (number, path) in items(rule, "/http/paths").enumerate() {
            check_path(path, &format!("{at}[{number}]"), &mut causes);
        }
    }
    causes
}

fn check_path(path: &Value, at: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let (kind, text) = (path["pathType"].as_str(), text(path, "/path"));
    match kind {
        None => causes.push(required(
            format!("{at}.pathType"),
            "pathType must be specified",
        )),
        Some(kind) if !TYPES.contains(&kind) => {
            causes.push(not_supported(format!("{at}.pathType"), kind, &TYPES));
        }
        Some(kind) => {
            let may_be_empty = kind == "ImplementationSpecific" && text.is_empty();
            if !text.starts_with('/') && !may_be_empty {
                let detail = "must be an absolute path";
                causes.push(invalid_value(format!("{at}.path"), &text.into(), detail));
            }
        }
    }
    check_backend(&path["backend"], &format!("{at}.backend"), causes);
}

/// A backend is a service with a port, by name or number, or a resource.
fn check_backend(backend: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_null(), resource.is_null()) {
        (true, true) => {
            let detail = "port name or number is required";
            causes.push(required(format!("{at}.service.name"), ""));
            causes.push(required(at, detail));
        }
        (false, false) => {
            let detail = "cannot set both resource and service backends";
            causes.push(invalid_value(at, &"".into(), detail));
        }
        (false, true) => {
            if text(service, "/name").is_empty() {
                causes.push(required(format!("{at}.service.name"), ""));
            }
            let port = &service["port"];
            match (text(port, "/name"), port["number"].as_i64().unwrap_or(0)) {
                ("", 0) => causes.push(required(at, "port name or number is required")),
                ("", number) if !(1..=65_535).contains(&number) => {
                    let detail = "must be between 1 and 65535, inclusive";
                    let field = format!("{at}.service.port.number");
                    causes.push(invalid_value(field, &number.into(), detail));
                }
                ("", _) | (_, 0) => {}
                _ => causes.push(invalid_value(
                    at,
                    &"".into(),
                    "cannot set both port name & port number",
                )),
            }
        }
        (true, false) => {}
    }
}

fn validate_range(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let ranges = &member(new, "spec")["cidrs"];
    let count = ranges.as_array().map_or(0, Vec::len);
    let mut causes = Vec::new();
    match count {
        0 => causes.push(required("spec.cidrs", "at least one CIDR required")),
        1 | 2 => {}
        _ => {
            let detail = "may only hold up to 2 values";
            causes.push(invalid_value("spec", member(new, "spec"), detail));
        }
    }
    for (index, range) in items(ranges, "").enumerate() {
        let text = range.as_str().unwrap_or("");
        if !is_range(text) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(invalid_value(format!("spec.cidrs[{index}]"), range, detail));
        }
    }
    causes.extend(unchanged(new, old, &["spec.cidrs"]));
    causes
}

fn is_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

const INGRESS: &[Column] = &[
    Column::NAME,
    Column::new(
        "Class",
        "The name of the IngressClass resource that should be used for additional configuration",
        Cell::Of(|ingress, _| or_none(class_of(ingress))),
    ),
    Column::new(
        "Hosts",
        "Hosts that incoming requests are matched against before the ingress rule",
        Cell::Of(hosts),
    ),
    Column::new(
        "Address",
        "Address is a list containing ingress points for the load-balancer",
        Cell::Of(addresses),
    ),
    Column::new(
        "Ports",
        "Ports of TLS configurations that open",
        Cell::Of(|ingress, _| match items(ingress, "/spec/tls").next() {
            Some(_) => "80, 443".into(),
            None => "80".into(),
        }),
    ),
    Column::AGE,
];

/// The class of an ingress, by the older annotation where the newer member is absent.
fn class_of(ingress: &Value) -> Option<&Value> {
    let annotation = "/metadata/annotations/kubernetes.io~1ingress.class";
    ingress
        .pointer("/spec/ingressClassName")
        .or_else(|| ingress.pointer(annotation))
}

/// Up to three hosts, and how many more there are.
fn hosts(ingress: &Value, _: Now) -> Value {
    const SHOWN: usize = 3;
    let all: Vec<&str> = items(ingress, "/spec/rules")
        .map(|rule| text(rule, "/host"))
        .filter(|host| !host.is_empty())
        .collect();
    match all.len() {
        0 => "*".into(),
        1..=SHOWN => all.join(",").into(),
        count => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN).into(),
    }
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
    Column::new(
        "Controller",
        "Controller that is responsible for handling this class",
        Cell::TextOrEmpty("/spec/controller"),
    ),
    Column::new(
        "Parameters",
        "A reference to a resource with additional parameters",
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
    Column::new(
        "Pod-Selector",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
        Cell::Of(|policy, _| selector(&policy["spec"]["podSelector"])),
    ),
    Column::AGE,
];

const ADDRESS: &[Column] = &[
    Column::NAME,
    Column::new(
        "ParentRef",
        "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a parent object.",
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
    Column::new(
        "CIDRs",
        "CIDRs defines the IP blocks in CIDR notation (e.g. \"192.168.0.0/24\" or \"2001:db8::/64\") from which to assign service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This field is immutable.",
        Cell::Of(|range, _| {
            let all = items(range, "/spec/cidrs").filter_map(Value::as_str);
            all.collect::<Vec<_>>().join(",").into()
        }),
    ),
    Column::AGE,
];
