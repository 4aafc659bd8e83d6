//! Validation of the requests and limits of containers.

use podstorm_objects::Quantity;
use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::container::{items, member, text};
use super::{Causes, names};
use crate::Places;

/// The standard resources, which have no domain, including those of quotas.
const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

const HUGE_PAGES: &str = "hugepages-";

/// Reports whether a quota can limit a resource with this name, which has no domain.
pub(crate) fn is_of_quota(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name.trim_start_matches("requests."))
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_of_container(name: &str) -> bool {
    ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge_pages(name)
}

/// Reports whether a resource is an extended one: it has a domain other than Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.starts_with("requests.") && !name.contains("kubernetes.io/")
}

fn check_name(name: &str, path: &Path<'_>, causes: &mut Causes) {
    if let Some(problem) = names::qualified_name(name) {
        causes.invalid(path, name, problem);
        return;
    }
    if name.contains('/') {
        return;
    }
    if !is_of_container(name) && !is_of_quota(name) {
        let detail = "must be a standard resource type or fully qualified";
        causes.invalid(path, name, detail);
    }
    if !is_of_container(name) {
        let detail = "must be a standard resource for containers";
        causes.invalid(path, name, detail);
    }
}

/// Returns an amount from a list, and its JSON; `None` if it is absent or unreadable.
fn amount<'a>(list: Option<JsonValue<'a>>, name: &str) -> Option<(Quantity, JsonValue<'a>)> {
    let value = list?.get(name)?;
    Some((Quantity::read(value).ok()?, value))
}

fn shown(value: JsonValue<'_>) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_value().to_string(), str::to_owned);
    podstorm_objects::canonical_quantity(&text).unwrap_or(text)
}

/// Checks requests and limits: known names, no negative amount, no request above its limit.
pub(super) fn check(resources: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let (limits, requests) = (member(resources, "limits"), member(resources, "requests"));
    let limits_path = path.member("limits");
    let mut has_huge_pages = false;
    let mut has_cpu_or_memory = false;
    for (key, list) in [("limits", limits), ("requests", requests)] {
        let list_path = path.member(key);
        for (name, value) in list.into_iter().flat_map(|list| list.pairs()) {
            let path = list_path.key(name);
            has_huge_pages |= is_huge_pages(name);
            has_cpu_or_memory |= matches!(name, "cpu" | "memory");
            check_name(name, &path, causes);
            let Ok(of_list) = Quantity::read(value) else {
                causes.invalid(&path, value, "not a resource quantity");
                continue;
            };
            check_amount(name, of_list, &shown(value), &path, causes);
            if key == "limits" {
                continue;
            }
            let is_whole = is_extended(name) || is_huge_pages(name);
            match amount(limits, name) {
                Some((limit, text)) if is_whole && of_list != limit => {
                    let detail = format!("must be equal to {name} limit of {}", shown(text));
                    causes.invalid(&list_path, shown(value), detail);
                }
                Some((limit, text)) if of_list > limit => {
                    let limit = shown(text);
                    let detail = format!("must be less than or equal to {name} limit of {limit}");
                    causes.invalid(&list_path, shown(value), detail);
                }
                None if is_whole => {
                    // Sic: upstream's spelling, `overcommitable`.
                    let detail = "Limit must be set for non overcommitable resources";
                    causes.required(&limits_path, detail);
                }
                _ => {}
            }
        }
    }
    if has_huge_pages && !has_cpu_or_memory {
        causes.forbidden(path, "HugePages require cpu or memory");
    }
}

fn check_amount(name: &str, amount: Quantity, text: &str, path: &Path<'_>, causes: &mut Causes) {
    if amount.is_negative() {
        causes.invalid(path, text, super::MUST_NOT_BE_NEGATIVE);
    } else if is_extended(name) && !amount.is_whole() {
        causes.invalid(path, text, "must be an integer");
    }
    if let Some(size) = name.strip_prefix(HUGE_PAGES)
        && let Ok(size) = size.parse::<Quantity>()
        && !size.is_zero()
        && amount.ceil() % size.ceil() != 0
    {
        let detail = format!("{text} is not positive integer multiple of {name}");
        causes.invalid(path, text, detail);
    }
}

/// Checks the resize policy of a container.
pub(super) fn check_resize_policy(container: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    // Sic: without the index of the policy.
    let path = path.member("resizePolicy");
    let mut seen: Places<&str> = Places::default();
    for (_, policy) in items(container, "resizePolicy") {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if seen.contains(&resource) {
            causes.duplicate(&path, resource);
        }
        seen.push(resource);
        match resource {
            "cpu" | "memory" => {}
            "" => causes.required(&path, ""),
            other => causes.not_supported(&path, other, &["cpu", "memory"]),
        }
        match restart {
            "NotRequired" | "RestartContainer" => {}
            "" => causes.required(&path, ""),
            other => causes.not_supported(&path, other, &["NotRequired", "RestartContainer"]),
        }
    }
}
