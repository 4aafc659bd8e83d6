//! Validation of security contexts, and of the rules that depend on the operating system and the
//! host's namespaces.

use podstorm_objects::Cause;
use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::Causes;
use super::container::{choice, items, member, text};
use crate::Places;
use crate::internal;

const IDS: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;
const OUT_OF_RANGE: &str = "must be between 0 and 2147483647, inclusive";

/// The detail of the error for a privileged container.
const BY_POLICY: &str = "disallowed by cluster policy";

/// Removes the causes about privileged containers, for clusters that allow them.
#[cold]
pub fn allow_privileged(causes: &mut Vec<Cause>) {
    causes.retain(|cause| {
        !(cause.field.ends_with(".securityContext.privileged")
            && cause.message.ends_with(BY_POLICY))
    });
}

fn check_id(context: JsonValue<'_>, key: &str, path: &Path<'_>, causes: &mut Causes) {
    let id = context.get(key).and_then(|id| id.as_i64());
    if let Some(id) = id.filter(|id| !IDS.contains(id)) {
        causes.invalid(&path.member(key), id, OUT_OF_RANGE);
    }
}

fn check_profiles(context: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let Some(profile) = member(context, "seccompProfile") else {
        return;
    };
    let path = path.member("seccompProfile");
    let kind = text(profile, "type");
    let local = profile.get("localhostProfile").and_then(|it| it.as_str());
    let local_path = path.member("localhostProfile");
    match (kind, local) {
        ("", _) => causes.required(
            &path.member("type"),
            "type is required when seccompProfile is set",
        ),
        ("Localhost", None) => {
            causes.required(&local_path, "must be set when seccomp type is Localhost");
        }
        ("Localhost", Some(local)) => super::volumes::check_descending(local, &local_path, causes),
        ("RuntimeDefault" | "Unconfined", Some(local)) => {
            let detail = "can only be set when seccomp type is Localhost";
            causes.invalid(&local_path, local, detail);
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        (other, _) => {
            let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
            causes.not_supported(&path.member("type"), other, &kinds);
        }
    }
}

/// Checks the security context of a container.
pub(super) fn check_container(container: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let Some(context) = member(container, "securityContext") else {
        return;
    };
    let path = path.member("securityContext");
    if context.get("privileged").and_then(|it| it.as_bool()) == Some(true) {
        causes.forbidden(&path.member("privileged"), BY_POLICY);
    }
    check_id(context, "runAsUser", &path, causes);
    check_id(context, "runAsGroup", &path, causes);
    choice(
        context,
        "procMount",
        &["Default", "Unmasked"],
        &path,
        causes,
    );
    check_profiles(context, &path, causes);
    check_escalation(context, &path, causes);
}

/// Checks that a container that forbids privilege escalation has no privileges.
fn check_escalation(context: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let flag = |key: &str| context.get(key).and_then(|it| it.as_bool());
    if flag("allowPrivilegeEscalation") != Some(false) {
        return;
    }
    let mut wrong = |with: &str| {
        let value = context.to_value();
        let detail = format!("cannot set `allowPrivilegeEscalation` to false and {with}");
        let cause = internal::invalid(path.to_string(), &value, "SecurityContext", &detail);
        causes.push(cause);
    };
    if flag("privileged") == Some(true) {
        wrong("`privileged` to true");
    }
    let added = member(context, "capabilities").and_then(|it| it.get("add"));
    let added = added.into_iter().flat_map(|list| list.items());
    for _ in added.filter(|capability| capability.as_str() == Some("CAP_SYS_ADMIN")) {
        wrong("`capabilities.Add` CAP_SYS_ADMIN");
    }
}

/// Checks the security context of a pod, its operating system, and the host namespaces that it
/// uses.
pub(super) fn check_pod(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let is = |key: &str, wanted| fields.get(key).and_then(|it| it.as_bool()) == Some(wanted);
    if is("hostUsers", false) {
        for key in ["hostNetwork", "hostPID", "hostIPC"] {
            if is(key, true) {
                causes.forbidden(&path.member(key), "when `hostUsers` is false");
            }
        }
    }
    let context = member(fields, "securityContext");
    let context_path = path.member("securityContext");
    if let Some(os) = member(fields, "os") {
        let os_path = path.member("os");
        match text(os, "name") {
            "" => causes.required(&os_path.member("name"), ""),
            "linux" => {}
            "windows" => {
                for key in [
                    "seLinuxOptions",
                    "seccompProfile",
                    "fsGroup",
                    "fsGroupChangePolicy",
                    "sysctls",
                    "runAsUser",
                    "runAsGroup",
                    "supplementalGroups",
                ] {
                    let set = context.and_then(|context| context.get(key));
                    if set.is_some_and(|set| !set.is_null()) {
                        let detail = "cannot be set for a windows pod";
                        causes.forbidden(&context_path.member(key), detail);
                    }
                }
            }
            other => causes.not_supported(&os_path, other, &["linux", "windows"]),
        }
    }
    let Some(context) = context else { return };
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(context, key, &context_path, causes);
    }
    let groups = context_path.member("supplementalGroups");
    let list = context.get("supplementalGroups").into_iter();
    for (index, id) in list.flat_map(|list| list.items()).enumerate() {
        if let Some(id) = id.as_i64().filter(|id| !IDS.contains(id)) {
            causes.invalid(&groups.item(index), id, OUT_OF_RANGE);
        }
    }
    check_profiles(context, &context_path, causes);
    let sysctls = context_path.member("sysctls");
    let mut seen: Places<&str> = Places::default();
    for (index, sysctl) in items(context, "sysctls") {
        let path = sysctls.item(index);
        let name_path = path.member("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            causes.required(&name_path, "");
        } else if !is_sysctl(name) {
            let detail = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.invalid(&name_path, name, detail);
        } else if seen.contains(&name) {
            causes.duplicate(&name_path, name);
        }
        seen.push(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| match part.as_bytes() {
        [] => false,
        bytes => {
            is_plain(bytes[0])
                && is_plain(bytes[bytes.len() - 1])
                && bytes
                    .iter()
                    .all(|byte| is_plain(*byte) || b"-_".contains(byte))
        }
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_part)
}
