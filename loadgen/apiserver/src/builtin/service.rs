//! Services, Endpoints and EndpointSlices. Addresses are assigned, but traffic is not simulated.

use podstorm_objects::cells::{items, pairs, text};
use podstorm_objects::{Cell, Column, DynamicObject, Kind, Now, ResourceType, Rules, Warnings};
use serde_json::Value;

use super::columns::{column, first_of, joined, wide_column};
use super::{endpoint_slice, service_addresses, service_rules};
use crate::defaulting::{Fill, Within};

pub(super) static ROWS: [ResourceType; 3] = [
    ResourceType {
        columns: SERVICE,
        rules: Rules {
            default: default_service,
            prepare: service_addresses::prepare,
            complete: service_addresses::give,
            prepare_status: default_status,
            validate: service_rules::validate,
            warnings: &Warnings {
                written: |service| warnings(&(service.json)()["spec"]["externalIPs"]),
                ..Warnings::NONE
            },
            ..Rules::NONE
        },
        ..*Kind::SERVICE.row()
    },
    ResourceType {
        columns: ENDPOINTS,
        rules: Rules {
            default: |endpoints| {
                endpoints.fields.each("subsets", |subset| {
                    subset.each("ports", |port| port.set("protocol", "TCP"));
                });
            },
            warnings: &Warnings {
                deprecation: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 \
                              EndpointSlice",
                ..Warnings::NONE
            },
            ..Rules::NONE
        },
        ..*Kind::ENDPOINTS.row()
    },
    ResourceType {
        columns: ENDPOINT_SLICE,
        rules: Rules {
            default: |slice| {
                slice.fields.each("ports", |port| {
                    port.set_absent("name", "");
                    port.set_absent("protocol", "TCP");
                });
            },
            validate: endpoint_slice::validate,
            ..Rules::NONE
        },
        ..*Kind::ENDPOINT_SLICE.row()
    },
];

/// Returns the warnings about the external addresses of a Service.
fn warnings(addresses: &Value) -> Vec<String> {
    match addresses.as_array() {
        Some(addresses) if !addresses.is_empty() => vec![
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        ],
        _ => Vec::new(),
    }
}

fn default_service(service: &mut DynamicObject) {
    service.fields.within("spec", |spec| {
        spec.set("sessionAffinity", "None");
        spec.set("type", "ClusterIP");
        if spec.text("sessionAffinity") == "ClientIP" {
            spec.within("sessionAffinityConfig", |config| {
                config.within("clientIP", |client| {
                    client.set_absent("timeoutSeconds", 10_800);
                });
            });
        } else if spec.text("sessionAffinity") == "None" {
            spec.remove("sessionAffinityConfig");
        }
        let kind = spec.text("type").to_owned();
        spec.each("ports", |port| {
            port.set("protocol", "TCP");
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            port.set("targetPort", number);
        });
        if kind == "ExternalName" {
            return;
        }
        if service_addresses::is_external(spec) {
            spec.set("externalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            spec.set_absent("allocateLoadBalancerNodePorts", true);
        }
        spec.set_absent("internalTrafficPolicy", "Cluster");
    });
    default_status(service);
}

/// Sets the default IP mode of load balancer addresses.
fn default_status(service: &mut DynamicObject) {
    service.fields.with("status", |status| {
        status.with("loadBalancer", |balancer| {
            balancer.each("ingress", |ingress| {
                if !ingress.text("ip").is_empty() {
                    ingress.set_absent("ipMode", "VIP");
                }
            });
        });
    });
}

const SERVICE: &[Column] = &[
    Column::NAME,
    column("Type", Cell::TextOrEmpty("/spec/type")),
    column("Cluster-IP", Cell::Text("/spec/clusterIP")),
    column("External-IP", Cell::Of(external_addresses)),
    column("Port(s)", Cell::Of(ports)),
    Column::AGE,
    wide_column(
        "Selector",
        Cell::Of(|service, _| pairs(&service["spec"]["selector"])),
    ),
];

fn texts<'v>(list: impl Iterator<Item = &'v Value>) -> Vec<&'v str> {
    list.filter_map(Value::as_str).collect()
}

/// Source: `getServiceExternalIP` of Kubernetes' printers.
fn external_addresses(service: &Value, _: Now) -> Value {
    let mut all: Vec<&str> = Vec::new();
    if text(service, "/spec/type") == "LoadBalancer" {
        all.extend(
            items(service, "/status/loadBalancer/ingress").map(|ingress| {
                match text(ingress, "/ip") {
                    "" => text(ingress, "/hostname"),
                    address => address,
                }
            }),
        );
    }
    match text(service, "/spec/type") {
        "ExternalName" => return text(service, "/spec/externalName").into(),
        "LoadBalancer"
            if all.is_empty() && items(service, "/spec/externalIPs").next().is_none() =>
        {
            return "<pending>".into();
        }
        _ => all.extend(texts(items(service, "/spec/externalIPs"))),
    }
    joined(&all, "<none>")
}

fn ports(service: &Value, _: Now) -> Value {
    let all: Vec<String> = items(service, "/spec/ports")
        .map(|port| match port["nodePort"].as_i64() {
            Some(node @ 1..) => format!("{}:{node}/{}", port["port"], text(port, "/protocol")),
            _ => format!("{}/{}", port["port"], text(port, "/protocol")),
        })
        .collect();
    joined(&all, "<none>")
}

const ENDPOINTS: &[Column] = &[
    Column::NAME,
    column("Endpoints", Cell::Of(endpoints)),
    Column::AGE,
];

/// The maximum number of list items that are printed.
const SHOWN: usize = 3;

fn endpoints(endpoints: &Value, _: Now) -> Value {
    let mut all = Vec::new();
    for subset in items(endpoints, "/subsets") {
        let addresses = texts(items(subset, "/addresses").map(|address| &address["ip"]));
        let mut ports = items(subset, "/ports").peekable();
        if ports.peek().is_none() {
            all.extend(addresses.iter().map(|address| (*address).to_owned()));
        }
        for port in ports {
            all.extend(
                addresses
                    .iter()
                    .map(|address| format!("{address}:{}", port["port"])),
            );
        }
    }
    first_of(&all, SHOWN, ",", "<none>")
}

const ENDPOINT_SLICE: &[Column] = &[
    Column::NAME,
    column("AddressType", Cell::TextOrEmpty("/addressType")),
    column(
        "Ports",
        Cell::Of(|slice, _| {
            let all: Vec<String> = items(slice, "/ports")
                .map(|port| match &port["port"] {
                    Value::Null => "*".to_owned(),
                    number => number.to_string(),
                })
                .collect();
            first_of(&all, SHOWN, ",", "<unset>")
        }),
    ),
    column(
        "Endpoints",
        Cell::Of(|slice, _| {
            let addresses =
                items(slice, "/endpoints").flat_map(|endpoint| items(endpoint, "/addresses"));
            first_of(&texts(addresses), SHOWN, ",", "<unset>")
        }),
    ),
    Column::AGE,
];
