//! Validation of the volumes of a pod spec, by source.

use podstorm_objects::Quantity;
use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::container::{choice, items, member, number, text};
use super::references::{check_field_reference, check_resource_reference};
use super::{Causes, names};
use crate::Places;

/// The required fields of volume sources, in the order in which they are checked.
const REQUIRED: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cinder", &["volumeID"]),
    ("configMap", &["name"]),
    ("csi", &["driver"]),
    ("gcePersistentDisk", &["pdName"]),
    ("gitRepo", &["repository"]),
    ("glusterfs", &["endpoints", "path"]),
    ("hostPath", &["path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("secret", &["secretName"]),
    ("vsphereVolume", &["volumePath"]),
];

/// The sources in the order in which upstream checks them.
const ORDER: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "scaleIO",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

/// Returns the position of a source in the order of the checks; unknown sources come last.
pub(super) fn turn_of(source: &str) -> usize {
    let place = ORDER.iter().position(|known| *known == source);
    place.unwrap_or(ORDER.len())
}

const HOST_PATHS: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The fields of a pod that a file in a volume may contain.
const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Checks one source of a volume. `path` is the path of the source.
pub(super) fn check(name: &str, source: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let required = REQUIRED.iter().find(|(source, _)| *source == name);
    for key in required.into_iter().flat_map(|(_, members)| *members) {
        if text(source, key).is_empty() {
            causes.required(&path.member(key), "");
        }
    }
    match name {
        "hostPath" => {
            let at = path.member("path");
            check_no_backsteps(text(source, "path"), &at, causes);
            choice(source, "type", &HOST_PATHS, path, causes);
        }
        "nfs" => {
            let value = text(source, "path");
            if !value.is_empty() && !value.starts_with('/') {
                causes.invalid(&path.member("path"), value, "must be an absolute path");
            }
        }
        "emptyDir" => {
            let limit = source.get("sizeLimit").map(Quantity::read);
            if let Some(Ok(limit)) = limit
                && limit.is_negative()
            {
                let detail = "SizeLimit field must be a valid resource quantity";
                causes.forbidden(&path.member("sizeLimit"), detail);
            }
        }
        "secret" | "configMap" => check_files(source, path, causes),
        "downwardAPI" => {
            check_mode(source, "defaultMode", path, causes);
            for (_, file) in items(source, "items") {
                check_pod_file(file, path, causes);
            }
        }
        "ephemeral" if member(source, "volumeClaimTemplate").is_none() => {
            causes.required(&path.member("volumeClaimTemplate"), "");
        }
        "projected" => check_projected(source, path, causes),
        _ => {}
    }
}

/// Checks the keys of a ConfigMap or a Secret that become files.
fn check_files(source: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    check_mode(source, "defaultMode", path, causes);
    let list = path.member("items");
    for (index, file) in items(source, "items") {
        check_file(file, &list.item(index), causes);
    }
}

fn check_file(file: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    if text(file, "key").is_empty() {
        causes.required(&path.member("key"), "");
    }
    check_local_path(text(file, "path"), &path.member("path"), causes);
    check_mode(file, "mode", path, causes);
}

fn check_mode(source: JsonValue<'_>, key: &str, path: &Path<'_>, causes: &mut Causes) {
    let mode = number(source, key);
    if !(0..=0o777).contains(&mode) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.invalid(&path.member(key), mode, detail);
    }
}

/// Checks a file that contains a field of the pod. Sic: the path lacks the file's index.
fn check_pod_file(file: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    check_local_path(text(file, "path"), &path.member("path"), causes);
    match (member(file, "fieldRef"), member(file, "resourceFieldRef")) {
        (Some(field), None) => {
            check_field_reference(field, &FILE_FIELDS, &path.member("fieldRef"), causes);
        }
        (None, Some(resource)) => {
            let at = path.member("resourceFieldRef");
            check_resource_reference(resource, true, &at, causes);
        }
        (Some(_), Some(_)) => {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            causes.invalid(path, "resource", detail);
        }
        (None, None) => {
            causes.required(path, "one of fieldRef and resourceFieldRef is required");
        }
    }
    check_mode(file, "mode", path, causes);
}

fn check_projected(source: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    check_mode(source, "defaultMode", path, causes);
    let list = path.member("sources");
    let mut paths: Places<&str> = Places::default();
    for (index, projection) in items(source, "sources") {
        let at = list.item(index);
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        let given = kinds
            .into_iter()
            .filter_map(|kind| Some((kind, member(projection, kind)?)));
        for (number, (kind, of)) in given.enumerate() {
            if number > 0 {
                let detail = "may not specify more than 1 volume type per source";
                causes.forbidden(&at, detail);
                continue;
            }
            let of_path = at.member(kind);
            match kind {
                "secret" | "configMap" => {
                    if text(of, "name").is_empty() {
                        causes.required(&of_path.member("name"), "");
                    }
                    let files = of_path.member("items");
                    for (index, file) in items(of, "items") {
                        check_file(file, &files.item(index), causes);
                    }
                }
                "downwardAPI" => {
                    for (_, file) in items(of, "items") {
                        check_pod_file(file, &of_path, causes);
                    }
                }
                _ => check_token(of, &of_path, causes),
            }
            let files = items(of, "items").map(|(_, file)| file);
            let own = (kind == "serviceAccountToken").then_some(of);
            for file in files.chain(own) {
                let file = text(file, "path");
                if paths.contains(&file) && !file.is_empty() {
                    causes.invalid(path, text(of, "name"), "conflicting duplicate paths");
                }
                paths.push(file);
            }
        }
    }
}

fn check_token(token: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    const SECONDS_MAX: i64 = 1 << 32;
    let seconds = number(token, "expirationSeconds");
    let at = path.member("expirationSeconds");
    if seconds < 600 {
        let detail = "may not specify a duration less than 10 minutes";
        causes.invalid(&at, seconds, detail);
    } else if seconds > SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        causes.invalid(&at, seconds, detail);
    }
    if text(token, "path").is_empty() {
        causes.required(&path.member("path"), "");
    }
}

/// Checks the path of a file within a volume.
fn check_local_path(value: &str, path: &Path<'_>, causes: &mut Causes) {
    if value.is_empty() {
        causes.required(path, "");
        return;
    }
    check_descending(value, path, causes);
    if value.starts_with("..") && !value.starts_with("../") {
        causes.invalid(path, value, "must not start with '..'");
    }
}

/// Checks that a path stays below its root.
pub(super) fn check_descending(value: &str, path: &Path<'_>, causes: &mut Causes) {
    if value.starts_with('/') {
        causes.invalid(path, value, "must be a relative path");
    }
    check_no_backsteps(value, path, causes);
}

fn check_no_backsteps(value: &str, path: &Path<'_>, causes: &mut Causes) {
    if value.split('/').any(|part| part == "..") {
        causes.invalid(path, value, "must not contain '..'");
    }
}

/// Checks the entries that a pod adds to its hosts file.
pub(super) fn check_host_aliases(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("hostAliases");
    for (index, alias) in items(fields, "hostAliases") {
        let path = list.item(index);
        let address = text(alias, "ip");
        causes.text(&path.member("ip"), address, names::ip_address(address));
        let hosts = path.member("hostnames");
        let all = alias.get("hostnames").into_iter();
        for (index, host) in all.flat_map(|list| list.items()).enumerate() {
            let host = host.as_str().unwrap_or("");
            causes.text(&hosts.item(index), host, names::dns_subdomain(host));
        }
    }
}
