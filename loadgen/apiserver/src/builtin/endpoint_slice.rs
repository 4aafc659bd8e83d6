//! Validation of EndpointSlices.
//!
//! Source: `ValidateEndpointSlice` of Kubernetes' `pkg/apis/discovery/validation`.

use std::net::{IpAddr, Ipv6Addr};

use podstorm_objects::{Cause, DynamicObject};

use crate::Places;
use crate::errors::too_many;
use crate::validation::{Checks, Field, names};

const ENDPOINTS_MAX: usize = 1_000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;

pub(super) fn validate(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let kind = checks.field(new, "addressType");
    match kind.text() {
        "" => kind.required(""),
        _ => kind.must_be_one_of(&["FQDN", "IPv4", "IPv6"]),
    }
    check_ports(&checks.field(new, "ports"));
    let endpoints = checks.field(new, "endpoints");
    // Unchanged endpoints are not checked, because they may come from an older server.
    if old.is_none_or(|old| checks.field(old, "endpoints").value != endpoints.value) {
        check_endpoints(&endpoints, kind.text());
    }
    if let Some(old) = old {
        kind.unchanged(checks.field(old, "addressType").value);
    }
    checks.found()
}

/// Reports whether a list is short enough to be checked, and adds a cause if it is not.
fn is_short(list: &Field<'_>, most: usize) -> bool {
    let count = list.items().count();
    if count > most {
        list.checks.push(too_many(list.path.as_str(), count, most));
    }
    count <= most
}

fn check_ports(ports: &Field<'_>) {
    if !is_short(ports, PORTS_MAX) {
        return;
    }
    let mut seen = Places::default();
    for port in ports.items() {
        let name = port.at("name");
        if !name.text().is_empty() {
            name.fits(names::dns_label);
        }
        if seen.contains(&name.text()) {
            name.duplicate();
        }
        seen.push(name.text());
        port.at("protocol").must_be_one_of(&["SCTP", "TCP", "UDP"]);
        let of_application = port.at("appProtocol");
        if of_application.value.is_string() {
            of_application.fits(names::qualified_name);
        }
    }
}

fn check_endpoints(endpoints: &Field<'_>, kind: &str) {
    if !is_short(endpoints, ENDPOINTS_MAX) {
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.at("addresses");
        if addresses.items().next().is_none() {
            addresses.required("must contain at least 1 address");
        } else {
            is_short(&addresses, ADDRESSES_MAX);
        }
        for address in addresses.items() {
            match kind {
                "FQDN" => address.fits(domain),
                "IPv4" | "IPv6" => check_address(&address, &addresses, kind),
                _ => {}
            }
        }
        for (member, rule) in [
            ("nodeName", names::dns_subdomain as fn(&str) -> _),
            ("hostname", names::dns_label),
        ] {
            let field = endpoint.at(member);
            if field.value.is_string() {
                field.fits(rule);
            }
        }
    }
}

/// Checks a fully qualified domain name: at least two parts, and optionally a final dot. Returns
/// the error, if there is one.
fn domain(text: &str) -> Option<String> {
    let whole = text.strip_suffix('.').unwrap_or(text);
    names::dns_subdomain(whole).or_else(|| {
        let is_alone = !whole.contains('.');
        is_alone
            .then(|| "should be a domain with at least two segments separated by dots".to_owned())
    })
}

fn check_address(address: &Field<'_>, all: &Field<'_>, kind: &str) {
    let Ok(ip) = address.text().parse::<IpAddr>() else {
        return address.fits(names::ip_address);
    };
    if ip.is_ipv4() != (kind == "IPv4") {
        // Sic: without the index of the address.
        return all.invalid_as(address.text(), format!("must be an {kind} address"));
    }
    let is_v6 = |is: &dyn Fn(Ipv6Addr) -> bool| matches!(ip, IpAddr::V6(ip) if is(ip));
    let v4 = match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let is_near = v4[..2] == [169, 254] || is_v6(&|ip| ip.segments()[0] & 0xffc0 == 0xfe80);
    let is_near_group = v4[..3] == [224, 0, 0] || is_v6(&|ip| ip.segments()[0] & 0xff0f == 0xff02);
    if ip.is_unspecified() {
        address.invalid("may not be unspecified (0.0.0.0 or ::)");
    }
    if ip.is_loopback() {
        address.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_near {
        address.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_near_group {
        address.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}
