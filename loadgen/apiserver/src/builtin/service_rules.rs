//! Validation of Services.
//!
//! Source: `ValidateService` of Kubernetes' `pkg/apis/core/validation`.

use podstorm_objects::cells::text;
use podstorm_objects::{Cause, DynamicObject, Map};
use serde_json::{Value, json};

use super::service_addresses::{self, is_external};
use crate::Places;
use crate::errors::{duplicate, invalid_value};
use crate::validation::{Checks, Field, names};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const OUT_OF_RANGE: &str = "must be between 1 and 65535, inclusive";
const OF_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Returns the reasons why a Service can't get addresses and ports. Upstream allocates them before
/// all other checks.
pub(crate) fn not_allocated(new: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    check_families(&checks.field(new, "spec"));
    let mut causes = checks.found();
    if causes.is_empty() {
        causes.extend(no_address(new));
    }
    if causes.is_empty() {
        let checks = Checks::default();
        check_node_ports(&checks.field(new, "spec"));
        causes = checks.found();
    }
    causes
}

/// Checks the IP families, of which the cluster has only one.
fn check_families(spec: &Field<'_>) {
    let families = spec.at("ipFamilies");
    if spec.at("type").text() == "ExternalName" {
        return;
    }
    let mut seen = Places::default();
    let mut is_sound = true;
    for family in families.items() {
        let is_known = ["IPv4", "IPv6"].contains(&family.text());
        if !is_known {
            family.must_be_one_of(&["IPv4", "IPv6"]);
        } else if seen.contains(&family.text()) {
            family.duplicate();
        }
        is_sound &= is_known && !seen.contains(&family.text());
        seen.push(family.text());
    }
    // A headless Service without a selector gets no addresses.
    let selects = spec.at("selector").entries().next().is_some();
    if !is_sound || spec.at("clusterIP").text() == "None" && !selects {
        return;
    }
    let policy = spec.at("ipFamilyPolicy");
    if policy.text() == "RequireDualStack" {
        policy.invalid("this cluster is not configured for dual-stack services");
    }
    for family in families.items().filter(|family| family.text() == "IPv6") {
        family.invalid("not configured on this cluster");
    }
}

fn check_node_ports(spec: &Field<'_>) {
    if !["NodePort", "LoadBalancer"].contains(&spec.at("type").text()) {
        return;
    }
    for port in spec.at("ports").items() {
        let port = port.at("nodePort");
        if port.number() != 0 && !(30_000..=32_767).contains(&port.number()) {
            port.invalid(
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
    }
}

fn no_address(new: &DynamicObject) -> Option<Cause> {
    let spec = new.fields.get("spec")?;
    let wanted = text(spec, "/clusterIP");
    let is_valid = wanted.is_empty() || names::ip_address(wanted).is_none();
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
    // Upstream reserves the address with an IPAddress that would refer to a Service without a name.
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
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    check_type(&spec);
    check_ports(&spec);
    let selector = spec.at("selector");
    for (key, value) in selector.entries() {
        let problems = names::label_key_problems(key).into_iter();
        problems.for_each(|problem| selector.invalid_as(key, problem));
        if let Some(problem) = names::label_value(value.text()) {
            selector.invalid_as(value.text(), problem);
        }
    }
    check_affinity(&spec);
    check_addresses(&spec);
    check_traffic(&spec);
    let address = spec.at("clusterIP").value;
    if let Some(before) = old.and_then(|old| old.fields.get("spec"))
        && text(before, "/type") != "ExternalName"
        && spec.at("type").text() != "ExternalName"
        && before["clusterIP"] != *address
    {
        let listed = json!([address]);
        let detail = "may not change once set";
        checks.push(invalid_value("spec.clusterIPs[0]", &listed, detail));
    }
    let mut causes = checks.found();
    if old.is_some() && causes.is_empty() {
        causes.extend(not_allocated(new));
    }
    causes
}

fn check_type(spec: &Field<'_>) {
    let kind = spec.at("type");
    let address = spec.at("clusterIP").text();
    let ports = spec.at("ports");
    kind.must_be_one_of(&TYPES);
    match kind.text() {
        "ExternalName" => {
            if !address.is_empty() {
                let addresses = spec.at("clusterIPs");
                addresses.forbidden("may not be set for ExternalName services");
            }
            // The name may end with a dot.
            let name = spec.at("externalName");
            let whole = name.text().strip_suffix('.').unwrap_or(name.text());
            let whole = Value::from(whole);
            let whole = spec.checks.value(name.path.as_str(), &whole);
            whole.must_fit(names::dns_subdomain);
        }
        _ if address != "None" && ports.items().next().is_none() => ports.required(""),
        kind @ ("LoadBalancer" | "NodePort") if address == "None" => {
            let detail = format!("may not be set to 'None' for {kind} services");
            let cause = invalid_value("spec.clusterIPs[0]", &"None".into(), &detail);
            spec.checks.push(cause);
        }
        _ => {}
    }
    if kind.text() != "LoadBalancer" {
        for member in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            let member = spec.at(member);
            if !member.is_null() {
                member.forbidden(OF_BALANCERS);
            }
        }
    }
}

fn check_ports(spec: &Field<'_>) {
    let ports: Vec<Field<'_>> = spec.at("ports").items().collect();
    let mut names = Places::default();
    let (mut numbers, mut on_nodes) = (Places::default(), Places::default());
    for port in &ports {
        let name = port.at("name");
        if name.text().is_empty() {
            if ports.len() > 1 {
                name.required("");
            }
        } else if names::dns_label(name.text()).is_some() {
            name.fits(names::dns_label);
        } else if names.contains(&name.value) {
            name.duplicate();
        }
        names.push(name.value);
        for member in ["port", "targetPort"] {
            let field = port.at(member);
            match field.value {
                Value::String(name) => {
                    for problem in names::port_name_problems(name) {
                        field.invalid(problem);
                    }
                }
                _ if !(1..=65_535).contains(&field.number()) => {
                    field.invalid_as(field.number(), OUT_OF_RANGE);
                }
                _ => {}
            }
        }
        port.at("protocol").must_be_one_of(&["SCTP", "TCP", "UDP"]);
        let with = |member: &str| (&port.value["protocol"], &port.value[member]);
        let is_repeated = |seen: &mut Places<_>, member: &str| {
            let is_known = seen.contains(&with(member));
            seen.push(with(member));
            is_known
        };
        if is_repeated(&mut numbers, "port") {
            // Upstream prints only these fields of a port.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\
                 \"NodePort\":0}}",
                port.value["protocol"], port.value["port"]
            );
            spec.checks.push(duplicate(port.path.as_str(), shown));
        }
        let on_node = port.at("nodePort");
        let is_repeated = is_repeated(&mut on_nodes, "nodePort");
        if on_node.number() != 0 {
            if spec.at("type").text() == "ClusterIP" {
                on_node.forbidden("may not be used when `type` is 'ClusterIP'");
            } else if is_repeated {
                on_node.duplicate();
            }
        }
    }
}

fn check_affinity(spec: &Field<'_>) {
    let affinity = spec.at("sessionAffinity");
    affinity.must_be_one_of(&["ClientIP", "None"]);
    let config = spec.at("sessionAffinityConfig");
    let seconds = config.at("clientIP").at("timeoutSeconds");
    let is_out = |seconds| !(1..=86_400).contains(&seconds);
    if affinity.text() == "ClientIP" && seconds.value.as_i64().is_some_and(is_out) {
        seconds.invalid("must be greater than 0 and less than 86400");
    }
}

fn check_addresses(spec: &Field<'_>) {
    let address = spec.at("clusterIP");
    if !["", "None"].contains(&address.text()) {
        let first = spec.checks.value("spec.clusterIPs[0]", address.value);
        first.fits(names::ip_address);
    }
    for address in spec.at("externalIPs").items() {
        address.fits(names::ip_address);
    }
    let ranges = spec.at("loadBalancerSourceRanges").value;
    let ranges = spec.checks.value("spec.LoadBalancerSourceRanges", ranges);
    if ranges.items().next().is_some() && spec.at("type").text() != "LoadBalancer" {
        ranges.forbidden(OF_BALANCERS);
    }
    for range in ranges.items() {
        range.fits(|range| names::range(range.trim()));
    }
}

fn check_traffic(spec: &Field<'_>) {
    let policies = ["Cluster", "Local"];
    let none = Map::new();
    let from_outside = is_external(spec.value.as_object().unwrap_or(&none));
    let external = spec.at("externalTrafficPolicy");
    let internal = spec.at("internalTrafficPolicy");
    if !external.text().is_empty() && !from_outside {
        external.invalid("may only be set for externally-accessible services");
    } else if !external.text().is_empty() {
        external.one_of(&policies);
    }
    if !internal.text().is_empty() {
        internal.one_of(&policies);
    }
}
