//! `admissionregistration.k8s.io`: webhooks and policies of admission. Stored; none is called or evaluated,
//! which the answer to a create warns of.
//!
//! Source: `pkg/registry/admissionregistration` and `pkg/apis/admissionregistration` of Kubernetes.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Map, MetadataChecks, ResourceType, Rules,
};
use serde_json::Value;

use super::members::missing;
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::not_supported;

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
                    hook.set_absent("reinvocationPolicy", DefaultValue::Text("Never"));
                });
            },
            validate: |hooks, _| validate_hooks(hooks),
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
            new_status: "{}",
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
            ..Rules::NONE
        },
        ..REGISTRATION
    },
];

fn default_hooks(fields: &mut Map) {
    fields.each("webhooks", |hook| {
        hook.set_absent("failurePolicy", DefaultValue::Text("Fail"));
        hook.set_absent("timeoutSeconds", DefaultValue::Number(10));
        default_match(hook, "rules");
        hook.with("clientConfig", |client| {
            client.with("service", |service| {
                service.set_absent("port", DefaultValue::Number(443));
            });
        });
    });
}

fn default_policy(spec: &mut Map) {
    spec.set_absent("failurePolicy", DefaultValue::Text("Fail"));
    spec.with("matchConstraints", |matched| {
        default_match(matched, "resourceRules")
    });
}

fn default_binding(spec: &mut Map) {
    spec.with("matchResources", |matched| {
        default_match(matched, "resourceRules")
    });
}

/// What requests are matched by.
fn default_match(matched: &mut Map, rules: &str) {
    matched.set_absent("matchPolicy", DefaultValue::Text("Equivalent"));
    for selector in ["namespaceSelector", "objectSelector"] {
        matched.set_absent(selector, DefaultValue::EmptyObject);
    }
    matched.each(rules, |rule| {
        rule.set_absent("scope", DefaultValue::Text("*"))
    });
}

fn validate_hooks(hooks: &DynamicObject) -> Vec<Cause> {
    const EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
    let mut causes = missing(
        hooks,
        &[
            "webhooks[].name",
            "webhooks[].admissionReviewVersions",
            "webhooks[].sideEffects",
            "webhooks[].clientConfig",
        ],
    );
    let all = hooks.fields.get("webhooks").and_then(Value::as_array);
    for (index, hook) in all.into_iter().flatten().enumerate() {
        let effects = text(hook, "/sideEffects");
        if !effects.is_empty() && !EFFECTS.contains(&effects) {
            let field = format!("webhooks[{index}].sideEffects");
            causes.push(not_supported(field, effects, &EFFECTS));
        }
    }
    causes
}

const WEBHOOKS: &[Column] = &[
    Column::NAME,
    Column::new(
        "Webhooks",
        "Webhooks indicates the number of webhooks registered in this configuration",
        Cell::Of(|hooks, _| items(hooks, "/webhooks").count().into()),
    )
    .of_type("integer"),
    Column::AGE,
];

const PARAM_KIND: Column = Column::new(
    "ParamKind",
    "ParamKind specifies the kind of resources used to parameterize this policy",
    Cell::Of(|policy, _| match &policy["spec"]["paramKind"] {
        Value::Null => "<unset>".into(),
        kind => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")).into(),
    }),
);

const VALIDATING_POLICY: &[Column] = &[
    Column::NAME,
    Column::new(
        "Validations",
        "Validations indicates the number of validation rules defined in this configuration",
        Cell::Of(|policy, _| items(policy, "/spec/validations").count().into()),
    )
    .of_type("integer"),
    PARAM_KIND,
    Column::AGE,
];

const MUTATING_POLICY: &[Column] = &[
    Column::NAME,
    Column::new(
        "Mutations",
        "Mutation indicates the number of mutations rules defined in this configuration",
        Cell::Of(|policy, _| items(policy, "/spec/mutations").count().into()),
    )
    .of_type("integer"),
    PARAM_KIND,
    Column::AGE,
];

const BINDING: &[Column] = &[
    Column::NAME,
    Column::new(
        "PolicyName",
        "PolicyName indicates the policy definition which the policy binding binded to",
        Cell::TextOrEmpty("/spec/policyName"),
    ),
    Column::new(
        "ParamRef",
        "ParamRef indicates the param resource which sets the configration param",
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
