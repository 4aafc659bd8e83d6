//! The initial objects of a new cluster: priority classes, roles and bindings, priority levels and
//! flow schemas, API services, the range of Service addresses.
//!
//! The objects come from `roles.txt`, `bindings.txt` and `objects.json`. They are created as a
//! client would create them; an object that was already loaded from a file stays unchanged. An
//! aggregated role has no rules here: the ClusterRole aggregation controller sets them.
//!
//! Source: the objects that kube-apiserver 1.36 creates when it starts.

use anyhow::{Context, Result, bail};
use podstorm_apiserver::{Cluster, kind_named};
use podstorm_objects::Now;
use serde_json::{Map, Value, json};

const ROLES: &str = include_str!("roles.txt");
const BINDINGS: &str = include_str!("bindings.txt");
const OBJECTS: &str = include_str!("objects.json");

/// The API group of roles.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The name prefix of the controllers' roles.
const CONTROLLER: &str = "system:controller:";

/// The prefix of the labels by which a role's rules are aggregated into another role.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Creates the initial objects.
///
/// # Errors
/// The API server refuses an object.
pub(super) fn create(cluster: &Cluster, now: Now) -> Result<()> {
    for object in objects(now)? {
        put(cluster, object, now)?;
    }
    Ok(())
}

/// Returns all initial objects, each after the objects that it refers to.
fn objects(now: Now) -> Result<Vec<Value>> {
    let mut objects: Vec<Value> = serde_json::from_str(OBJECTS).context("objects.json")?;
    for object in &mut objects {
        let conditions = object.pointer_mut("/status/conditions");
        let conditions = conditions.and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            condition["lastTransitionTime"] = now.wall().to_string().into();
        }
    }
    objects.extend(roles(ROLES)?);
    objects.extend(bindings(BINDINGS, ROLES)?);
    Ok(objects)
}

fn put(cluster: &Cluster, object: Value, now: Now) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or("").to_owned();
    let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    let describe = || format!("{kind} {name}");
    let api = cluster.api(kind_named(&kind).with_context(describe)?);
    let status = object.get("status").cloned();
    match api.create(api.read(object)?.with_context(describe)?, now) {
        Err(error) if error.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(describe),
        Ok(created) => {
            let Some(status) = status else {
                return Ok(());
            };
            let mut json = created.to_json();
            json["status"] = status;
            let updated = api.update_status(api.read(json)?.with_context(describe)?, now);
            updated.map(drop).with_context(describe)
        }
    }
}

/// Returns the non-empty lines of a table, with their numbers.
fn lines(table: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = table.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// Returns the metadata of a role or a binding. `name` may begin with a namespace and a slash.
fn metadata(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut metadata = json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    metadata
}

/// Parses a table of roles. The comment at the top of `roles.txt` describes the format.
///
/// # Errors
/// A line is invalid; the error contains its number.
fn roles(table: &str) -> Result<Vec<Value>> {
    let mut roles: Vec<Value> = Vec::new();
    for (at, line) in lines(table) {
        if line.starts_with(' ') {
            let rule = rule(line).with_context(|| format!("roles.txt, line {at}"))?;
            let role = roles.last_mut().context("a rule before the first role")?;
            let rules = role["rules"].as_array_mut();
            rules.context("a role has rules")?.push(rule);
            continue;
        }
        let mut words = line.split(' ');
        let (Some(kind), Some(name)) = (words.next(), words.next()) else {
            bail!("roles.txt, line {at}: a role needs a kind and a name");
        };
        let mut role = json!({"kind": kind, "metadata": metadata(name), "rules": []});
        for word in words {
            match word.split_at_checked(1) {
                Some((">", into)) => {
                    role["metadata"]["labels"][format!("{AGGREGATE}{into}")] = "true".into();
                }
                Some(("<", from)) => {
                    let labels = json!({format!("{AGGREGATE}{from}"): "true"});
                    role["aggregationRule"] =
                        json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
                }
                _ => bail!("roles.txt, line {at}: {word:?} is neither <role nor >role"),
            }
        }
        roles.push(role);
    }
    Ok(roles)
}

/// Parses a rule of a role.
///
/// # Errors
/// The line is not `events` and does not have three or four words.
fn rule(line: &str) -> Result<Value> {
    let list = |text: &str| -> Value { text.split(',').collect() };
    let words: Vec<&str> = line.split_whitespace().collect();
    let verbs = |text: &str| match text {
        "read" => list("get,list,watch"),
        "write" => list("create,delete,deletecollection,patch,update"),
        "all" => list("create,delete,deletecollection,get,list,patch,update,watch"),
        verbs => list(verbs),
    };
    let groups = |text: &str| -> Value {
        let name = |group| if group == "core" { "" } else { group };
        text.split(',').map(name).collect()
    };
    Ok(match &*words {
        ["events"] => json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"],
            "verbs": ["create", "patch", "update"]}),
        ["url", paths, of] => json!({"nonResourceURLs": list(paths), "verbs": verbs(of)}),
        [of, resources, can] => json!({"apiGroups": groups(of), "resources": list(resources),
            "verbs": verbs(can)}),
        [of, resources, can, names] => json!({"apiGroups": groups(of),
            "resources": list(resources), "verbs": verbs(can), "resourceNames": list(names)}),
        _ => bail!("a rule needs groups, resources and verbs"),
    })
}

/// Parses a table of bindings, and adds a binding for each controller's role in `roles`.
///
/// # Errors
/// A line is invalid; the error contains its number.
fn bindings(table: &str, roles: &str) -> Result<Vec<Value>> {
    let mut bindings = Vec::new();
    for (at, line) in lines(table) {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, name, role, subjects @ ..] = &*words else {
            bail!("bindings.txt, line {at}: a binding needs a kind, a name and a role");
        };
        let subjects: Result<Vec<Value>> = subjects.iter().map(|word| subject(word)).collect();
        let subjects = subjects.with_context(|| format!("bindings.txt, line {at}"))?;
        bindings.push(binding(kind, name, role, subjects));
    }
    for (_, line) in lines(roles) {
        let name = line.strip_prefix("ClusterRole ");
        if let Some(account) = name.and_then(|name| name.strip_prefix(CONTROLLER)) {
            let role = format!("{CONTROLLER}{account}");
            let subject = subject(&format!("S:kube-system/{account}"))?;
            bindings.push(binding("ClusterRoleBinding", &role, &role, vec![subject]));
        }
    }
    Ok(bindings)
}

fn binding(kind: &str, name: &str, role: &str, subjects: Vec<Value>) -> Value {
    let of = kind.trim_end_matches("Binding");
    let mut binding = Map::new();
    binding.insert("kind".to_owned(), kind.into());
    binding.insert("metadata".to_owned(), metadata(name));
    let role = json!({"apiGroup": GROUP, "kind": of, "name": role});
    binding.insert("roleRef".to_owned(), role);
    if !subjects.is_empty() {
        binding.insert("subjects".to_owned(), subjects.into());
    }
    Value::Object(binding)
}

/// Parses the subject of a binding: `G:` precedes a group, `U:` a user, `S:` a service account.
fn subject(word: &str) -> Result<Value> {
    let of = |kind: &str, name: &str| json!({"apiGroup": GROUP, "kind": kind, "name": name});
    Ok(match word.split_at_checked(2) {
        Some(("G:", name)) => of("Group", name),
        Some(("U:", name)) => of("User", name),
        Some(("S:", name)) => {
            let (namespace, name) = name
                .split_once('/')
                .context("a service account needs a namespace")?;
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
        _ => bail!("{word:?} is not a subject"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
        let found = objects
            .iter()
            .find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{kind} {name} not found"))
    }

    #[test]
    fn objects_are_unique_and_bindings_name_existing_roles() {
        let objects = objects(Now::default()).unwrap();
        let mut names = BTreeSet::new();
        for object in &objects {
            let metadata = &object["metadata"];
            let name = (&object["kind"], &metadata["namespace"], &metadata["name"]);
            assert!(names.insert(format!("{name:?}")), "{name:?} appears twice");
            if let Some(role) = object.get("roleRef") {
                let kind = role["kind"].as_str().unwrap();
                let found = named(&objects, kind, role["name"].as_str().unwrap());
                assert!(found["rules"].is_array());
            }
        }
        let count = |kind: &str| objects.iter().filter(|it| it["kind"] == kind).count();
        assert_eq!(count("PriorityClass"), 2);
        assert_eq!(count("PriorityLevelConfiguration"), 8);
        assert_eq!(count("FlowSchema"), 13);
        assert_eq!(count("Role"), count("RoleBinding"));
        let controllers = lines(ROLES).filter(|(_, line)| line.contains(CONTROLLER));
        let bound = objects.iter().filter(|it| {
            let name = it["metadata"]["name"].as_str().unwrap();
            it["kind"].as_str().unwrap().ends_with("Binding") && name.starts_with(CONTROLLER)
        });
        assert_eq!(controllers.count(), bound.count());
    }

    #[test]
    fn an_aggregated_role_selects_others_by_label() {
        let roles = roles(ROLES).unwrap();
        for (whole, parts) in [
            ("view", vec!["system:aggregate-to-view"]),
            ("edit", vec!["system:aggregate-to-edit", "view"]),
            ("admin", vec!["edit", "system:aggregate-to-admin"]),
        ] {
            let role = named(&roles, "ClusterRole", whole);
            assert_eq!(role["rules"], json!([]));
            let selector = &role["aggregationRule"]["clusterRoleSelectors"][0];
            let label = format!("{AGGREGATE}{whole}");
            assert_eq!(selector["matchLabels"], json!({&label: "true"}));
            let has_it = |role: &&Value| role["metadata"]["labels"][&label] == "true";
            let found: Vec<_> = roles.iter().filter(has_it).collect();
            let names: Vec<_> = found.iter().map(|it| &it["metadata"]["name"]).collect();
            assert_eq!(names, parts);
        }
    }

    #[test]
    fn rules_match_upstream() {
        let roles = roles(ROLES).unwrap();
        let has = |role: &str, rule: Value| {
            let rules = named(&roles, "ClusterRole", role)["rules"].as_array();
            assert!(rules.unwrap().contains(&rule), "{role}: {rule}");
        };
        let any = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        has("cluster-admin", any);
        let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]});
        has("system:kube-controller-manager", secrets);
        let events = json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"],
            "verbs": ["get", "list", "watch"]});
        has("system:aggregate-to-view", events);
        let slices = json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"],
            "verbs": ["deletecollection"]});
        has("system:node", slices);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let problem = |table: &str| format!("{:#}", roles(table).unwrap_err());
        assert_eq!(
            problem("# x\nClusterRole"),
            "roles.txt, line 2: a role needs a kind and a name"
        );
        assert!(problem("ClusterRole a b").contains("line 1: \"b\" is neither"));
        assert!(problem("ClusterRole a\n  core pods").contains("line 2: a rule needs groups"));
        assert!(problem("  core pods get").contains("before the first role"));
        let problem = |table: &str| format!("{:#}", bindings(table, "").unwrap_err());
        assert!(problem("RoleBinding a").contains("line 1: a binding needs"));
        assert!(problem("RoleBinding a b x").contains("\"x\" is not a subject"));
        assert!(problem("RoleBinding a b S:x").contains("a service account needs a namespace"));
    }
}
