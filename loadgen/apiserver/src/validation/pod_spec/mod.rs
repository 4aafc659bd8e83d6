//! Validation of the specs of pods and pod templates.

use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{Labels, Pod};

use super::container::{self, Role, Surroundings, choice, items, member, number, text};
use super::metadata::check_labels;
use super::{Causes, names, resources, scheduling, security, volumes};
use crate::Places;

/// Checks the fields of a pod spec after defaulting, with the full names of its volumes.
/// `node_name` is the pod's `nodeName`.
pub(super) fn check(
    fields: JsonValue<'_>,
    node_name: Option<&str>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let volumes = check_volumes(fields, path, causes);
    check_containers(fields, &volumes, path, causes);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    for (key, supported, is_required) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..], true),
        ("dnsPolicy", &dns_policies, true),
        (
            "preemptionPolicy",
            &["PreemptLowerPriority", "Never"],
            false,
        ),
    ] {
        if is_required && text(fields, key).is_empty() {
            causes.required(&path.member(key), "");
        }
        choice(fields, key, supported, path, causes);
    }
    if let Some(seconds) = fields
        .get("activeDeadlineSeconds")
        .and_then(|it| it.as_i64())
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.invalid(&path.member("activeDeadlineSeconds"), seconds, detail);
    }
    check_node_name(node_name, path, causes);
    for (key, rule) in [
        ("serviceAccountName", names::dns_subdomain as names::Rule),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
    ] {
        let value = text(fields, key);
        if !value.is_empty() {
            causes.text(&path.member(key), value, rule(value));
        }
    }
    if let Some(selector) = fields.get("nodeSelector")
        && let Ok(labels) = Labels::read(selector, path)
    {
        check_labels(&labels, &path.member("nodeSelector"), causes);
    }
    if let Some(resources) = member(fields, "resources") {
        resources::check(resources, &path.member("resources"), causes);
    }
    check_dns(fields, path, causes);
    check_tolerations(fields, path, causes);
    check_topology_spread(fields, path, causes);
    scheduling::check_affinity(fields, path, causes);
    volumes::check_host_aliases(fields, path, causes);
    security::check_pod(fields, path, causes);
    check_gates(fields, node_name, path, causes);
}

pub(super) fn check_node_name(name: Option<&str>, path: &Path<'_>, causes: &mut Causes) {
    if let Some(name) = name {
        causes.text(&path.member("nodeName"), name, names::dns_subdomain(name));
    }
}

/// Checks a host name that the pod's names determine, so that it is not in the spec.
pub(super) fn check_own_hostname(pod: &Pod, path: &Path<'_>, causes: &mut Causes) {
    if let Some(name) = pod.own_hostname() {
        causes.text(&path.member("hostname"), name, names::dns_label(name));
    }
}

/// Checks the volumes. Returns the names of the valid ones, because others can't be mounted.
fn check_volumes<'a>(
    fields: JsonValue<'a>,
    path: &Path<'_>,
    causes: &mut Causes,
) -> Places<&'a str> {
    let list = path.member("volumes");
    let mut seen = Places::default();
    for (index, volume) in items(fields, "volumes") {
        let path = list.item(index);
        let before = causes.all.len();
        let mut sources: Vec<(&str, JsonValue<'_>)> = volume
            .pairs()
            .filter(|(key, value)| *key != "name" && !value.is_null())
            .collect();
        if sources.len() > 1 {
            sources.sort_by_key(|(key, _)| volumes::turn_of(key));
        }
        let mut sources = sources.into_iter();
        match sources.next() {
            None => causes.required(&path, "must specify a volume type"),
            Some((source, members)) => {
                volumes::check(source, members, &path.member(source), causes);
            }
        }
        for (source, _) in sources {
            causes.forbidden(
                &path.member(source),
                "may not specify more than 1 volume type",
            );
        }
        let name_path = path.member("name");
        let name = text(volume, "name");
        if name.is_empty() {
            causes.required(&name_path, "");
        } else {
            causes.text(&name_path, name, names::dns_label(name));
            if seen.contains(&name) {
                causes.duplicate(&name_path, name);
            }
        }
        if causes.all.len() == before {
            seen.push(name);
        }
    }
    seen
}

fn check_containers(
    fields: JsonValue<'_>,
    volumes: &Places<&str>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let host_network = fields
        .get("hostNetwork")
        .is_some_and(|it| it.as_bool() == Some(true));
    let around = Surroundings {
        volumes,
        host_network,
        grace_seconds: fields
            .get("terminationGracePeriodSeconds")
            .and_then(|it| it.as_i64()),
    };
    if items(fields, "containers").next().is_none() {
        causes.required(&path.member("containers"), "");
    }
    let mut seen: Places<&str> = Places::default();
    let mut host_ports: Places<(&str, &str, i64)> = Places::default();
    for (key, role) in [("containers", Role::Main), ("initContainers", Role::Init)] {
        let list = path.member(key);
        for (index, container) in items(fields, key) {
            let path = list.item(index);
            container::check(container, role, around, &path, causes);
            let name = text(container, "name");
            if seen.contains(&name) && !name.is_empty() {
                causes.duplicate(&path.member("name"), name);
            }
            seen.push(name);
            // Init containers run one after another, so they may use the same host port.
            if role == Role::Main {
                check_host_ports(container, &mut host_ports, &path, causes);
            }
        }
    }
}

/// Checks that the container uses no host port that an earlier container uses.
fn check_host_ports<'a>(
    container: JsonValue<'a>,
    seen: &mut Places<(&'a str, &'a str, i64)>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let list = path.member("ports");
    for (index, port) in items(container, "ports") {
        let number = number(port, "hostPort");
        if number == 0 {
            continue;
        }
        let taken = (text(port, "protocol"), text(port, "hostIP"), number);
        if seen.contains(&taken) {
            let path = list.item(index);
            let shown = format!("{}/{}/{number}", taken.0, taken.1);
            causes.duplicate(&path.member("hostPort"), shown);
        } else {
            seen.push(taken);
        }
    }
}

/// Checks the DNS policy and configuration.
fn check_dns(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    const SERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_BYTES_MAX: usize = 2048;
    let path = path.member("dnsConfig");
    let config = member(fields, "dnsConfig");
    let texts = |key: &str| {
        let list = config.and_then(|config| config.get(key)).into_iter();
        let items = list.flat_map(|list| list.items());
        items.filter_map(|item| item.as_str()).collect::<Vec<_>>()
    };
    let (servers, searches) = (texts("nameservers"), texts("searches"));
    if text(fields, "dnsPolicy") == "None" && servers.is_empty() {
        if config.is_none() {
            causes.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            causes.required(&path.member("nameservers"), detail);
        }
        return;
    }
    let Some(config) = config else { return };
    let list = path.member("nameservers");
    if servers.len() > SERVERS_MAX {
        let detail = format!("must not have more than {SERVERS_MAX} nameservers");
        causes.invalid(&list, servers.clone(), detail);
    }
    for (index, server) in servers.into_iter().enumerate() {
        causes.text(&list.item(index), server, names::ip_address(server));
    }
    let list = path.member("searches");
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        causes.invalid(&list, searches.clone(), detail);
    }
    if searches.join(" ").len() > SEARCH_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the \
             search list"
        );
        causes.invalid(&list, searches.clone(), detail);
    }
    for (index, search) in searches.into_iter().enumerate() {
        // The search domain may end with a dot.
        let name = search.strip_suffix('.').unwrap_or(search);
        if search != "." {
            causes.text(&list.item(index), name, names::dns_subdomain(name));
        }
    }
    let list = path.member("options");
    for (index, option) in items(config, "options") {
        if text(option, "name").is_empty() {
            causes.required(&list.item(index), "must not be empty");
        }
    }
}

fn check_tolerations(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("tolerations");
    for (index, toleration) in items(fields, "tolerations") {
        let path = list.item(index);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let effect = text(toleration, "effect");
        let operator_path = path.member("operator");
        if key.is_empty() {
            if operator != "Exists" {
                let detail = "must be Exists when key is empty, which means all keys";
                causes.invalid(&operator_path, operator, detail);
            }
        } else {
            causes.text(&path.member("key"), key, names::qualified_name(key));
        }
        let seconds = toleration
            .get("tolerationSeconds")
            .is_some_and(|value| !value.is_null());
        if seconds && effect != "NoExecute" {
            let detail = "must be NoExecute when tolerationSeconds is set";
            causes.invalid(&path.member("effect"), effect, detail);
        }
        let value = text(toleration, "value");
        match operator {
            "" | "Equal" => causes.text(&operator_path, value, names::label_value(value)),
            "Exists" if !value.is_empty() => {
                causes.invalid(
                    &operator_path,
                    value,
                    "value must be empty when operator is Exists",
                );
            }
            "Exists" => {}
            other => causes.not_supported(&operator_path, other, &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        choice(toleration, "effect", &effects, &path, causes);
    }
}

fn check_topology_spread(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("topologySpreadConstraints");
    let pair = |constraint| {
        (
            text(constraint, "topologyKey"),
            text(constraint, "whenUnsatisfiable"),
        )
    };
    let all = items(fields, "topologySpreadConstraints").map(|(_, constraint)| pair(constraint));
    let all: Vec<(&str, &str)> = all.collect();
    // Sic: of several equal constraints the last one is valid.
    let from_end: Places<(&str, &str)> = all.iter().rev().copied().collect();
    for (index, constraint) in items(fields, "topologySpreadConstraints") {
        let path = list.item(index);
        let skew = number(constraint, "maxSkew");
        if skew <= 0 {
            causes.invalid(&path.member("maxSkew"), skew, "must be greater than zero");
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            causes.required(&path.member("topologyKey"), "can not be empty");
        } else {
            causes.text(&path.member("topologyKey"), key, names::qualified_name(key));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        let action = text(constraint, "whenUnsatisfiable");
        if !actions.contains(&action) {
            causes.not_supported(&path.member("whenUnsatisfiable"), action, &actions);
        }
        if let Some(least) = constraint.get("minDomains").and_then(|it| it.as_i64()) {
            let path = path.member("minDomains");
            if least <= 0 {
                causes.invalid(&path, least, "must be greater than 0");
            }
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                causes.invalid(&path, least, detail);
            }
        }
        if from_end
            .position(&(key, action))
            .is_some_and(|place| all.len() - 1 - place > index)
        {
            let pair = path.member("{topologyKey, whenUnsatisfiable}");
            causes.duplicate(&pair, format!("{{{key}, {action}}}"));
        }
    }
}

fn check_gates(
    fields: JsonValue<'_>,
    node_name: Option<&str>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let list = path.member("readinessGates");
    for (index, gate) in items(fields, "readinessGates") {
        let (path, kind) = (list.item(index), text(gate, "conditionType"));
        causes.text(
            &path.member("conditionType"),
            kind,
            names::qualified_name(kind),
        );
    }
    let list = path.member("schedulingGates");
    let mut seen: Places<&str> = Places::default();
    for (index, gate) in items(fields, "schedulingGates") {
        let (path, name) = (list.item(index), text(gate, "name"));
        causes.text(&path, name, names::qualified_name(name));
        if seen.contains(&name) {
            causes.duplicate(&path, name);
        }
        seen.push(name);
    }
    if node_name.is_some() && !seen.is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.forbidden(&path.member("nodeName"), detail);
    }
}

#[cfg(test)]
mod tests;
