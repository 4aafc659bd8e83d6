//! Warnings about pods and pod templates.
//!
//! Source: `GetWarningsForPod` and `GetWarningsForPodTemplate` of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use podstorm_objects::{Quantity, canonical_quantity};
use serde_json::Value;

use crate::Places;

/// Number of warnings at which the search for conflicting pairs stops: more than fit in the
/// headers of an answer.
const TOLD_MAX: usize = 256;

/// Deprecated names, each with its warning.
struct Deprecated {
    /// Labels of nodes.
    labels: Vec<(&'static str, &'static str)>,
    annotations: Vec<(&'static str, &'static str)>,
    /// Types of volumes.
    volumes: Vec<(&'static str, &'static str)>,
}

static DEPRECATED: LazyLock<Deprecated> = LazyLock::new(|| {
    let all = |what: &str| {
        let lines = include_str!("deprecated.txt").lines();
        let lines = lines.filter_map(|line| line.strip_prefix(what)?.split_once(' '));
        lines.collect()
    };
    Deprecated {
        labels: all("label "),
        annotations: all("annotation "),
        volumes: all("volume "),
    }
});

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// Returns the warnings about a pod (if `at` is empty) or about a template at the path `at`.
pub(in crate::builtin) fn of_pod(metadata: &Value, spec: &Value, at: &str) -> Vec<String> {
    let dot = if at.is_empty() { "" } else { "." };
    let mut warnings = Vec::new();
    let annotations = &metadata["annotations"];
    of_spec(annotations, spec, &format_args!("{at}{dot}"), &mut warnings);
    warnings
}

/// `at` is the prefix of `spec` and `metadata`.
fn of_spec(annotations: &Value, spec: &Value, at: &dyn Display, warnings: &mut Vec<String>) {
    of_placement(spec, at, warnings);
    for (key, why) in &DEPRECATED.annotations {
        if !annotations[*key].is_null() {
            warnings.push(format!("{at}metadata.annotations[{key}]: {why}"));
        }
    }
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        for (kind, why) in &DEPRECATED.volumes {
            if !volume[*kind].is_null() {
                let kind = if *kind == "storageos" {
                    &"storageOS"
                } else {
                    kind
                };
                warnings.push(format!("{at}spec.volumes[{index}].{kind}: {why}"));
            }
        }
        let claim = &volume["ephemeral"]["volumeClaimTemplate"];
        if !claim.is_null() {
            let at = format!("{at}spec.volumes[{index}].ephemeral.volumeClaimTemplate.spec");
            of_claim(&claim["spec"], &at, warnings);
        }
    }
    of_paths(list(spec, "volumes"), warnings);
    repeated(spec, "hostAliases", "ip", at, warnings);
    repeated(spec, "imagePullSecrets", "name", at, warnings);
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if secret["name"].as_str().unwrap_or("").is_empty() {
            let at = format_args!("{at}spec.imagePullSecrets[{index}].name");
            warnings.push(format!("{at}: invalid empty name \"\""));
        }
    }
    for resource in ["memory", "ephemeral-storage"] {
        let at = format_args!("{at}spec.overhead[{resource}]");
        fraction(&spec["overhead"][resource], &at, warnings);
    }
    let is_set = |of: &Value, profile: &str| !of["securityContext"][profile].is_null();
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if !annotations[key].is_null() && !is_set(spec, "seccompProfile") {
        warnings.push(format!("{at}metadata.annotations[{key}]: {SECCOMP}"));
    }
    for (path, container) in containers(spec) {
        if !annotations.is_null() {
            let name = container["name"].as_str().unwrap_or("");
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            if !annotations[&key].is_null() && !is_set(container, "seccompProfile") {
                warnings.push(format!("{at}metadata.annotations[{key}]: {SECCOMP}"));
            }
        }
        of_container(container, &format_args!("{at}{path}"), warnings);
    }
    of_ports(spec, at, warnings);
    let grace = &spec["terminationGracePeriodSeconds"];
    if grace.as_i64().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{at}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and \
             will be treated as 1"
        ));
    }
    of_affinity(spec, at, warnings);
    for (index, server) in list(&spec["dnsConfig"], "nameservers").iter().enumerate() {
        let at = format_args!("{at}spec.dnsConfig.nameservers[{index}]");
        of_address(server.as_str().unwrap_or(""), &at, warnings);
    }
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let at = format_args!("{at}spec.hostAliases[{index}].ip");
        of_address(alias["ip"].as_str().unwrap_or(""), &at, warnings);
    }
}

/// Warns of deprecated node labels, and of spread constraints that match no pods.
fn of_placement(spec: &Value, at: &dyn Display, warnings: &mut Vec<String>) {
    if !spec["nodeSelector"].is_null() {
        for (label, why) in &DEPRECATED.labels {
            if !spec["nodeSelector"][*label].is_null() {
                warnings.push(format!("{at}spec.nodeSelector[{label}]: {why}"));
            }
        }
    }
    let label = |key: &Value, at: &dyn Display, warnings: &mut Vec<String>| {
        for (label, why) in &DEPRECATED.labels {
            if key == label {
                warnings.push(format!("{at}: {label} is {why}"));
            }
        }
    };
    let terms = |terms: &[Value], list_of: &str, inner: &str, warnings: &mut Vec<String>| {
        for (index, term) in terms.iter().enumerate() {
            let term = if inner.is_empty() {
                term
            } else {
                &term["preference"]
            };
            for (number, wanted) in list(term, "matchExpressions").iter().enumerate() {
                let at = format_args!(
                    "{at}spec.affinity.nodeAffinity.{list_of}[{index}]{inner}.matchExpressions\
                     [{number}].key"
                );
                label(&wanted["key"], &at, warnings);
            }
        }
    };
    let affinity = &spec["affinity"]["nodeAffinity"];
    if !affinity.is_null() {
        let (required, preferred) = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        );
        let alternatives = list(&affinity[required], "nodeSelectorTerms");
        let path = format!("{required}.nodeSelectorTerms");
        terms(alternatives, &path, "", warnings);
        let wishes = list(affinity, preferred);
        terms(wishes, preferred, ".preference", warnings);
    }
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format_args!("{at}spec.topologySpreadConstraints[{index}]");
        let key = format_args!("{at}.topologyKey");
        label(&constraint["topologyKey"], &key, warnings);
        if constraint["labelSelector"].is_null() {
            warnings.push(format!("{at}.labelSelector: {NO_SELECTOR}"));
        }
    }
}

fn of_affinity(spec: &Value, at: &dyn Display, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = &spec["affinity"][kind];
        for (list_of, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                "podAffinityTerm",
            ),
        ] {
            for (index, term) in list(affinity, list_of).iter().enumerate() {
                let (term, dot) = match inner {
                    "" => (term, ""),
                    inner => (&term[inner], "."),
                };
                if term["labelSelector"].is_null() {
                    warnings.push(format!(
                        "{at}spec.affinity.{kind}.{list_of}[{index}]{dot}{inner}.labelSelector: \
                         {NO_SELECTOR}"
                    ));
                }
            }
        }
    }
}

fn of_container(container: &Value, at: &dyn Display, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for amounts in ["limits", "requests"] {
            let at = format_args!("{at}.resources.{amounts}[{resource}]");
            fraction(&container["resources"][amounts][resource], &at, warnings);
        }
    }
    let mut before = Places::default();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let name = &variable["name"];
        let is_known = before.contains(&name);
        before.push(name);
        if is_known && !builds_on(variable) {
            warnings.push(format!(
                "{at}.env[{index}]: hides previous definition of {name}, which may be dropped when \
                 using apply"
            ));
        }
    }
}

/// Reports whether a variable's value extends an earlier one of the same name.
fn builds_on(variable: &Value) -> bool {
    let reference = format!("$({})", variable["name"].as_str().unwrap_or(""));
    let value = variable["value"].as_str().unwrap_or("");
    variable["valueFrom"].is_null() && value != reference && value.contains(&reference)
}

/// Warns of conflicting ports, in one container or between two.
fn of_ports(spec: &Value, at: &dyn Display, warnings: &mut Vec<String>) {
    let is_on_host = spec["hostNetwork"] == true;
    let mut seen = Ports::default();
    for (path, container) in containers(spec) {
        for (index, json) in list(container, "ports").iter().enumerate() {
            let port = Port::read(json, is_on_host, path, index);
            if !port.host_ip.is_empty() && port.host_port == 0 {
                let name = json["name"].as_str().unwrap_or("");
                warnings.push(format!(
                    "{at}{port}: hostIP set without hostPort: {{Name:{name} HostPort:0 \
                     ContainerPort:{} Protocol:{} HostIP:{}}}",
                    port.number, port.protocol, port.host_ip
                ));
            }
            for other in seen.in_the_way_of(&port) {
                // The number of pairs is quadratic.
                if warnings.len() > TOLD_MAX {
                    return;
                }
                let on_one_address = port.host_ip == other.host_ip;
                let problem = if on_one_address && port.host_port == other.host_port {
                    "duplicate"
                } else if port.host_port == 0 || other.host_port == 0 {
                    "overlapping"
                } else {
                    "dangerously ambiguous"
                };
                warnings.push(format!(
                    "{at}{port}: {problem} port definition with {at}{other}"
                ));
            }
            seen.push(port);
        }
    }
}

/// The ports so far, indexed by what conflicts.
#[derive(Default)]
struct Ports<'a> {
    all: Vec<Port<'a>>,
    /// The positions of the ports by number and protocol, then also by host port, then also by host
    /// address.
    places: BTreeMap<PortKey<'a>, Vec<usize>>,
}

type PortKey<'a> = (i64, &'a str, Option<i64>, Option<&'a str>);

impl<'a> Ports<'a> {
    fn push(&mut self, port: Port<'a>) {
        let (number, protocol) = (port.number, port.protocol);
        let (host_port, host_ip) = (Some(port.host_port), Some(port.host_ip));
        for key in [
            (number, protocol, None, None),
            (number, protocol, host_port, None),
            (number, protocol, host_port, host_ip),
        ] {
            self.places.entry(key).or_default().push(self.all.len());
        }
        self.all.push(port);
    }

    /// Returns the ports that duplicate a port or overlap with it: those without a host port, those
    /// with the same host port and address, and those with the same host port if either has no
    /// address.
    fn in_the_way_of(&self, port: &Port<'a>) -> impl Iterator<Item = &Port<'a>> {
        let of = |host_port, host_ip| {
            let key = (port.number, port.protocol, host_port, host_ip);
            self.places.get(&key).map_or(&[][..], Vec::as_slice)
        };
        let host_port = Some(port.host_port);
        let lists = match (port.host_port, port.host_ip) {
            (0, _) => [of(None, None), &[], &[]],
            (_, "") => [of(Some(0), None), of(host_port, None), &[]],
            (_, ip) => [
                of(Some(0), None),
                of(host_port, Some("")),
                of(host_port, Some(ip)),
            ],
        };
        let mut places = lists.concat();
        places.sort_unstable();
        places.into_iter().map(|place| &self.all[place])
    }
}

/// A port, displayed as its path.
struct Port<'a> {
    path: Path,
    index: usize,
    number: i64,
    protocol: &'a str,
    host_port: i64,
    host_ip: &'a str,
}

impl<'a> Port<'a> {
    fn read(json: &'a Value, is_on_host: bool, path: Path, index: usize) -> Port<'a> {
        let number = json["containerPort"].as_i64().unwrap_or(0);
        let host_port = json["hostPort"].as_i64().unwrap_or(0);
        Port {
            path,
            index,
            number,
            protocol: json["protocol"].as_str().unwrap_or("TCP"),
            // On the host network, container ports are host ports.
            host_port: if is_on_host && host_port == 0 {
                number
            } else {
                host_port
            },
            host_ip: json["hostIP"].as_str().unwrap_or(""),
        }
    }
}

impl Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.ports[{}]", self.path, self.index)
    }
}

/// The path of a container.
#[derive(Clone, Copy)]
struct Path(&'static str, usize);

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.{}[{}]", self.0, self.1)
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = (Path, &Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|name| {
        let all = list(spec, name).iter().enumerate();
        all.map(move |(index, container)| (Path(name, index), container))
    })
}

/// Warns of files in one volume whose paths overlap.
fn of_paths(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        let name = &volume["name"];
        for (member, told, source) in [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ] {
            let paths = paths(&volume[member]);
            let what = named(told, &volume[member][source]);
            overlaps(&paths, &format!("volume {name} ({what})"), warnings);
        }
        let (mut all, mut seen) = (BTreeSet::new(), Paths::default());
        let mut overlap = false;
        for source in list(&volume["projected"], "sources") {
            let Some((member, value)) = source.as_object().and_then(|source| source.iter().next())
            else {
                warnings.push(format!("volume {name} (Projected) has no sources provided"));
                continue;
            };
            let (told, own) = match member.as_str() {
                "configMap" => (named("ConfigMap", &value["name"]), paths(value)),
                "secret" => (named("Secret", &value["name"]), paths(value)),
                "downwardAPI" => ("DownwardAPI".to_owned(), paths(value)),
                "serviceAccountToken" => ("ServiceAccountToken".to_owned(), path(value)),
                "clusterTrustBundle" => {
                    let by = if value["name"].is_null() {
                        "signerName"
                    } else {
                        "name"
                    };
                    (named("ClusterTrustBundle", &value[by]), path(value))
                }
                _ => continue,
            };
            let what = format!("volume {name} (Projected {told})");
            overlaps(&own, &what, warnings);
            // Each source is checked alone, and with the earlier sources. After the first overlap,
            // all paths are compared again.
            let own: BTreeSet<&str> = own.into_iter().collect();
            for path in &own {
                overlap |= seen.in_the_way_of(path).is_some();
                seen.add(path);
            }
            if overlap && warnings.len() <= TOLD_MAX {
                let mut beside: Vec<&str> = own.iter().chain(&all).copied().collect();
                beside.sort_unstable();
                overlaps(&beside, &what, warnings);
            }
            all.extend(own);
        }
    }
}

fn named(kind: &str, name: &Value) -> String {
    match name.as_str() {
        Some(name) => format!("{kind} {name:?}"),
        None => kind.to_owned(),
    }
}

fn paths(source: &Value) -> Vec<&str> {
    let items = list(source, "items").iter();
    items.filter_map(|item| item["path"].as_str()).collect()
}

fn path(source: &Value) -> Vec<&str> {
    source["path"].as_str().into_iter().collect()
}

fn overlaps(paths: &[&str], what: &str, warnings: &mut Vec<String>) {
    let mut seen = Paths::default();
    for path in paths {
        if warnings.len() > TOLD_MAX {
            return;
        }
        if let Some(other) = seen.in_the_way_of(path) {
            let path = path.trim_end_matches('/');
            warnings.push(format!(
                "{what}: overlapping paths: {path:?} with {other:?}"
            ));
        }
        seen.add(path);
    }
}

/// Paths of files without trailing slashes, each with its position. Sorted, so paths with a common
/// prefix are adjacent.
#[derive(Default)]
struct Paths<'a>(BTreeMap<&'a str, usize>);

impl<'a> Paths<'a> {
    fn add(&mut self, path: &'a str) {
        let (path, place) = (path.trim_end_matches('/'), self.0.len());
        if !path.is_empty() {
            self.0.entry(path).or_insert(place);
        }
    }

    /// Returns the first path that is a prefix of `path`, or that has `path` as a prefix.
    fn in_the_way_of(&self, path: &'a str) -> Option<&'a str> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return None;
        }
        // Upstream compares prefixes of the text rather than whole path elements, sic.
        let longer = self.0.range(path..);
        let longer = longer.take_while(|(other, _)| other.starts_with(path));
        let ends = path.char_indices().map(|(end, _)| end).skip(1);
        let shorter = ends.filter_map(|end| self.0.get_key_value(&path[..end]));
        let first = longer.chain(shorter).min_by_key(|(_, place)| **place);
        first.map(|(other, _)| *other)
    }
}

/// Adds the warnings about the spec of a volume claim.
pub(in crate::builtin) fn of_claim(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    for amounts in ["requests", "limits"] {
        let at = format_args!("{at}.resources.{amounts}[storage]");
        fraction(&spec["resources"][amounts]["storage"], &at, warnings);
    }
}

/// Warns of a fractional number of bytes.
fn fraction(amount: &Value, at: &dyn Display, warnings: &mut Vec<String>) {
    if amount.is_null() || Quantity::from_json(amount).map_or(true, Quantity::is_whole) {
        return;
    }
    let text = amount.as_str().and_then(canonical_quantity);
    let text = text.unwrap_or_else(|| amount.to_string());
    warnings.push(format!(
        "{at}: fractional byte value {text:?} is invalid, must be an integer"
    ));
}

/// Warns of entries of a list whose member repeats an earlier entry's.
fn repeated(spec: &Value, name: &str, member: &str, at: &dyn Display, warnings: &mut Vec<String>) {
    let entries = list(spec, name);
    let mut before = Places::default();
    for (index, entry) in entries.iter().enumerate() {
        let value = entry[member].as_str().unwrap_or("");
        if before.contains(&value) {
            warnings.push(format!(
                "{at}spec.{name}[{index}].{member}: duplicate {member} {value:?}"
            ));
        }
        before.push(value);
    }
}

/// Warns of an IP address that is not in canonical form.
fn of_address(text: &str, at: &dyn Display, warnings: &mut Vec<String>) {
    let other = |address: &dyn Display| {
        format!(
            "{at}: non-standard IP address {text:?} will be considered invalid in a future \
             Kubernetes release: use \"{address}\""
        )
    };
    let warning = match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => return,
        Ok(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(address) => other(&address),
            None if address.to_string() == text => return,
            None => of_form(text, address, at),
        },
        // Older parsers accepted leading zeros.
        Err(_) => match sloppy(text) {
            Some(address) => other(&address),
            None => return,
        },
    };
    warnings.push(warning);
}

fn of_form(text: &str, address: Ipv6Addr, at: &dyn Display) -> String {
    format!("{at}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{address}\")")
}

fn sloppy(text: &str) -> Option<Ipv4Addr> {
    let bytes: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
    let bytes: [u8; 4] = bytes.ok()?.try_into().ok()?;
    Some(bytes.into())
}

fn list<'a>(object: &'a Value, member: &str) -> &'a [Value] {
    object[member].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
