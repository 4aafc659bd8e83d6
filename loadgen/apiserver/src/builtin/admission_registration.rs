//! `admissionregistration.k8s.io`: admission webhooks and policies. They are stored but never
//! called or evaluated; the response to a create warns about that.
//!
//! Source: `pkg/registry/admissionregistration` and `pkg/apis/admissionregistration` of Kubernetes.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Map, MetadataChecks, ResourceType, Rules, Warnings,
};
use serde_json::Value;

use super::columns::column;
use super::members::missing;
use crate::defaulting::{Fill, Within};
use crate::validation::Checks;

const REGISTRATION: ResourceType = ResourceType {
    group: "admissionregistration.k8s.io",
    api_version: "admissionregistration.k8s.io/v1",
    namespaced: false,
    has_generation: true,
    needs_version: true,
    categories: &["api-extensions"],
    metadata_checks: MetadataChecks::BOTH,
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 6] = [
    ResourceType {
        kind: "MutatingWebhookConfiguration",
        resource: "mutatingwebhookconfigurations",
        columns: WEBHOOKS,
        rules: Rules {
            default: |hooks| {
                default_hooks(&mut hooks.fields);
                hooks.fields.each("webhooks", |hook| {
                    hook.set_absent("reinvocationPolicy", "Never");
                });
            },
            validate: |hooks, _| validate_hooks(hooks),
            warnings: &HOOKS_ARE_NOT_CALLED,
            ..Rules::NONE
        },
        ..REGISTRATION
    },
    ResourceType {
        kind: "ValidatingWebhookConfiguration",
        resource: "validatingwebhookconfigurations",
        columns: WEBHOOKS,
        rules: Rules {
            default: |hooks| default_hooks(&mut hooks.fields),
            validate: |hooks, _| validate_hooks(hooks),
            warnings: &HOOKS_ARE_NOT_CALLED,
            ..Rules::NONE
        },
        ..REGISTRATION
    },
    ResourceType {
        kind: "MutatingAdmissionPolicy",
        resource: "mutatingadmissionpolicies",
        columns: MUTATING_POLICY,
        rules: Rules {
            default: |policy| policy.fields.within("spec", default_policy),
            validate: |policy, _| {
                let paths = [
                    "spec.matchConstraints",
                    "spec.mutations",
                    "spec.reinvocationPolicy",
                ];
                missing(policy, &paths)
            },
            ..Rules::NONE
        },
        ..REGISTRATION
    },
    ResourceType {
        kind: "MutatingAdmissionPolicyBinding",
        resource: "mutatingadmissionpolicybindings",
        columns: BINDING,
        rules: Rules {
            default: |binding| binding.fields.within("spec", default_binding),
            validate: |binding, _| missing(binding, &["spec.policyName"]),
            warnings: &POLICIES_ARE_NOT_APPLIED,
            ..Rules::NONE
        },
        ..REGISTRATION
    },
    ResourceType {
        kind: "ValidatingAdmissionPolicy",
        resource: "validatingadmissionpolicies",
        has_status: true,
        columns: VALIDATING_POLICY,
        rules: Rules {
            default: |policy| policy.fields.within("spec", default_policy),
            validate: |policy, _| {
                missing(
                    policy,
                    &["spec.matchConstraints", "spec.validations[].expression"],
                )
            },
            ..Rules::NONE
        },
        ..REGISTRATION
    },
    ResourceType {
        kind: "ValidatingAdmissionPolicyBinding",
        resource: "validatingadmissionpolicybindings",
        columns: BINDING,
        rules: Rules {
            default: |binding| binding.fields.within("spec", default_binding),
            validate: |binding, _| missing(binding, &["spec.policyName", "spec.validationActions"]),
            warnings: &POLICIES_ARE_NOT_APPLIED,
            ..Rules::NONE
        },
        ..REGISTRATION
    },
];

const HOOKS_ARE_NOT_CALLED: Warnings = Warnings {
    written: |_| {
        let text = "podstorm: webhooks are stored but not consulted when objects are written";
        vec![text.to_owned()]
    },
    ..Warnings::NONE
};

const POLICIES_ARE_NOT_APPLIED: Warnings = Warnings {
    written: |_| {
        let text = "podstorm: admission policies are stored but not consulted when objects are \
                    written";
        vec![text.to_owned()]
    },
    ..Warnings::NONE
};

fn default_hooks(fields: &mut Map) {
    fields.each("webhooks", |hook| {
        hook.set_absent("failurePolicy", "Fail");
        hook.set_absent("timeoutSeconds", 10);
        default_match(hook, "rules");
        hook.with("clientConfig", |client| {
            client.with("service", |service| {
                service.set_absent("port", 443);
            });
        });
    });
}

fn default_policy(spec: &mut Map) {
    spec.set_absent("failurePolicy", "Fail");
    spec.with("matchConstraints", |matched| {
        default_match(matched, "resourceRules")
    });
}

fn default_binding(spec: &mut Map) {
    spec.with("matchResources", |matched| {
        default_match(matched, "resourceRules")
    });
}

/// Sets the defaults of the fields that select requests.
fn default_match(matched: &mut Map, rules: &str) {
    matched.set_absent("matchPolicy", "Equivalent");
    for selector in ["namespaceSelector", "objectSelector"] {
        matched.set_absent(selector, Map::new());
    }
    matched.each(rules, |rule| rule.set_absent("scope", "*"));
}

fn validate_hooks(hooks: &DynamicObject) -> Vec<Cause> {
    const NEEDED: [&str; 4] = [
        "webhooks[].name",
        "webhooks[].admissionReviewVersions",
        "webhooks[].sideEffects",
        "webhooks[].clientConfig",
    ];
    let checks = Checks::default();
    checks.extend(missing(hooks, &NEEDED));
    for hook in checks.field(hooks, "webhooks").items() {
        let effects = hook.at("sideEffects");
        if !effects.text().is_empty() {
            effects.one_of(&["None", "NoneOnDryRun"]);
        }
    }
    checks.found()
}

const WEBHOOKS: &[Column] = &[
    Column::NAME,
    column(
        "Webhooks",
        Cell::Of(|hooks, _| items(hooks, "/webhooks").count().into()),
    )
    .of_type("integer"),
    Column::AGE,
];

const PARAM_KIND: Column = column(
    "ParamKind",
    Cell::Of(|policy, _| match &policy["spec"]["paramKind"] {
        Value::Null => "<unset>".into(),
        kind => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")).into(),
    }),
);

const VALIDATING_POLICY: &[Column] = &[
    Column::NAME,
    column(
        "Validations",
        Cell::Of(|policy, _| items(policy, "/spec/validations").count().into()),
    )
    .of_type("integer"),
    PARAM_KIND,
    Column::AGE,
];

const MUTATING_POLICY: &[Column] = &[
    Column::NAME,
    column(
        "Mutations",
        Cell::Of(|policy, _| items(policy, "/spec/mutations").count().into()),
    )
    .of_type("integer"),
    PARAM_KIND,
    Column::AGE,
];

const BINDING: &[Column] = &[
    Column::NAME,
    column("PolicyName", Cell::TextOrEmpty("/spec/policyName")),
    column(
        "ParamRef",
        Cell::Of(|binding, _| match &binding["spec"]["paramRef"] {
            Value::Null => "<unset>".into(),
            param => match (text(param, "/namespace"), text(param, "/name")) {
                ("", name) => format!("*/{name}").into(),
                (namespace, name) => format!("{namespace}/{name}").into(),
            },
        }),
    ),
    Column::AGE,
];
