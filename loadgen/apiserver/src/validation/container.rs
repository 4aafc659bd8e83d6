//! Validation of containers: names, image, ports, environment, mounts, resources, probes.

use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::{Causes, names, references, resources, security, volumes};
use crate::Places;

/// The list that contains a container, for rules that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An entry of `containers`.
    Main,
    /// An entry of `initContainers`.
    Init,
}

/// The data of the pod that the rules of its containers need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The names of the pod's volumes.
    pub(super) volumes: &'a Places<&'a str>,
    /// Whether the pod uses the host network. A host port must then equal its container port.
    pub(super) host_network: bool,
    /// The termination grace period of the pod, in seconds.
    pub(super) grace_seconds: Option<i64>,
}

/// Returns a string member; empty if it is absent.
pub(super) fn text<'a>(object: JsonValue<'a>, key: &str) -> &'a str {
    object.get(key).and_then(|it| it.as_str()).unwrap_or("")
}

/// Returns an integer member; 0 if it is absent.
pub(super) fn number(object: JsonValue<'_>, key: &str) -> i64 {
    object.get(key).and_then(|it| it.as_i64()).unwrap_or(0)
}

/// Returns a member that is an object; `None` for any other value.
pub(super) fn member<'a>(object: JsonValue<'a>, key: &str) -> Option<JsonValue<'a>> {
    object.get(key).filter(JsonValue::is_object)
}

/// Returns the objects in a list, with their indexes; none if the list is absent.
pub(super) fn items<'a>(
    object: JsonValue<'a>,
    key: &str,
) -> impl Iterator<Item = (usize, JsonValue<'a>)> {
    let list = object.get(key).into_iter().flat_map(|list| list.items());
    list.enumerate().filter(|(_, item)| item.is_object())
}

/// Checks one container, except the uniqueness of its name.
pub(super) fn check(
    container: JsonValue<'_>,
    role: Role,
    around: Surroundings<'_>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let name_path = path.member("name");
    match text(container, "name") {
        "" => causes.required(&name_path, ""),
        name => causes.text(&name_path, name, names::dns_label(name)),
    }
    let image_path = path.member("image");
    match text(container, "image") {
        "" => causes.required(&image_path, ""),
        image if image.trim() != image => {
            causes.invalid(
                &image_path,
                image,
                "must not have leading or trailing whitespace",
            );
        }
        _ => {}
    }
    for (key, supported) in [
        ("imagePullPolicy", &["Always", "IfNotPresent", "Never"][..]),
        (
            "terminationMessagePolicy",
            &["File", "FallbackToLogsOnError"],
        ),
        ("restartPolicy", &["Always", "Never", "OnFailure"]),
    ] {
        choice(container, key, supported, path, causes);
    }
    check_ports(container, around.host_network, path, causes);
    check_environment(container, path, causes);
    check_mounts(container, around.volumes, path, causes);
    resources::check_resize_policy(container, path, causes);
    security::check_container(container, path, causes);
    if let Some(resources) = member(container, "resources") {
        resources::check(resources, &path.member("resources"), causes);
    }
    let is_plain_init = role == Role::Init && text(container, "restartPolicy") != "Always";
    if !is_plain_init && let Some(hooks) = member(container, "lifecycle") {
        let path = path.member("lifecycle");
        for moment in ["postStart", "preStop"] {
            if let Some(handler) = member(hooks, moment) {
                let path = path.member(moment);
                check_handler(handler, around.grace_seconds, &path, causes);
            }
        }
    }
    if is_plain_init && container.get("lifecycle").is_some() {
        let detail = "may not be set for init containers without restartPolicy=Always";
        causes.forbidden(&path.member("lifecycle"), detail);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(members) = member(container, probe) {
            let path = path.member(probe);
            if is_plain_init {
                causes.forbidden(
                    &path,
                    "may not be set for init containers without restartPolicy=Always",
                );
            } else {
                check_probe(members, probe, &path, causes);
            }
        }
    }
}

/// Checks that a string, if it is set, is a supported value.
pub(super) fn choice(
    map: JsonValue<'_>,
    key: &str,
    supported: &[&str],
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let value = text(map, key);
    if !value.is_empty() && !supported.contains(&value) {
        causes.not_supported(&path.member(key), value, supported);
    }
}

fn check_ports(container: JsonValue<'_>, host_network: bool, path: &Path<'_>, causes: &mut Causes) {
    let ports = path.member("ports");
    let mut seen: Places<&str> = Places::default();
    for (index, port) in items(container, "ports") {
        let path = ports.item(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let name_path = path.member("name");
            let problems = names::port_name_problems(name);
            if !problems.is_empty() {
                for problem in problems {
                    causes.invalid(&name_path, name, problem);
                }
            } else if seen.contains(&name) {
                causes.duplicate(&name_path, name);
            } else {
                seen.push(name);
            }
        }
        let (inner, outer) = (number(port, "containerPort"), number(port, "hostPort"));
        let out_of_range = "must be between 1 and 65535, inclusive";
        if inner == 0 {
            causes.required(&path.member("containerPort"), "");
        } else if !(1..=65535).contains(&inner) {
            causes.invalid(&path.member("containerPort"), inner, out_of_range);
        }
        if outer != 0 && !(1..=65535).contains(&outer) {
            causes.invalid(&path.member("hostPort"), outer, out_of_range);
        }
        if host_network && outer != 0 && outer != inner {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            causes.invalid(&path.member("hostPort"), outer, detail);
        }
        choice(port, "protocol", &["SCTP", "TCP", "UDP"], &path, causes);
    }
}

fn check_environment(container: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("env");
    for (index, variable) in items(container, "env") {
        let path = list.item(index);
        let name_path = path.member("name");
        match text(variable, "name") {
            "" => causes.required(&name_path, ""),
            name => causes.text(&name_path, name, names::variable(name)),
        }
        let Some(source) = member(variable, "valueFrom") else {
            continue;
        };
        let has_value = !text(variable, "value").is_empty();
        references::check_source(source, has_value, &path.member("valueFrom"), causes);
    }
    references::check_all_from(container, path, causes);
}

fn check_mounts(
    container: JsonValue<'_>,
    volumes: &Places<&str>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let list = path.member("volumeMounts");
    let mut seen: Places<&str> = Places::default();
    for (index, mount) in items(container, "volumeMounts") {
        let path = list.item(index);
        match text(mount, "name") {
            "" => causes.required(&path.member("name"), ""),
            name if !volumes.contains(&name) => causes.not_found(&path.member("name"), name),
            _ => {}
        }
        let at = text(mount, "mountPath");
        if at.is_empty() {
            causes.required(&path.member("mountPath"), "");
        } else if seen.contains(&at) {
            causes.invalid(&path.member("mountPath"), at, "must be unique");
        }
        seen.push(at);
        // Sic: these errors do not contain the index of the mount.
        let sub_path = text(mount, "subPath");
        volumes::check_descending(sub_path, &list.member("subPath"), causes);
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() {
            let expression_path = path.member("subPathExpr");
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                causes.invalid(&expression_path, expression, detail);
            }
            volumes::check_descending(expression, &list.member("subPathExpr"), causes);
        }
        let kinds = ["Bidirectional", "HostToContainer", "None"];
        choice(mount, "mountPropagation", &kinds, &list, causes);
    }
}

fn check_probe(probe: JsonValue<'_>, name: &str, path: &Path<'_>, causes: &mut Causes) {
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        causes.not_negative(&path.member(key), number(probe, key));
    }
    if name != "readinessProbe" && number(probe, "successThreshold") > 1 {
        causes.invalid(
            &path.member("successThreshold"),
            number(probe, "successThreshold"),
            "must be 1",
        );
    }
    if let Some(seconds) = probe
        .get("terminationGracePeriodSeconds")
        .and_then(|it| it.as_i64())
    {
        let member = path.member("terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            causes.invalid(&member, seconds, "must not be set for readinessProbes");
        } else if seconds <= 0 {
            causes.invalid(&member, seconds, "must be greater than 0");
        }
    }
    check_handler(probe, None, path, causes);
}

/// Checks the action of a probe or a lifecycle hook. If several are set, checks the first.
fn check_handler(
    handler: JsonValue<'_>,
    grace_seconds: Option<i64>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].into_iter();
    let mut given = kinds.filter_map(|kind| Some((kind, member(handler, kind)?)));
    let Some((kind, action)) = given.next() else {
        causes.required(path, "must specify a handler type");
        return;
    };
    let at = path.member(kind);
    match kind {
        "exec" => {
            let command = action.get("command");
            if command.is_none_or(|command| command.items().next().is_none()) {
                causes.required(&at.member("command"), "");
            }
        }
        "httpGet" => {
            check_port(action, &at, causes);
            choice(action, "scheme", &["HTTP", "HTTPS"], &at, causes);
            for (_, header) in items(action, "httpHeaders") {
                // Sic: without the index of the header.
                let name = text(header, "name");
                causes.text(&at.member("httpHeaders"), name, names::header(name));
            }
        }
        "sleep" => {
            let seconds = number(action, "seconds");
            if let Some(most) = grace_seconds
                && !(0..=most).contains(&seconds)
            {
                let detail = format!(
                    "must be non-negative and less than terminationGracePeriodSeconds ({most})"
                );
                causes.invalid(&at, seconds, detail);
            }
        }
        _ => check_port(action, &at, causes),
    }
    for (other, _) in given {
        let detail = "may not specify more than 1 handler type";
        causes.forbidden(&path.member(other), detail);
    }
}

/// Checks a port number or name.
fn check_port(action: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let path = path.member("port");
    match action.get("port").and_then(|port| port.as_str()) {
        Some(name) => {
            for problem in names::port_name_problems(name) {
                causes.invalid(&path, name, problem);
            }
        }
        None => {
            let port = number(action, "port");
            if !(1..=65535).contains(&port) {
                causes.invalid(&path, port, "must be between 1 and 65535, inclusive");
            }
        }
    }
}
