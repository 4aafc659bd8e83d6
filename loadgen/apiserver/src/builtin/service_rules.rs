//! The rules of Services.
//!
//! Source: `ValidateService` of Kubernetes' `pkg/apis/core/validation`.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{Cause, DynamicObject, Map};
use serde_json::{Value, json};

use super::service_addresses::{self, is_external};
use crate::errors::{forbidden_field, invalid_value, not_supported, required};
use crate::validation::{dns_label_problem, dns_subdomain_problem, ip_problem, port_name_problems};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const OUT_OF_RANGE: &str = "must be between 1 and 65535, inclusive";

/// Why a new Service can't have an address. Upstream gives it before it looks at anything else.
pub(crate) fn not_allocated(new: &DynamicObject) -> Option<Cause> {
    let spec = new.fields.get("spec")?;
    let wanted = text(spec, "/clusterIP");
    let is_valid = wanted.is_empty() || ip_problem(wanted).is_none();
    if text(spec, "/type") == "ExternalName" || wanted == "None" || !is_valid {
        return None;
    }
    let refused = |of: &str, why: &str| {
        let detail = format!("failed to allocate IP{of}: {why}");
        Some(invalid_value("spec.clusterIPs", &json!([wanted]), &detail))
    };
    let of = if wanted.is_empty() {
        String::new()
    } else {
        format!(" {wanted}")
    };
    if !wanted.is_empty() && !wanted.starts_with("10.") && !wanted.contains(':') {
        let why = "the provided network does not match the current range";
        return refused(&of, why);
    }
    let metadata = &new.metadata;
    let has_name = !metadata.name.is_empty() || metadata.generate_name.is_some();
    if has_name {
        return None;
    }
    // The object that reserves the address would be that of a Service without a name.
    let mut given = new.clone();
    service_addresses::give(
        &mut given,
        service_addresses::number_of(&metadata.namespace),
    );
    let address = given
        .fields
        .get("spec")
        .map(|spec| text(spec, "/clusterIP"));
    let why = format!(
        "IPAddress.networking.k8s.io \"{}\" is invalid: spec.parentRef.name: Required value",
        address.unwrap_or("")
    );
    refused(&of, &why)
}

pub(super) fn validate(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let none = Value::Null;
    let spec = new.fields.get("spec").unwrap_or(&none);
    check_type(spec, &mut causes);
    check_ports(spec, &mut causes);
    check_affinity(spec, &mut causes);
    check_addresses(spec, &mut causes);
    check_traffic(spec, &mut causes);
    if let Some(before) = old.and_then(|old| old.fields.get("spec"))
        && text(before, "/type") != "ExternalName"
        && text(spec, "/type") != "ExternalName"
        && before["clusterIP"] != spec["clusterIP"]
    {
        let listed = json!([spec["clusterIP"]]);
        let detail = "may not change once set";
        causes.push(invalid_value("spec.clusterIPs[0]", &listed, detail));
    }
    if old.is_some() && causes.is_empty() {
        causes.extend(not_allocated(new));
    }
    causes
}

fn check_type(spec: &Value, causes: &mut Vec<Cause>) {
    let kind = text(spec, "/type");
    let is_headless = text(spec, "/clusterIP") == "None";
    let has_ports = items(spec, "/ports").next().is_some();
    if !TYPES.contains(&kind) {
        causes.push(not_supported("spec.type", kind, &TYPES));
    }
    match kind {
        "ExternalName" => {
            if !text(spec, "/clusterIP").is_empty() {
                let detail = "may not be set for ExternalName services";
                causes.push(forbidden_field("spec.clusterIPs", detail));
            }
            // It may say that it is complete.
            let name = text(spec, "/externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => causes.push(required("spec.externalName", "")),
                name => {
                    if let Some(problem) = dns_subdomain_problem(name) {
                        causes.push(invalid_value("spec.externalName", &name.into(), &problem));
                    }
                }
            }
        }
        _ if !is_headless && !has_ports => causes.push(required("spec.ports", "")),
        "LoadBalancer" | "NodePort" if is_headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            causes.push(invalid_value("spec.clusterIPs[0]", &"None".into(), &detail));
        }
        _ => {}
    }
    if kind != "LoadBalancer" {
        for member in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if !spec[member].is_null() {
                let detail = "may only be used when `type` is 'LoadBalancer'";
                causes.push(forbidden_field(format!("spec.{member}"), detail));
            }
        }
    }
}

fn duplicate(field: String, value: &Value) -> Cause {
    Cause {
        reason: "FieldValueDuplicate".to_owned(),
        message: format!("Duplicate value: {value}"),
        field,
    }
}

fn check_ports(spec: &Value, causes: &mut Vec<Cause>) {
    let ports: Vec<&Value> = items(spec, "/ports").collect();
    let kind = text(spec, "/type");
    for (number, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{number}]");
        let earlier = &ports[..number];
        let name = text(port, "/name");
        if name.is_empty() {
            if ports.len() > 1 {
                causes.push(required(format!("{at}.name"), ""));
            }
        } else if let Some(problem) = dns_label_problem(name) {
            causes.push(invalid_value(format!("{at}.name"), &name.into(), &problem));
        } else if earlier.iter().any(|other| text(other, "/name") == name) {
            causes.push(duplicate(format!("{at}.name"), &name.into()));
        }
        for member in ["port", "targetPort"] {
            let field = format!("{at}.{member}");
            match &port[member] {
                Value::String(name) => {
                    for problem in port_name_problems(name) {
                        causes.push(invalid_value(&field, &name.as_str().into(), &problem));
                    }
                }
                value => {
                    let number = value.as_i64().unwrap_or(0);
                    if !(1..=65_535).contains(&number) {
                        causes.push(invalid_value(field, &number.into(), OUT_OF_RANGE));
                    }
                }
            }
        }
        let protocol = text(port, "/protocol");
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&protocol) {
            causes.push(not_supported(
                format!("{at}.protocol"),
                protocol,
                &protocols,
            ));
        }
        let is_same = |other: &&Value, member: &str| {
            other["protocol"] == port["protocol"] && other[member] == port[member]
        };
        if earlier.iter().any(|other| is_same(other, "port")) {
            // Upstream shows a port with nothing but this.
            let message = format!(
                "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\
                 \"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                port["protocol"], port["port"]
            );
            causes.push(Cause {
                reason: "FieldValueDuplicate".to_owned(),
                message,
                field: at.clone(),
            });
        }
        let on_node = port["nodePort"].as_i64().unwrap_or(0);
        if on_node != 0 {
            let field = format!("{at}.nodePort");
            if kind == "ClusterIP" {
                let detail = "may not be used when `type` is 'ClusterIP'";
                causes.push(forbidden_field(field, detail));
            } else if earlier.iter().any(|other| is_same(other, "nodePort")) {
                causes.push(duplicate(field, &on_node.into()));
            }
        }
    }
}

fn check_affinity(spec: &Value, causes: &mut Vec<Cause>) {
    let affinity = text(spec, "/sessionAffinity");
    let supported = ["ClientIP", "None"];
    if !supported.contains(&affinity) {
        causes.push(not_supported("spec.sessionAffinity", affinity, &supported));
    }
    let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    let seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64();
    if let Some(seconds) = seconds.filter(|it| affinity == "ClientIP" && !(1..=86_400).contains(it))
    {
        let detail = "must be greater than 0 and less than 86400";
        causes.push(invalid_value(at, &seconds.into(), detail));
    }
}

fn check_addresses(spec: &Value, causes: &mut Vec<Cause>) {
    let address = text(spec, "/clusterIP");
    if !["", "None"].contains(&address)
        && let Some(problem) = ip_problem(address)
    {
        causes.push(invalid_value(
            "spec.clusterIPs[0]",
            &address.into(),
            &problem,
        ));
    }
    for (index, address) in items(spec, "/externalIPs").enumerate() {
        let address = address.as_str().unwrap_or("");
        if let Some(problem) = ip_problem(address) {
            let field = format!("spec.externalIPs[{index}]");
            causes.push(invalid_value(field, &address.into(), &problem));
        }
    }
    let at = "spec.LoadBalancerSourceRanges";
    if items(spec, "/loadBalancerSourceRanges").next().is_some()
        && text(spec, "/type") != "LoadBalancer"
    {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        causes.push(forbidden_field(at, detail));
    }
    for (index, range) in items(spec, "/loadBalancerSourceRanges").enumerate() {
        let range = range.as_str().unwrap_or("");
        if !is_range(range.trim()) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(invalid_value(
                format!("{at}[{index}]"),
                &range.into(),
                detail,
            ));
        }
    }
}

/// Whether a text is an address with the length of a prefix.
fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let Ok(address) = address.parse::<std::net::IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn check_traffic(spec: &Value, causes: &mut Vec<Cause>) {
    let policies = ["Cluster", "Local"];
    let none = Map::new();
    let from_outside = is_external(spec.as_object().unwrap_or(&none));
    match text(spec, "/externalTrafficPolicy") {
        "" => {}
        policy if !from_outside => {
            let detail = "may only be set for externally-accessible services";
            let field = "spec.externalTrafficPolicy";
            causes.push(invalid_value(field, &policy.into(), detail));
        }
        policy if !policies.contains(&policy) => {
            causes.push(not_supported(
                "spec.externalTrafficPolicy",
                policy,
                &policies,
            ));
        }
        _ => {}
    }
    let policy = text(spec, "/internalTrafficPolicy");
    if !policy.is_empty() && !policies.contains(&policy) {
        causes.push(not_supported(
            "spec.internalTrafficPolicy",
            policy,
            &policies,
        ));
    }
}
