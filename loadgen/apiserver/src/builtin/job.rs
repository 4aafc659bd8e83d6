//! Jobs: defaults, the selector that a Job is given, and its rules.

use podstorm_objects::cells::{items, number, text};
use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, DynamicObject, LabelSelector, Labels, Map, Selector};
use serde_json::Value;

use super::batch::not_negative;
use super::{indexes, template};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{invalid_value, not_supported, required};
use crate::internal;
use crate::validation::{dns_label_problem, qualified_name_problem, validate_selector};

/// Sets what a Job leaves out.
pub(super) fn default(job: &mut DynamicObject) {
    let labels = job
        .fields
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"));
    // A job without labels has those of its pods.
    if job.metadata.labels.is_empty()
        && let Some(labels) = labels.and_then(Value::as_object)
    {
        for (name, label) in labels {
            job.metadata.labels = job.metadata.labels.with(name, label.as_str().unwrap_or(""));
        }
    }
    job.fields.within("spec", |spec| {
        let is_absent = |member| spec.get(member).is_none_or(Value::is_null);
        if is_absent("parallelism") && is_absent("completions") {
            spec.set_absent("completions", DefaultValue::Number(1));
        }
        spec.set_absent("parallelism", DefaultValue::Number(1));
        let each = spec
            .get("backoffLimitPerIndex")
            .is_some_and(|limit| !limit.is_null());
        let limit = if each { i64::from(i32::MAX) } else { 6 };
        spec.set_absent("backoffLimit", DefaultValue::Number(limit));
        spec.set_absent("completionMode", DefaultValue::Text("NonIndexed"));
        spec.set_absent("suspend", DefaultValue::False);
        spec.set_absent("manualSelector", DefaultValue::False);
        let of_failures = spec
            .get("podFailurePolicy")
            .is_some_and(|policy| !policy.is_null());
        let replaced = if of_failures {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        spec.set_absent("podReplacementPolicy", DefaultValue::Text(replaced));
        spec.with("podFailurePolicy", |policy| {
            policy.each("rules", |rule| {
                rule.each("onPodConditions", |condition| {
                    condition.set("status", DefaultValue::Text("True"));
                });
            });
        });
        template::set_defaults(spec);
    });
}

/// Gives a Job, unless its selector is the user's own, one that finds its pods alone: by the Job's
/// UID. What the user has set stays, and the rules tell where it is wrong.
///
/// Source: `generateSelector` in Kubernetes' `pkg/registry/batch/job`.
pub(super) fn select_own_pods(job: &mut DynamicObject) {
    let (uid, name) = (job.metadata.uid.to_string(), job.metadata.name.to_string());
    job.fields.within("spec", |spec| {
        if spec.is_true("manualSelector") {
            return;
        }
        spec.within("template", |template| {
            template.within("metadata", |metadata| {
                metadata.within("labels", |labels| {
                    for (label, value) in own_labels(&uid, &name) {
                        labels.entry(label).or_insert_with(|| value.into());
                    }
                });
            });
        });
        spec.within("selector", |selector| {
            selector.within("matchLabels", |labels| {
                labels
                    .entry(UID_LABEL)
                    .or_insert_with(|| uid.as_str().into());
            });
        });
    });
}

/// The label by which a Job finds its pods.
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// The labels of a Job's pods. Those without a domain are of old.
fn own_labels<'v>(uid: &'v str, name: &'v str) -> [(&'static str, &'v str); 4] {
    [
        ("controller-uid", uid),
        ("job-name", name),
        (UID_LABEL, uid),
        ("batch.kubernetes.io/job-name", name),
    ]
}

/// The rules that a Job breaks.
///
/// Source: `ValidateJob` and `ValidateJobUpdate` of Kubernetes' `pkg/apis/batch/validation`.
pub(super) fn validate(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let spec = new.fields.get("spec").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    check_own_selector(new, &spec, &mut causes);
    not_negative(
        &spec,
        "spec",
        &["parallelism", "completions", "backoffLimit"],
        &mut causes,
    );
    let path = Path::ROOT.member("spec");
    template::validate_ending(&spec["template"], &path.member("template"), &mut causes);
    check_spec(&spec, &mut causes);
    check_success_policy(&spec, &mut causes);
    check_selector(&spec, &mut causes);
    check_names_of_pods(new, &spec, &mut causes);
    if let Some(old) = old {
        check_update(&spec, old, &mut causes);
    }
    causes
}

/// The labels of a Job's pods are the Job's own, unless it selects by hand.
fn check_own_selector(job: &DynamicObject, spec: &Value, causes: &mut Vec<Cause>) {
    let selector = &spec["selector"];
    if spec["manualSelector"] == true || selector.is_null() {
        return;
    }
    let (uid, name) = (job.metadata.uid.to_string(), job.metadata.name.as_str());
    let labels = &spec["template"]["metadata"]["labels"];
    let at = "spec.template.metadata.labels";
    let own = own_labels(&uid, name);
    for (label, wanted) in own {
        if labels[label].is_null() {
            causes.push(required(
                format!("{at}[{label}]"),
                &format!("must be '{wanted}'"),
            ));
        } else if labels[label] != wanted {
            let detail = format!("must be '{wanted}'");
            causes.push(invalid_value(format!("{at}[{label}]"), labels, &detail));
        }
    }
    let fits = compiled(selector).is_none_or(|found| found.matches(&Labels::from_pairs(own)));
    if !fits {
        let detail = "`selector` not auto-generated";
        causes.push(invalid_value("spec.selector", selector, detail));
    }
}

/// The selector of a Job finds the pods that its template makes.
fn check_selector(spec: &Value, causes: &mut Vec<Cause>) {
    let (selector, labels) = (&spec["selector"], &spec["template"]["metadata"]["labels"]);
    match read(selector) {
        Some(selector) => causes.extend(validate_selector(&selector)),
        None => causes.push(required("spec.selector", "")),
    }
    let of_pods = Labels::from_json(labels.clone()).unwrap_or_default();
    let finds = |found: Selector| !selector.is_null() && found.matches(&of_pods);
    // One that can't be read was told above.
    if !compiled(selector).is_none_or(finds) {
        let detail = "`selector` does not match template `labels`";
        causes.push(invalid_value(
            "spec.template.metadata.labels",
            labels,
            detail,
        ));
    }
}

fn read(selector: &Value) -> Option<LabelSelector> {
    let read = LabelSelector::from_json(selector.clone()).ok();
    read.filter(|_| !selector.is_null())
}

/// `None` for a selector that can't be one.
fn compiled(selector: &Value) -> Option<Selector> {
    Selector::compile(read(selector).as_ref()).ok()
}

/// The pods of an indexed Job have host names with their indexes.
fn check_names_of_pods(job: &DynamicObject, spec: &Value, causes: &mut Vec<Cause>) {
    let completions = spec["completions"].as_i64().unwrap_or(0);
    if spec["completionMode"] != "Indexed" || completions <= 0 {
        return;
    }
    let name = job.metadata.name.as_str();
    let longest = format!("{name}-{}", completions - 1);
    if dns_label_problem(&longest).is_some() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        causes.push(invalid_value("metadata.name", &name.into(), &detail));
    }
}

/// What may change of a Job: all numbers, and while it waits to be started, where its pods may run.
fn check_update(spec: &Value, old: &DynamicObject, causes: &mut Vec<Cause>) {
    const IMMUTABLE: &str = "field is immutable";
    let before = old.fields.get("spec").cloned().unwrap_or_default();
    let mut fixed = vec![
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ];
    if spec["completionMode"] != "Indexed" {
        fixed.push("completions");
    } else if spec["completions"] != before["completions"]
        && !spec["completions"].is_null()
        && spec["completions"] != spec["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        causes.push(invalid_value(
            "spec.completions",
            &spec["completions"],
            detail,
        ));
    }
    for member in fixed {
        if spec[member] == before[member] {
            continue;
        }
        let field = format!("spec.{member}");
        causes.push(match member {
            "successPolicy" => {
                internal::invalid(field, (&spec[member], "SuccessPolicy"), IMMUTABLE)
            }
            "podFailurePolicy" => {
                internal::invalid(field, (&spec[member], "PodFailurePolicy"), IMMUTABLE)
            }
            _ => invalid_value(field, &spec[member], IMMUTABLE),
        });
    }
    let started = old.fields.get("status").map(|status| &status["startTime"]);
    let waits = before["suspend"] == true && started.is_none_or(Value::is_null);
    let mut template = before["template"].clone();
    if waits {
        put_directives(&mut template, &spec["template"]);
    }
    if spec["template"]["spec"] != template["spec"] {
        let value = (&spec["template"]["spec"], "PodSpec");
        causes.push(internal::invalid("spec.template.spec", value, IMMUTABLE));
    }
    if spec["template"]["metadata"] != template["metadata"] {
        let value = &spec["template"]["metadata"];
        causes.push(invalid_value("spec.template.metadata", value, IMMUTABLE));
    }
}

/// Puts the members of a new template that say where pods may run, and with how much, into an old one.
fn put_directives(old: &mut Value, new: &Value) {
    fn put(old: &mut Value, new: &Value, member: &str) {
        match &new[member] {
            Value::Null => {
                if let Value::Object(old) = old {
                    old.remove(member);
                }
            }
            value => old[member] = value.clone(),
        }
    }
    put(old, new, "metadata");
    for member in ["nodeSelector", "tolerations", "schedulingGates"] {
        put(&mut old["spec"], &new["spec"], member);
    }
    let affinity = &new["spec"]["affinity"];
    if !affinity.is_null() || !old["spec"]["affinity"].is_null() {
        put(&mut old["spec"]["affinity"], affinity, "nodeAffinity");
        let is_empty = old["spec"]["affinity"]
            .as_object()
            .is_none_or(Map::is_empty);
        if is_empty && affinity.is_null() {
            put(&mut old["spec"], &Value::Null, "affinity");
        }
    }
    for list in ["containers", "initContainers"] {
        let new = new["spec"][list].as_array().into_iter().flatten();
        let old = old["spec"].get_mut(list).and_then(Value::as_array_mut);
        for (old, new) in old.into_iter().flatten().zip(new) {
            put(old, new, "resources");
        }
    }
}

/// When an indexed Job counts as done before all of its pods are.
fn check_success_policy(spec: &Value, causes: &mut Vec<Cause>) {
    const RULES_MAX: usize = 20;
    let policy = &spec["successPolicy"];
    if policy.is_null() {
        return;
    }
    if spec["completionMode"] != "Indexed" {
        let value = (policy, "SuccessPolicy");
        let detail = "requires indexed completion mode";
        causes.push(internal::invalid("spec.successPolicy", value, detail));
        return;
    }
    let at = "spec.successPolicy.rules";
    let count = items(policy, "/rules").count();
    if count == 0 {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        causes.push(required(at, detail));
    }
    if count > RULES_MAX {
        causes.push(Cause {
            reason: "FieldValueTooMany".to_owned(),
            message: format!("Too many: {count}: must have at most {RULES_MAX} items"),
            field: at.to_owned(),
        });
    }
    let completions = number(spec, "/completions");
    for (index, rule) in items(policy, "/rules").enumerate() {
        check_success_rule(rule, &format!("{at}[{index}]"), completions, causes);
    }
}

fn check_success_rule(rule: &Value, at: &str, completions: i64, causes: &mut Vec<Cause>) {
    const INDEXES_BYTES_MAX: usize = 64 << 10;
    let (indexes, count) = (
        rule["succeededIndexes"].as_str(),
        rule["succeededCount"].as_i64(),
    );
    if indexes.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        causes.push(required(at, detail));
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let field = format!("{at}.succeededIndexes");
        if indexes.len() > INDEXES_BYTES_MAX {
            causes.push(Cause {
                reason: "FieldValueTooLong".to_owned(),
                message: format!("Too long: may not be more than {INDEXES_BYTES_MAX} bytes"),
                field: field.clone(),
            });
        }
        match indexes::count(indexes, completions) {
            Ok(count) => total = count,
            Err(problem) => {
                let detail = format!("error parsing succeededIndexes: {problem}");
                causes.push(invalid_value(field, &indexes.into(), &detail));
            }
        }
    }
    let Some(count) = count else { return };
    let mut wrong = |detail: &str| {
        causes.push(invalid_value(
            format!("{at}.succeededCount"),
            &count.into(),
            detail,
        ));
    };
    if count < 0 {
        wrong("must be greater than or equal to 0");
    }
    if count > completions {
        wrong(&format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        ));
    }
    if indexes.is_some() && count > total {
        wrong(&format!(
            "must be less than or equal to {total} (the number of indexes in the specified \
             succeededIndexes field)"
        ));
    }
}

/// The rules of what a Job does when its pods fail, succeed or end, and of its indexes.
fn check_spec(spec: &Value, causes: &mut Vec<Cause>) {
    const PARALLELISM_MAX: i64 = 100_000;
    let is_indexed = spec["completionMode"] == "Indexed";
    let completions = spec["completions"].as_i64();
    not_negative(
        spec,
        "spec",
        &[
            "activeDeadlineSeconds",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
            "ttlSecondsAfterFinished",
        ],
        causes,
    );
    check_choice(spec, "completionMode", &["NonIndexed", "Indexed"], causes);
    if is_indexed && completions.is_none() {
        let detail = "when completion mode is Indexed";
        causes.push(required("spec.completions", detail));
    }
    let parallelism = number(spec, "/parallelism");
    if is_indexed && parallelism > PARALLELISM_MAX {
        let detail = format!(
            "must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed"
        );
        causes.push(invalid_value(
            "spec.parallelism",
            &parallelism.into(),
            &detail,
        ));
    }
    let per_index = &spec["backoffLimitPerIndex"];
    if !per_index.is_null() && !is_indexed {
        let detail = "requires indexed completion mode";
        causes.push(invalid_value(
            "spec.backoffLimitPerIndex",
            per_index,
            detail,
        ));
    }
    if let Some(most) = spec["maxFailedIndexes"].as_i64() {
        let field = "spec.maxFailedIndexes";
        if per_index.is_null() {
            let detail = "requires indexed completion mode";
            let detail = if is_indexed {
                "when backoffLimitPerIndex is specified"
            } else {
                detail
            };
            causes.push(invalid_value(field, &most.into(), detail));
        } else if completions.is_some_and(|completions| most > completions) {
            let detail = "must be less than or equal to completions";
            causes.push(invalid_value(field, &most.into(), detail));
        }
    }
    let of_failures = &spec["podFailurePolicy"];
    for (index, rule) in items(spec, "/podFailurePolicy/rules").enumerate() {
        let at = format!("spec.podFailurePolicy.rules[{index}]");
        check_failure_rule(rule, &at, per_index.is_null(), causes);
    }
    let replacements: &[&str] = match of_failures.is_null() {
        true => &["Failed", "TerminatingOrFailed"],
        false => &["Failed"],
    };
    check_choice(spec, "podReplacementPolicy", replacements, causes);
    if let Some(manager) = spec["managedBy"].as_str()
        && (!manager.contains('/') || qualified_name_problem(manager).is_some())
    {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        causes.push(invalid_value("spec.managedBy", &manager.into(), detail));
    }
}

fn check_choice(spec: &Value, member: &str, choices: &[&str], causes: &mut Vec<Cause>) {
    if let Some(value) = spec[member].as_str()
        && !choices.contains(&value)
    {
        causes.push(not_supported(format!("spec.{member}"), value, choices));
    }
}

/// The rules of one rule of a policy on failed pods.
fn check_failure_rule(rule: &Value, at: &str, lacks_limit: bool, causes: &mut Vec<Cause>) {
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    let action = text(rule, "/action");
    let field = format!("{at}.action");
    if action.is_empty() {
        causes.push(required(
            &field,
            "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
        ));
    } else if !actions.contains(&action) {
        causes.push(not_supported(&field, action, &actions));
    } else if action == "FailIndex" && lacks_limit {
        let detail = "requires the backoffLimitPerIndex to be set";
        causes.push(invalid_value(&field, &action.into(), detail));
    }
    let (codes, conditions) = (
        &rule["onExitCodes"],
        items(rule, "/onPodConditions").count(),
    );
    let problem = match (codes.is_object(), conditions) {
        (true, 1..) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, 0) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => "",
    };
    if !problem.is_empty() {
        // The problem stands where a value would.
        causes.push(Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {problem}"),
            field: at.to_owned(),
        });
    }
    if !codes.is_object() {
        return;
    }
    let at = format!("{at}.onExitCodes");
    let operators = ["In", "NotIn"];
    let operator = text(codes, "/operator");
    if !operators.contains(&operator) {
        causes.push(not_supported(
            format!("{at}.operator"),
            operator,
            &operators,
        ));
    }
    let values = codes["values"].as_array().cloned().unwrap_or_default();
    if values.is_empty() {
        let none = Value::Array(Vec::new());
        let detail = "at least one value is required";
        causes.push(invalid_value(format!("{at}.values"), &none, detail));
    }
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && value.as_i64() == Some(0) {
            let field = format!("{at}.values[{index}]");
            let detail = "must not be 0 for the In operator";
            causes.push(invalid_value(field, value, detail));
        }
    }
}
