//! `batch/v1`: Jobs and CronJobs.

use podstorm_objects::cells::{containers, items, number, selector, since, text};
use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, Cell, Column, DynamicObject, Now, ResourceType, Rules, Time};
use serde_json::{Value, json};

use super::{schedule, template};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{invalid_value, not_supported, required};
use crate::validation::qualified_name_problem;

const BATCH: ResourceType = ResourceType {
    group: "batch",
    api_version: "batch/v1",
    has_status: true,
    has_generation: true,
    categories: &["all"],
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 2] = [
    ResourceType {
        kind: "Job",
        resource: "jobs",
        orphans_dependents: true,
        selectable: &["status.successful"],
        columns: JOB,
        rules: Rules {
            default: default_job,
            complete: |job, _| select_own_pods(job),
            validate: validate_job,
            new_status: "{}",
            ..Rules::NONE
        },
        ..BATCH
    },
    ResourceType {
        kind: "CronJob",
        resource: "cronjobs",
        short_names: &["cj"],
        columns: CRON_JOB,
        rules: Rules {
            default: default_cron_job,
            validate: validate_cron_job,
            new_status: "{}",
            ..Rules::NONE
        },
        ..BATCH
    },
];

fn default_job(job: &mut DynamicObject) {
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
        template::set_defaults(spec);
    });
}

fn default_cron_job(job: &mut DynamicObject) {
    job.fields.within("spec", |spec| {
        spec.set("concurrencyPolicy", DefaultValue::Text("Allow"));
        spec.set_absent("suspend", DefaultValue::False);
        spec.set_absent("successfulJobsHistoryLimit", DefaultValue::Number(3));
        spec.set_absent("failedJobsHistoryLimit", DefaultValue::Number(1));
        spec.with("jobTemplate", |job| {
            job.with("spec", template::set_defaults);
        });
    });
}

/// Gives a Job, unless its selector is the user's own, one that finds its pods alone: by the Job's
/// UID.
///
/// Source: `generateSelector` in Kubernetes' `pkg/registry/batch/job`.
fn select_own_pods(job: &mut DynamicObject) {
    let (uid, name) = (job.metadata.uid.to_string(), job.metadata.name.to_string());
    job.fields.within("spec", |spec| {
        if spec.is_true("manualSelector") {
            return;
        }
        spec.within("template", |template| {
            template.within("metadata", |metadata| {
                metadata.within("labels", |labels| {
                    for (label, value) in [("controller-uid", &uid), ("job-name", &name)] {
                        labels.insert(label.to_owned(), value.clone().into());
                        labels.insert(format!("batch.kubernetes.io/{label}"), value.clone().into());
                    }
                });
            });
        });
        let own = json!({"batch.kubernetes.io/controller-uid": uid});
        spec.insert("selector".to_owned(), json!({"matchLabels": own}));
    });
    // As the Job's labels are by default those of its pods.
    default_job(job);
}

fn validate_job(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let spec = new.fields.get("spec").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    not_negative(
        &spec,
        "spec",
        &["parallelism", "completions", "backoffLimit"],
        &mut causes,
    );
    let path = Path::ROOT.member("spec");
    template::validate_ending(&spec["template"], &path.member("template"), &mut causes);
    check_job_spec(&spec, &mut causes);
    if let Some(old) = old {
        let before = old.fields.get("spec").cloned().unwrap_or_default();
        for member in ["completions", "selector", "completionMode"] {
            if spec[member] != before[member] {
                let field = format!("spec.{member}");
                causes.push(invalid_value(field, &spec[member], "field is immutable"));
            }
        }
        if spec["template"] != before["template"] && before["suspend"] != true {
            causes.push(invalid_value(
                "spec.template",
                &spec["template"],
                "field is immutable",
            ));
        }
    }
    causes
}

/// The rules of what a Job does when its pods fail, succeed or end, and of its indexes.
fn check_job_spec(spec: &Value, causes: &mut Vec<Cause>) {
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

fn validate_cron_job(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let spec = new.fields.get("spec").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    // The names of Jobs add eleven characters.
    const NAME_BYTES_MAX: usize = 52;
    let name = new.metadata.name.as_str();
    if old.is_none() && name.len() > NAME_BYTES_MAX {
        let detail = format!("must be no more than {NAME_BYTES_MAX} characters");
        causes.push(invalid_value("metadata.name", &name.into(), &detail));
    }
    let schedule = spec["schedule"].as_str().unwrap_or("");
    if schedule.is_empty() {
        causes.push(required("spec.schedule", ""));
    } else if let Some(problem) = schedule::problem(schedule) {
        causes.push(invalid_value("spec.schedule", &schedule.into(), &problem));
    }
    if let Some(zone) = spec["timeZone"].as_str()
        && let Some(problem) = schedule::zone_problem(zone)
    {
        causes.push(invalid_value("spec.timeZone", &zone.into(), &problem));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    if let Some(policy) = spec["concurrencyPolicy"].as_str()
        && !policies.contains(&policy)
    {
        causes.push(not_supported("spec.concurrencyPolicy", policy, &policies));
    }
    not_negative(
        &spec,
        "spec",
        &[
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
        ],
        &mut causes,
    );
    let template = &spec["jobTemplate"]["spec"]["template"];
    let outer = Path::ROOT.member("spec");
    let job = outer.member("jobTemplate");
    let path = job.member("spec");
    template::validate_ending(template, &path.member("template"), &mut causes);
    causes
}

fn not_negative(spec: &Value, path: &str, members: &[&str], causes: &mut Vec<Cause>) {
    for member in members {
        if let Some(number) = spec[*member].as_i64().filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            causes.push(invalid_value(
                format!("{path}.{member}"),
                &number.into(),
                detail,
            ));
        }
    }
}

const JOB: &[Column] = &[
    Column::NAME,
    Column::new("Status", "Status of the job.", Cell::Of(job_status)),
    Column::new(
        "Completions",
        "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. However, it may decrease in reaction to scale down of elastic indexed jobs.",
        Cell::Of(completions),
    ),
    Column::new(
        "Duration",
        "Time required to complete the job.",
        Cell::Of(duration),
    ),
    Column::AGE,
    Column::wide(
        "Containers",
        "Names of each container in the template.",
        Cell::Of(|job, _| containers(job, "name")),
    ),
    Column::wide(
        "Images",
        "Images referenced by each container in the template.",
        Cell::Of(|job, _| containers(job, "image")),
    ),
    Column::wide(
        "Selector",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        Cell::Of(|job, _| selector(&job["spec"]["selector"])),
    ),
];

fn job_status(job: &Value, _: Now) -> Value {
    let is = |kind: &str| {
        items(job, "/status/conditions")
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let found = [
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ]
    .into_iter()
    .find(|(kind, _)| is(kind));
    match found {
        Some((_, text)) => text.into(),
        None if !job["metadata"]["deletionTimestamp"].is_null() => "Terminating".into(),
        None => "Running".into(),
    }
}

fn completions(job: &Value, _: Now) -> Value {
    let succeeded = number(job, "/status/succeeded");
    match (
        job["spec"]["completions"].as_i64(),
        number(job, "/spec/parallelism"),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}").into(),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}").into(),
        (None, _) => format!("{succeeded}/1").into(),
    }
}

fn duration(job: &Value, now: Now) -> Value {
    let start = &job["status"]["startTime"];
    if start.is_null() {
        return "".into();
    }
    let end = text(job, "/status/completionTime").parse::<Time>().ok();
    let wall_ns = end.and_then(|end| end.unix_nanos()).unwrap_or(now.wall_ns);
    since(start, Now { wall_ns, ..now }).into()
}

const CRON_JOB: &[Column] = &[
    Column::NAME,
    Column::new("Schedule", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron.", Cell::TextOrEmpty("/spec/schedule")),
    Column::new("Timezone", "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API server during CronJob validation and the controller manager during execution. If no system-wide time zone database can be found a bundled version of the database is used instead. If the time zone name becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones", Cell::Text("/spec/timeZone")),
    Column::new("Suspend", "This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.  Defaults to false.", Cell::Of(|job, _| {
        if job["spec"]["suspend"] == true { "True".into() } else { "False".into() }
    })).of_type("boolean"),
    Column::new("Active", "A list of pointers to currently running jobs.", Cell::Of(|job, _| items(job, "/status/active").count().into())).of_type("integer"),
    Column::new("Last Schedule", "Information when was the last time the job was successfully scheduled.", Cell::Of(|job, now| match &job["status"]["lastScheduleTime"] {
        Value::Null => "<none>".into(),
        at => since(at, now).into(),
    })),
    Column::AGE,
    Column::wide("Containers", "Names of each container in the template.", Cell::Of(|job, _| containers(&job["spec"]["jobTemplate"], "name"))),
    Column::wide("Images", "Images referenced by each container in the template.", Cell::Of(|job, _| containers(&job["spec"]["jobTemplate"], "image"))),
    Column::wide("Selector", "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors", Cell::Of(|job, _| selector(&job["spec"]["jobTemplate"]["spec"]["selector"]))),
];
