//! Jobs: defaults, the generated selector, and validation.

use podstorm_objects::{Cause, DynamicObject, LabelSelector, Labels, Map, Selector};
use serde_json::Value;

use super::job_policies::{self, NEEDS_INDEXES};
use super::template;
use crate::defaulting::{Fill, Within};
use crate::errors::{invalid_value, too_long};
use crate::internal;
use crate::validation::{Checks, Field, IMMUTABLE, names, validate_selector};

/// Sets the default values of a Job.
pub(super) fn default(job: &mut DynamicObject) {
    let labels = job
        .fields
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"));
    // A Job without labels gets those of its pods.
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
            spec.set_absent("completions", 1);
        }
        spec.set_absent("parallelism", 1);
        let each = spec
            .get("backoffLimitPerIndex")
            .is_some_and(|limit| !limit.is_null());
        let limit = if each { i64::from(i32::MAX) } else { 6 };
        spec.set_absent("backoffLimit", limit);
        spec.set_absent("completionMode", "NonIndexed");
        spec.set_absent("suspend", false);
        spec.set_absent("manualSelector", false);
        let of_failures = spec
            .get("podFailurePolicy")
            .is_some_and(|policy| !policy.is_null());
        let replaced = if of_failures {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        spec.set_absent("podReplacementPolicy", replaced);
        default_template(spec);
    });
}

/// Sets the default values of a spec that Jobs and CronJobs share.
pub(super) fn default_template(spec: &mut Map) {
    spec.with("podFailurePolicy", |policy| {
        policy.each("rules", |rule| {
            rule.each("onPodConditions", |condition| {
                condition.set("status", "True");
            });
        });
    });
    template::set_defaults(spec);
}

/// Gives a Job a selector that matches only its own pods, by the Job's UID, unless the user manages
/// the selector. Labels that the user has set stay, and validation reports the wrong ones.
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

/// The label that a Job's selector uses.
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// Returns the labels of a Job's pods. The labels without a domain are legacy labels.
fn own_labels<'v>(uid: &'v str, name: &'v str) -> [(&'static str, &'v str); 4] {
    [
        ("controller-uid", uid),
        ("job-name", name),
        (UID_LABEL, uid),
        ("batch.kubernetes.io/job-name", name),
    ]
}

/// Returns the rules that a Job breaks.
///
/// Source: `ValidateJob` and `ValidateJobUpdate` of Kubernetes' `pkg/apis/batch/validation`.
pub(super) fn validate(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    check_own_selector(new, &spec);
    let check = || {
        validate_spec(&spec);
        check_selector(&spec);
    };
    check();
    check_names_of_pods(new, &spec);
    if let Some(old) = old {
        // Sic: a changed spec is checked twice.
        check();
        check_update(&spec, old);
    }
    checks.found()
}

/// Checks the spec of a Job, or of the Jobs that a CronJob creates.
pub(super) fn validate_spec(spec: &Field<'_>) {
    for member in ["parallelism", "completions", "backoffLimit"] {
        spec.at(member).not_negative();
    }
    let has_failure_policy = !spec.value["podFailurePolicy"].is_null();
    template::validate_ending(&spec.at("template"), has_failure_policy);
    check_spec(spec);
    job_policies::check_success_policy(spec);
}

/// Checks that the pods of a Job have the generated labels, unless the selector is manual.
fn check_own_selector(job: &DynamicObject, spec: &Field<'_>) {
    let selector = spec.at("selector");
    if spec.value["manualSelector"] == true || selector.is_null() {
        return;
    }
    let (uid, name) = (job.metadata.uid.to_string(), job.metadata.name.as_str());
    let labels = spec.at("template").at("metadata").at("labels");
    let own = own_labels(&uid, name);
    // Jobs from Kubernetes 1.26 and older have only the legacy labels.
    let is_of_old =
        selector.value["matchLabels"][UID_LABEL].is_null() && labels.value[UID_LABEL].is_null();
    for (label, wanted) in own {
        let (field, detail) = (labels.key(label), format!("must be '{wanted}'"));
        if is_of_old && label.contains('/') {
            continue;
        }
        if field.is_null() {
            field.required(&detail);
        } else if *field.value != wanted {
            field.invalid_as(labels.value.clone(), detail);
        }
    }
    let fits = |found: Selector| found.matches(&Labels::from_pairs(own));
    if !compiled(selector.value).is_none_or(fits) {
        selector.invalid("`selector` not auto-generated");
    }
}

/// Checks that the selector of a Job matches the pods created from its template.
fn check_selector(spec: &Field<'_>) {
    let selector = spec.at("selector");
    let labels = spec.at("template").at("metadata").at("labels");
    match read(selector.value) {
        Some(selector) => spec.checks.extend(validate_selector(&selector)),
        None => selector.required(""),
    }
    let of_pods = Labels::from_json(labels.value.clone()).unwrap_or_default();
    let finds = |found: Selector| !selector.is_null() && found.matches(&of_pods);
    // The check above reports an unreadable selector.
    if !compiled(selector.value).is_none_or(finds) {
        labels.invalid("`selector` does not match template `labels`");
    }
}

fn read(selector: &Value) -> Option<LabelSelector> {
    let read = LabelSelector::from_json(selector.clone()).ok();
    read.filter(|_| !selector.is_null())
}

/// Returns the compiled selector; `None` if it is invalid.
fn compiled(selector: &Value) -> Option<Selector> {
    Selector::compile(read(selector).as_ref()).ok()
}

/// Checks the host names of an indexed Job's pods, which end with the indexes.
fn check_names_of_pods(job: &DynamicObject, spec: &Field<'_>) {
    let completions = spec.at("completions").number();
    if spec.value["completionMode"] != "Indexed" || completions <= 0 {
        return;
    }
    let name = job.metadata.name.as_str();
    let longest = format!("{name}-{}", completions - 1);
    if names::dns_label(&longest).is_some() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        let cause = invalid_value("metadata.name", &name.into(), &detail);
        spec.checks.push(cause);
    }
}

/// Checks the changes to a Job. Numbers may change and, before a suspended Job starts, the
/// scheduling directives of its template.
fn check_update(spec: &Field<'_>, old: &DynamicObject) {
    let before = spec.checks.field(old, "spec").value;
    let completions = spec.at("completions");
    if spec.value["completionMode"] != "Indexed" {
        completions.unchanged(&before["completions"]);
    } else if *completions.value != before["completions"]
        && !completions.is_null()
        && *completions.value != spec.value["parallelism"]
    {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
    spec.at("selector").unchanged(&before["selector"]);
    let started = old.fields.get("status").map(|status| &status["startTime"]);
    let waits = before["suspend"] == true && started.is_none_or(Value::is_null);
    let mut old_template = before["template"].clone();
    let template = spec.at("template");
    if waits {
        put_directives(&mut old_template, template.value);
    }
    // Errors quote values with the fields of upstream's internal types.
    let fixed = |field: Field<'_>, before: &Value, quoted: &dyn Fn(&Value) -> String| {
        if field.value != before {
            let shown = quoted(field.value);
            spec.checks
                .push(internal::invalid_as(field.path, &shown, IMMUTABLE));
        }
    };
    let of = |name: &'static str| move |value: &Value| internal::quoted(value, name);
    match waits {
        true => fixed(template.at("spec"), &old_template["spec"], &of("PodSpec")),
        false => fixed(template, &old_template, &internal::template),
    }
    spec.at("completionMode")
        .unchanged(&before["completionMode"]);
    let policy = "podFailurePolicy";
    fixed(spec.at(policy), &before[policy], &of("PodFailurePolicy"));
    for member in ["backoffLimitPerIndex", "managedBy"] {
        spec.at(member).unchanged(&before[member]);
    }
    let policy = "successPolicy";
    fixed(spec.at(policy), &before[policy], &of("SuccessPolicy"));
}

/// Copies the scheduling directives and resources of a new template into an old one.
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

/// Checks how a Job handles failed and successful pods, its cleanup, and its indexes.
fn check_spec(spec: &Field<'_>) {
    const MANAGER_BYTES_MAX: usize = 63;
    for member in [
        "parallelism",
        "completions",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "ttlSecondsAfterFinished",
    ] {
        spec.at(member).fits_32_bits();
    }
    let (mode, completions) = (spec.at("completionMode"), spec.at("completions"));
    let is_indexed = mode.text() == "Indexed";
    for member in [
        "activeDeadlineSeconds",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "ttlSecondsAfterFinished",
    ] {
        spec.at(member).not_negative();
    }
    mode.one_of(&["NonIndexed", "Indexed"]);
    if is_indexed && completions.value.as_i64().is_none() {
        completions.required("when completion mode is Indexed");
    }
    let (per_index, most) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    if !most.is_null() && per_index.is_null() {
        per_index.required("when maxFailedIndexes is specified");
    }
    if is_indexed {
        check_numbers_of_indexes(spec);
    } else {
        for field in [&per_index, &most] {
            if !field.is_null() {
                field.invalid(NEEDS_INDEXES);
            }
        }
    }
    let of_failures = spec.at("podFailurePolicy");
    job_policies::check_failure_policy(&of_failures, spec);
    let replacements: &[&str] = match of_failures.is_null() {
        true => &["Failed", "TerminatingOrFailed"],
        false => &["Failed"],
    };
    spec.at("podReplacementPolicy").one_of(replacements);
    let manager = spec.at("managedBy");
    if let Some(name) = manager.value.as_str()
        && (!name.contains('/') || names::qualified_name(name).is_some())
    {
        manager.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    if manager.text().len() > MANAGER_BYTES_MAX {
        let cause = too_long(manager.path.as_str(), MANAGER_BYTES_MAX);
        spec.checks.push(cause);
    }
}

/// Checks the limits on an indexed Job's parallelism and failures, which keep its status small.
fn check_numbers_of_indexes(spec: &Field<'_>) {
    const PARALLELISM_MAX: i64 = 100_000;
    const FAILED_MAX: i64 = 100_000;
    const MANY: i64 = 100_000;
    const OF_MANY_MAX: i64 = 10_000;
    let completions = spec.at("completions");
    let (parallelism, most) = (spec.at("parallelism"), spec.at("maxFailedIndexes"));
    let at_most = |field: &Field<'_>, limit: i64, when: &str| {
        if field.number() > limit {
            field.invalid(format!("must be less than or equal to {limit}{when}"));
        }
    };
    let indexed = " when completion mode is Indexed";
    at_most(&parallelism, PARALLELISM_MAX, indexed);
    if completions
        .value
        .as_i64()
        .is_some_and(|it| most.number() > it)
    {
        most.invalid("must be less than or equal to completions");
    }
    at_most(&most, FAILED_MAX, "");
    if completions.number() > MANY && !spec.at("backoffLimitPerIndex").is_null() {
        if most.is_null() {
            most.required(&format!(
                "must be specified when completions is above {MANY}"
            ));
        }
        let many =
            format!(" when completions are above {MANY} and used with backoff limit per index");
        at_most(&parallelism, OF_MANY_MAX, &many);
        at_most(&most, OF_MANY_MAX, &many);
    }
}
