//! Services, Endpoints and EndpointSlices. No traffic is simulated: addresses are only given out.

use podstorm_objects::cells::{items, pairs, text};
use podstorm_objects::{
    Cell, Column, DynamicObject, GenerationOf, MetadataChecks, NameFormat, Now, ResourceType,
    Rules, Subresource,
};
use serde_json::Value;

use super::{service_addresses, service_rules};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{invalid_value, required};

pub(super) static ROWS: [ResourceType; 3] = [
    ResourceType {
        kind: "Service",
        name_format: NameFormat::Label,
        metadata_checks: MetadataChecks::BOTH,
        put_creates: true,
        resource: "services",
        subresources: &[Subresource::of_core(
            "proxy",
            "ServiceProxyOptions",
            Subresource::PROXY,
        )],
        has_status: true,
        short_names: &["svc"],
        categories: &["all"],
        selectable: &["spec.clusterIP", "spec.type"],
        returns_deleted: true,
        columns: SERVICE,
        rules: Rules {
            default: default_service,
            prepare: service_addresses::prepare,
            complete: service_addresses::give,
            prepare_status: default_status,
            validate: service_rules::validate,
            new_status: r#"{"loadBalancer":{}}"#,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        kind: "Endpoints",
        metadata_checks: MetadataChecks::BOTH,
        put_creates: true,
        resource: "endpoints",
        short_names: &["ep"],
        columns: ENDPOINTS,
        rules: Rules {
            default: |endpoints| {
                endpoints.fields.each("subsets", |subset| {
                    subset.each("ports", |port| {
                        port.set("protocol", DefaultValue::Text("TCP"))
                    });
                });
            },
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "discovery.k8s.io",
        api_version: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        generation_of: GenerationOf::SpecAndLabels,
        metadata_checks: MetadataChecks::WHOLE,
        resource: "endpointslices",
        has_generation: true,
        columns: ENDPOINT_SLICE,
        rules: Rules {
            default: |slice| {
                slice.fields.each("ports", |port| {
                    port.set_absent("name", DefaultValue::Text(""));
                    port.set_absent("protocol", DefaultValue::Text("TCP"));
                });
            },
            validate: |new, old| {
                let of = |slice: &DynamicObject| slice.fields.get("addressType").cloned();
                match (of(new), old.map(of)) {
                    (None, _) => vec![required("addressType", "")],
                    (Some(new), Some(old)) if Some(&new) != old.as_ref() => {
                        vec![invalid_value("addressType", &new, "field is immutable")]
                    }
                    _ => Vec::new(),
                }
            },
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

fn default_service(service: &mut DynamicObject) {
    service.fields.within("spec", |spec| {
        spec.set("sessionAffinity", DefaultValue::Text("None"));
        spec.set("type", DefaultValue::Text("ClusterIP"));
        if spec.text("sessionAffinity") == "ClientIP" {
            spec.within("sessionAffinityConfig", |config| {
                config.within("clientIP", |client| {
                    client.set_absent("timeoutSeconds", DefaultValue::Number(10_800));
                });
            });
        } else if spec.text("sessionAffinity") == "None" {
            spec.remove("sessionAffinityConfig");
        }
        let kind = spec.text("type").to_owned();
        spec.each("ports", |port| {
            port.set("protocol", DefaultValue::Text("TCP"));
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            port.set("targetPort", DefaultValue::Number(number));
        });
        if kind == "ExternalName" {
            return;
        }
        if service_addresses::is_external(spec) {
            spec.set("externalTrafficPolicy", DefaultValue::Text("Cluster"));
        }
        if kind == "LoadBalancer" {
            spec.set_absent("allocateLoadBalancerNodePorts", DefaultValue::True);
        }
        spec.set_absent("internalTrafficPolicy", DefaultValue::Text("Cluster"));
    });
    default_status(service);
}

/// How the addresses of a balancer are reached, unless it says otherwise.
fn default_status(service: &mut DynamicObject) {
    service.fields.with("status", |status| {
        status.with("loadBalancer", |balancer| {
            balancer.each("ingress", |ingress| {
                if !ingress.text("ip").is_empty() {
                    ingress.set_absent("ipMode", DefaultValue::Text("VIP"));
                }
            });
        });
    });
}

const SERVICE: &[Column] = &[
    Column::NAME,
    Column::new(
        "Type",
        "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If clusterIP is \"None\", no virtual IP is allocated and the endpoints are published as a set of endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on every node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP. \"ExternalName\" aliases this service to the specified externalName. Several other fields do not apply to ExternalName services. More info: https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
        Cell::TextOrEmpty("/spec/type"),
    ),
    Column::new(
        "Cluster-IP",
        "clusterIP is the IP address of the service and is usually assigned randomly. If an address is specified manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; otherwise creation of the service will fail. This field may not be changed through updates unless the type field is also being changed to ExternalName (which requires this field to be blank) or the type field is being changed from ExternalName (in which case this field may optionally be specified, as describe above).  Valid values are \"None\", empty string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no virtual IP), which is useful when direct endpoint connections are preferred and proxying is not required.  Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service of type ExternalName, creation will fail. This field will be wiped when updating a Service to type ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        Cell::Text("/spec/clusterIP"),
    ),
    Column::new(
        "External-IP",
        "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.  These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node with this IP.  A common example is external load-balancers that are not part of the Kubernetes system.",
        Cell::Of(external_addresses),
    ),
    Column::new(
        "Port(s)",
        "The list of ports that are exposed by this service. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        Cell::Of(ports),
    ),
    Column::AGE,
    Column::wide(
        "Selector",
        "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/",
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
                let address = text(ingress, "/ip");
                if address.is_empty() {
                    text(ingress, "/hostname")
                } else {
                    address
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
    if all.is_empty() {
        "<none>".into()
    } else {
        all.join(",").into()
    }
}

fn ports(service: &Value, _: Now) -> Value {
    let all: Vec<String> = items(service, "/spec/ports")
        .map(|port| match port["nodePort"].as_i64() {
            Some(node @ 1..) => format!("{}:{node}/{}", port["port"], text(port, "/protocol")),
            _ => format!("{}/{}", port["port"], text(port, "/protocol")),
        })
        .collect();
    if all.is_empty() {
        "<none>".into()
    } else {
        all.join(",").into()
    }
}

const ENDPOINTS: &[Column] = &[
    Column::NAME,
    Column::new(
        "Endpoints",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
        Cell::Of(endpoints),
    ),
    Column::AGE,
];

/// How many of a list are printed.
const SHOWN: usize = 3;

fn first_of(all: &[String]) -> Value {
    match all.len() {
        0 => "<none>".into(),
        count if count > SHOWN => {
            format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN).into()
        }
        _ => all.join(",").into(),
    }
}

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
    first_of(&all)
}

const ENDPOINT_SLICE: &[Column] = &[
    Column::NAME,
    Column::new(
        "AddressType",
        "addressType specifies the type of address carried by this EndpointSlice. All addresses in this slice must be the same type. This field is immutable after creation. The following address types are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 Address. * FQDN: Represents a Fully Qualified Domain Name. (Deprecated) The EndpointSlice controller only generates, and kube-proxy only processes, slices of addressType \"IPv4\" and \"IPv6\". No semantics are defined for the \"FQDN\" type.",
        Cell::TextOrEmpty("/addressType"),
    ),
    Column::new(
        "Ports",
        "ports specifies the list of network ports exposed by each endpoint in this slice. Each port must have a unique name. Each slice may include a maximum of 100 ports. Services always have at least 1 port, so EndpointSlices generated by the EndpointSlice controller will likewise always have at least 1 port. EndpointSlices used for other purposes may have an empty ports list.",
        Cell::Of(|slice, _| {
            let all: Vec<String> = items(slice, "/ports")
                .map(|port| match &port["port"] {
                    Value::Null => "*".to_owned(),
                    number => number.to_string(),
                })
                .collect();
            match all.is_empty() {
                true => "<unset>".into(),
                false => first_of(&all),
            }
        }),
    ),
    Column::new(
        "Endpoints",
        "endpoints is a list of unique endpoints in this slice. Each slice may include a maximum of 1000 endpoints.",
        Cell::Of(|slice, _| {
            let addresses =
                items(slice, "/endpoints").flat_map(|endpoint| items(endpoint, "/addresses"));
            let all: Vec<String> = texts(addresses).into_iter().map(str::to_owned).collect();
            match all.is_empty() {
                true => "<unset>".into(),
                false => first_of(&all),
            }
        }),
    ),
    Column::AGE,
];
