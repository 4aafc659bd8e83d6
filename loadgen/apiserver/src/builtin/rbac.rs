//! `rbac.authorization.k8s.io/v1`: roles and bindings. Stored and validated, but not enforced.

use podstorm_objects::decode::Path;
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Kind, LabelSelector, ResourceType, Rules,
};
use serde_json::Value;

use super::columns::column;
use crate::defaulting::Fill;
use crate::validation::{Checks, Field, names, validate_selector_at};

const GROUP: &str = "rbac.authorization.k8s.io";

const CLUSTER_ROLE: ResourceType = ResourceType {
    rules: Rules {
        validate: validate_role,
        ..Rules::NONE
    },
    ..*Kind::CLUSTER_ROLE.row()
};

const ROLE: ResourceType = ResourceType {
    kind: "Role",
    resource: "roles",
    namespaced: true,
    ..CLUSTER_ROLE
};

const BINDING: Rules = Rules {
    default: |binding| {
        binding.fields.with("roleRef", |role| {
            role.set("apiGroup", GROUP);
        });
        binding.fields.each("subjects", |subject| {
            if matches!(subject.text("kind"), "User" | "Group") {
                subject.set("apiGroup", GROUP);
            }
        });
    },
    validate: validate_binding,
    ..Rules::NONE
};

pub(super) static ROWS: [ResourceType; 4] = [
    CLUSTER_ROLE,
    ResourceType {
        kind: "ClusterRoleBinding",
        resource: "clusterrolebindings",
        namespaced: false,
        columns: BINDINGS,
        rules: BINDING,
        ..ROLE
    },
    ROLE,
    ResourceType {
        kind: "RoleBinding",
        resource: "rolebindings",
        columns: BINDINGS,
        rules: BINDING,
        ..ROLE
    },
];

/// Source: `ValidateRole` and `ValidateClusterRole` of Kubernetes' `pkg/apis/rbac/validation`.
fn validate_role(new: &DynamicObject, _: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    for rule in checks.field(new, "rules").items() {
        validate_rule(&rule, new.kind().is_namespaced());
    }
    let aggregation = checks.field(new, "aggregationRule");
    let selectors = aggregation.at("clusterRoleSelectors");
    if !aggregation.is_null() && is_empty(&selectors) {
        selectors
            .required("at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.items().enumerate() {
        let Ok(read) = LabelSelector::from_json(selector.value.clone()) else {
            continue;
        };
        let path = Path::ROOT.member("aggregationRule");
        let path = path.member("clusterRoleSelectors");
        let problems = validate_selector_at(&read, &path.item(index));
        if !problems.is_empty() {
            checks.extend(problems);
            selector.invalid_as("null", "invalid label selector.");
        }
    }
    checks.found()
}

/// Source: `ValidatePolicyRule`.
fn validate_rule(rule: &Field<'_>, is_namespaced: bool) {
    let [verbs, urls] = ["verbs", "nonResourceURLs"].map(|list| rule.at(list));
    let lists = ["apiGroups", "resources", "resourceNames"];
    let [groups, resources, names] = lists.map(|list| rule.at(list));
    if is_empty(&verbs) {
        verbs.required("verbs must contain at least one value");
    }
    if is_empty(&urls) {
        if is_empty(&groups) {
            groups.required("resource rules must supply at least one api group");
        }
        if is_empty(&resources) {
            resources.required("resource rules must supply at least one resource");
        }
        return;
    }
    if is_namespaced {
        urls.invalid("namespaced rules cannot apply to non-resource URLs");
    }
    if ![groups, resources, names].iter().all(is_empty) {
        urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
    }
}

fn is_empty(list: &Field<'_>) -> bool {
    list.items().next().is_none()
}

/// Source: `ValidateRoleBinding` and `ValidateClusterRoleBinding`.
fn validate_binding(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let is_namespaced = new.kind().is_namespaced();
    let role = checks.field(new, "roleRef");
    role.at("apiGroup").must_be_one_of(&[GROUP]);
    let kinds = ["Role", "ClusterRole"];
    role.at("kind")
        .must_be_one_of(&kinds[usize::from(!is_namespaced)..]);
    role.at("name").must_fit(names::path_segment);
    for subject in checks.field(new, "subjects").items() {
        validate_subject(&subject, is_namespaced);
    }
    if old.is_some_and(|old| checks.field(old, "roleRef").value != role.value) {
        role.invalid("cannot change roleRef");
    }
    checks.found()
}

/// Source: `ValidateRoleBindingSubject`.
fn validate_subject(subject: &Field<'_>, is_namespaced: bool) {
    let (kind, group) = (subject.at("kind"), subject.at("apiGroup"));
    match kind.text() {
        "ServiceAccount" => {
            subject.at("name").must_fit(names::dns_subdomain);
            group.must_be_one_of(&[""]);
            if !is_namespaced {
                subject.at("namespace").needs_text("");
            }
        }
        "User" | "Group" => {
            subject.at("name").needs_text("");
            group.must_be_one_of(&[GROUP]);
        }
        _ => {
            subject.at("name").needs_text("");
            kind.must_be_one_of(&["ServiceAccount", "User", "Group"]);
        }
    }
}

const BINDINGS: &[Column] = &[
    Column::NAME,
    column(
        "Role",
        Cell::Of(|binding, _| {
            let role = &binding["roleRef"];
            let part = |member: &str| role[member].as_str().unwrap_or("").to_owned();
            Value::from(format!("{}/{}", part("kind"), part("name")))
        }),
    ),
    Column::AGE,
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the causes for a new object of a kind, as `field: message`.
    fn causes(kind: &str, members: Value) -> Vec<String> {
        let kind = crate::kind_named(kind).expect("the kind is built in");
        let mut object = DynamicObject::new(kind);
        object.fields = members.as_object().expect("members").clone();
        let rules = kind.row().rules;
        (rules.default)(&mut object);
        let causes = (rules.validate)(&object, None).into_iter();
        causes
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    /// The expected messages are those of kube-apiserver 1.20.2, with lists as 1.36 prints them.
    #[test]
    fn a_rule_needs_verbs_and_resources_or_urls() {
        let verbs = "rules[0].verbs: Required value: verbs must contain at least one value";
        let groups =
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group";
        let resources =
            "rules[0].resources: Required value: resource rules must supply at least one resource";
        let both = "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular \
                    resources and non-resource URLs";
        let namespaced = "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to \
                          non-resource URLs";
        let whole = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "services"],
            "resourceNames": ["a"]});
        for (rule, of_all, of_namespace) in [
            (whole, vec![], vec![]),
            (json!({}), vec![verbs, groups, resources], vec![]),
            (
                json!({"verbs": ["get"], "apiGroups": [""]}),
                vec![resources],
                vec![],
            ),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}),
                vec![],
                vec![namespaced],
            ),
            (
                json!({"nonResourceURLs": ["/a"], "resourceNames": ["a"]}),
                vec![verbs, both],
                vec![namespaced],
            ),
        ] {
            let rules = json!({"rules": [rule]});
            assert_eq!(causes("ClusterRole", rules.clone()), of_all, "{rules}");
            let mut found = causes("Role", rules.clone());
            found.retain(|cause| !of_all.contains(&cause.as_str()));
            assert_eq!(found, of_namespace, "{rules}");
        }
    }

    #[test]
    fn an_aggregated_role_needs_valid_selectors() {
        let at = "aggregationRule.clusterRoleSelectors";
        let none = format!(
            "{at}: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
        );
        let broken = [
            format!(
                "{at}[1].matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator"
            ),
            format!("{at}[1]: Invalid value: \"null\": invalid label selector."),
        ];
        let with = |selectors: Value| {
            let rule = json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
            causes("ClusterRole", rule)
        };
        assert_eq!(with(json!([])), [none]);
        assert_eq!(with(json!([{"matchLabels": {"a": "b"}}])), [""; 0]);
        let is = json!({"matchExpressions": [{"key": "a", "operator": "Is", "values": ["x"]}]});
        assert_eq!(with(json!([{}, is])), broken);
    }

    #[test]
    fn a_binding_needs_a_role_and_valid_subjects() {
        let refs = |kind: &str, name: &str, subjects: Value| json!({"roleRef": {"kind": kind, "name": name}, "subjects": subjects});
        let all = json!([{}, {"kind": "ServiceAccount", "name": "a", "apiGroup": "x"}, {"kind": "User"},
            {"kind": "Group", "name": "g", "apiGroup": "x"}, {"kind": "Pod", "name": "p"}]);
        let kinds =
            "Unsupported value: \"Pod\": supported values: \"ServiceAccount\", \"User\", \"Group\"";
        let group = "Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"";
        let of_subjects = [
            "subjects[0].name: Required value".to_owned(),
            format!("subjects[0].kind: {}", kinds.replace("\"Pod\"", "\"\"")),
            "subjects[1].apiGroup: Unsupported value: \"x\": supported values: \"\"".to_owned(),
            "subjects[2].name: Required value".to_owned(),
            format!("subjects[3].apiGroup: {group}"),
            format!("subjects[4].kind: {kinds}"),
        ];
        assert_eq!(
            causes("RoleBinding", refs("Role", "a", all.clone())),
            of_subjects
        );
        let mut found = causes("ClusterRoleBinding", refs("Role", "a/b", all));
        found.retain(|cause| !of_subjects.contains(cause));
        let of_cluster = [
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
            "subjects[1].namespace: Required value",
        ];
        assert_eq!(found, of_cluster);
    }
}
