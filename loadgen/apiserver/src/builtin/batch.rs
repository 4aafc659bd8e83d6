//! `batch/v1`: Jobs and CronJobs.

use podstorm_objects::cells::{containers, items, number, selector, since, text};
use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, Cell, Column, DynamicObject, Now, ResourceType, Rules, Time};
use serde_json::Value;

use super::{job, job_status, schedule, template};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{invalid_value, not_supported, required};

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
            default: job::default,
            identify: Some(job::select_own_pods),
            complete: |job, _| {
                job::select_own_pods(job);
                // As the Job's labels are by default those of its pods.
                job::default(job);
            },
            validate: job::validate,
            validate_status: job_status::validate,
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

pub(super) fn not_negative(spec: &Value, path: &str, members: &[&str], causes: &mut Vec<Cause>) {
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
