//! `batch/v1`: Jobs and CronJobs.

use podstorm_objects::cells::{containers, items, number, selector, since, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Kind, Now, ResourceType, Rules, Time, Warnings,
};
use serde_json::Value;

use super::columns::{column, wide_column};
use super::{job, job_status, schedule, template};
use crate::defaulting::{Fill, Within};
use crate::errors::{invalid_value, not_supported_value};
use crate::validation::Checks;

pub(super) static ROWS: [ResourceType; 2] = [
    ResourceType {
        columns: JOB,
        rules: Rules {
            default: job::default,
            identify: Some(job::select_own_pods),
            complete: |job, _| {
                job::select_own_pods(job);
                // By default, a Job gets the labels of its pods.
                job::default(job);
            },
            validate: job::validate,
            validate_status: job_status::validate,
            warnings: &Warnings {
                undecided_deletion: "child pods are preserved by default when jobs are deleted; \
                                     set propagationPolicy=Background to remove them or set \
                                     propagationPolicy=Orphan to suppress this warning",
                ..template::WARNINGS_WITH_NAME
            },
            ..Rules::NONE
        },
        ..*Kind::JOB.row()
    },
    ResourceType {
        group: "batch",
        api_version: "batch/v1",
        kind: "CronJob",
        resource: "cronjobs",
        has_status: true,
        has_generation: true,
        categories: &["all"],
        short_names: &["cj"],
        columns: CRON_JOB,
        rules: Rules {
            default: default_cron_job,
            validate: validate_cron_job,
            warnings: &Warnings {
                written: |written| {
                    let at = "spec.jobTemplate.spec.template";
                    template::warnings_with_name(written, at)
                },
                ..Warnings::NONE
            },
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

fn default_cron_job(job: &mut DynamicObject) {
    job.fields.within("spec", |spec| {
        spec.set("concurrencyPolicy", "Allow");
        spec.set_absent("suspend", false);
        spec.set_absent("successfulJobsHistoryLimit", 3);
        spec.set_absent("failedJobsHistoryLimit", 1);
        spec.with("jobTemplate", |job| {
            job.with("spec", job::default_template);
        });
    });
}

fn validate_cron_job(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    // The name of a Job is 11 characters longer than that of its CronJob.
    const NAME_BYTES_MAX: usize = 52;
    let name = new.metadata.name.as_str();
    if old.is_none() && name.len() > NAME_BYTES_MAX {
        let detail = format!("must be no more than {NAME_BYTES_MAX} characters");
        checks.push(invalid_value("metadata.name", &name.into(), &detail));
    }
    spec.at("schedule").must_fit(schedule::problem);
    let zone = spec.at("timeZone");
    if zone.value.is_string() {
        zone.fits(schedule::zone_problem);
    }
    spec.at("concurrencyPolicy")
        .one_of(&["Allow", "Forbid", "Replace"]);
    for member in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        spec.at(member).not_negative();
    }
    let of_jobs = spec.at("jobTemplate").at("spec");
    job::validate_spec(&of_jobs);
    let (selector, by_hand) = (of_jobs.at("selector"), of_jobs.at("manualSelector"));
    if !selector.is_null() {
        selector.invalid("`selector` will be auto-generated");
    }
    if *by_hand.value == true {
        checks.push(not_supported_value(by_hand.path, true, &["nil", "false"]));
    }
    checks.found()
}

const JOB: &[Column] = &[
    Column::NAME,
    column("Status", Cell::Of(job_status)),
    column("Completions", Cell::Of(completions)),
    column("Duration", Cell::Of(duration)),
    Column::AGE,
    wide_column("Containers", Cell::Of(|job, _| containers(job, "name"))),
    wide_column("Images", Cell::Of(|job, _| containers(job, "image"))),
    wide_column(
        "Selector",
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
    column("Schedule", Cell::TextOrEmpty("/spec/schedule")),
    column("Timezone", Cell::Text("/spec/timeZone")),
    column(
        "Suspend",
        Cell::Of(|job, _| {
            if job["spec"]["suspend"] == true {
                "True".into()
            } else {
                "False".into()
            }
        }),
    )
    .of_type("boolean"),
    column(
        "Active",
        Cell::Of(|job, _| items(job, "/status/active").count().into()),
    )
    .of_type("integer"),
    column(
        "Last Schedule",
        Cell::Of(|job, now| match &job["status"]["lastScheduleTime"] {
            Value::Null => "<none>".into(),
            at => since(at, now).into(),
        }),
    ),
    Column::AGE,
    wide_column(
        "Containers",
        Cell::Of(|job, _| containers(&job["spec"]["jobTemplate"], "name")),
    ),
    wide_column(
        "Images",
        Cell::Of(|job, _| containers(&job["spec"]["jobTemplate"], "image")),
    ),
    wide_column(
        "Selector",
        Cell::Of(|job, _| selector(&job["spec"]["jobTemplate"]["spec"]["selector"])),
    ),
];
