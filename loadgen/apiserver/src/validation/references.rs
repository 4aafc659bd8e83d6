//! Validation of what containers refer to: fields of their pod, resource amounts, and keys of
//! ConfigMaps and Secrets.

use podstorm_objects::Quantity;
use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::container::{items, member, text};
use super::{Causes, names};

/// The fields of a pod that an environment variable may contain.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The valid names of fields of a pod, even of those that a variable may not contain.
const FIELDS: [&str; 16] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

/// The resource amounts that a container can refer to.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The sources of a variable, which must have exactly one.
const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];

/// Checks the source of a variable's value. `path` is the path of `valueFrom`.
pub(super) fn check_source(
    source: JsonValue<'_>,
    has_value: bool,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let given = SOURCES
        .into_iter()
        .filter_map(|name| Some((name, member(source, name)?)));
    let mut count = 0;
    for (name, reference) in given {
        count += 1;
        let path = path.member(name);
        match name {
            "fieldRef" => check_field_reference(reference, &VARIABLE_FIELDS, &path, causes),
            "resourceFieldRef" => check_resource_reference(reference, false, &path, causes),
            "configMapKeyRef" | "secretKeyRef" => check_key(reference, &path, causes),
            _ => {}
        }
    }
    let detail = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
              `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid(path, "", detail);
}

/// Checks the references to ConfigMaps and Secrets whose keys all become variables.
pub(super) fn check_all_from(container: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("envFrom");
    for (index, source) in items(container, "envFrom") {
        let path = list.item(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            causes.text(&path.member("prefix"), prefix, names::variable(prefix));
        }
        let given = ["configMapRef", "secretRef"]
            .into_iter()
            .filter_map(|name| Some((name, member(source, name)?)));
        let mut count = 0;
        for (name, reference) in given {
            count += 1;
            let name_path = path.member(name);
            let name = text(reference, "name");
            causes.text(&name_path.member("name"), name, names::dns_subdomain(name));
        }
        match count {
            0 => causes.invalid(
                &path,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => causes.invalid(
                &path,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

fn check_key(reference: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    causes.text(&path.member("name"), name, names::dns_subdomain(name));
    let key_path = path.member("key");
    match key {
        "" => causes.required(&key_path, ""),
        key => causes.text(&key_path, key, names::config_key(key)),
    }
}

/// Checks a reference to a field of the pod, which must be one of `supported`.
pub(super) fn check_field_reference(
    reference: JsonValue<'_>,
    supported: &[&str],
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let at = path.member("fieldPath");
    let field = text(reference, "fieldPath");
    if field.is_empty() {
        causes.required(&at, "");
        return;
    }
    // Any reference may name a label or an annotation, as in `metadata.labels['key']`.
    let of_key = field
        .strip_suffix("']")
        .and_then(|field| field.split_once("['"));
    if let Some((map, key)) = of_key {
        match map {
            "metadata.labels" | "metadata.annotations" => {
                let key = match map {
                    "metadata.labels" => key.to_owned(),
                    _ => key.to_lowercase(),
                };
                causes.text(&at, &key, names::qualified_name(&key));
            }
            _ => causes.invalid(&at, map, "does not support subscript"),
        }
    } else if !["", "v1"].contains(&text(reference, "apiVersion")) {
        let version = text(reference, "apiVersion");
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        causes.invalid(&at, field, detail);
    } else if !FIELDS.contains(&field) {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        causes.invalid(&at, field, detail);
    } else if !supported.contains(&field) {
        causes.not_supported(&at, field, supported);
    }
}

/// Checks a reference to a resource amount.
pub(super) fn check_resource_reference(
    reference: JsonValue<'_>,
    of_volume: bool,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    if of_volume && text(reference, "containerName").is_empty() {
        causes.required(&path.member("containerName"), "");
        return;
    }
    let at = path.member("resource");
    let resource = text(reference, "resource");
    if resource.is_empty() {
        causes.required(&at, "");
        return;
    }
    let name = resource.split_once('.').map_or(resource, |(_, name)| name);
    if !RESOURCES.contains(&resource) && !name.starts_with("hugepages-") {
        causes.not_supported(&at, resource, &RESOURCES);
    }
    let divisor = reference.get("divisor").map(Quantity::read);
    let Some(Ok(divisor)) =
        divisor.filter(|divisor| divisor.as_ref().is_ok_and(|divisor| !divisor.is_zero()))
    else {
        return;
    };
    let (known, values): (&[&str], &str) = match name {
        "cpu" => (&["1m", "1"], "1m and 1"),
        "memory" | "ephemeral-storage" => (
            &[
                "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
            ],
            "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei",
        ),
        _ => return,
    };
    if !known.iter().any(|text| text.parse() == Ok(divisor)) {
        let of = if name == "cpu" {
            "the cpu resource".to_owned()
        } else {
            format!("the {name} resource")
        };
        let detail = format!("only divisor's values {values} are supported with {of}");
        causes.invalid(&path.member("divisor"), resource, detail);
    }
}
