//! The Job workload.

mod audit;
mod explain;
mod input;

use std::sync::Arc;

use compact_str::format_compact;
use podstorm::job::course::Course;
use podstorm_objects::{
    AnyObject, DynamicObject, Kind, Labels, Object, ObjectMeta, Pod, RestartPolicy, Str,
};
use serde_json::json;

use super::explain::{Asked, Explanation};
use super::flags::{Flag, FlagValues, Form};
use super::objects::{Objects, members};
use super::{Finishes, LaboratoryWorkload, NameFlag, Part};
use crate::input::InputObject;

static FLAGS: [Flag; 6] = [
    Flag {
        name: "batch-jobs",
        form: Form::Size,
        help: "Jobs of the batch API; the pods are divided over them evenly [default: pods/50, unless the \
            scenario sets another number]",
    },
    Flag {
        name: "completions",
        form: Form::Size,
        help: "completions of each Job, with an index for each; any two of this, --pods and --batch-jobs determine \
            the third",
    },
    Flag {
        name: "parallelism",
        form: Form::Number(10),
        help: "parallelism of each Job: concurrent pods [default: 10, unless the scenario \
            sets another number]",
    },
    Flag {
        name: "backoff-limit",
        form: Form::Number(6),
        help: "backoffLimit of each Job: tolerated pod failures [default: 6, unless the scenario \
            sets another number]",
    },
    Flag {
        name: "backoff-per-index",
        form: Form::Switch,
        help: "Apply --backoff-limit to each index separately: backoffLimitPerIndex",
    },
    Flag {
        name: "active-deadline",
        form: Form::Seconds(0),
        help: "activeDeadlineSeconds of each Job, with a unit [default: none]",
    },
];

static PARALLELISM: &Flag = &FLAGS[2];
static BACKOFF_LIMIT: &Flag = &FLAGS[3];
static PER_INDEX: &Flag = &FLAGS[4];
static DEADLINE: &Flag = &FLAGS[5];

/// The maximum number of concurrent pods of an indexed Job, which is the server's limit.
const PARALLELISM_MAX: i32 = 100_000;

/// The number of completions above which a Job with per-index back-off limits must limit its failed
/// indexes, and the maximum of this limit.
const COMPLETIONS_SOFT_MAX: i32 = 100_000;
const FAILED_INDEXES_MAX: i32 = 10_000;

/// The Job workload. Generated Jobs are indexed.
#[derive(Debug)]
pub(super) struct Jobs;

impl LaboratoryWorkload for Jobs {
    fn kind(&self) -> Kind {
        Kind::JOB
    }

    fn flags(&self) -> &'static [Flag] {
        &FLAGS
    }

    fn check_flags(&self, values: &FlagValues, _: i32) -> Result<(), String> {
        match PARALLELISM.number(values) {
            0 => Err(
                "--parallelism 0 creates no pods, and no Job would finish: use at least 1"
                    .to_owned(),
            ),
            number if number > PARALLELISM_MAX => Err(format!(
                "--parallelism {number} is too high: an indexed Job runs at most {PARALLELISM_MAX} pods at a time"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the Job as a user would write it. Its pods don't restart their containers: every
    /// failure takes a new pod.
    fn make(&self, part: Part, objects: &Objects) -> Option<AnyObject> {
        let values = &objects.values;
        let name = format_compact!("job-{:05}", part.number);
        let labels = Labels::from_pairs([("app", name.as_str())]);
        let template = objects.template(&labels);
        let restarts = template.spec.restart_policy == RestartPolicy::OnFailure;
        let mut template = template.to_json();
        template["spec"]["restartPolicy"] = if restarts { "OnFailure" } else { "Never" }.into();
        let mut spec = json!({
            "completions": part.replicas,
            "parallelism": PARALLELISM.number(values),
            "completionMode": "Indexed",
            "template": template,
        });
        let limit = match PER_INDEX.is_on(values) {
            true => "backoffLimitPerIndex",
            false => "backoffLimit",
        };
        spec[limit] = BACKOFF_LIMIT.number(values).into();
        if PER_INDEX.is_on(values) && part.replicas > COMPLETIONS_SOFT_MAX {
            spec["maxFailedIndexes"] = FAILED_INDEXES_MAX.into();
        }
        let deadline = DEADLINE.seconds(values);
        if deadline > 0 {
            spec["activeDeadlineSeconds"] = deadline.into();
        }
        let mut job = DynamicObject::new(Kind::JOB);
        job.metadata = ObjectMeta {
            name,
            namespace: Str::clone(objects.namespace_of(part.number)),
            labels,
            ..ObjectMeta::default()
        };
        job.fields = members(json!({ "spec": spec }));
        Some(Arc::new(job))
    }

    fn pods_member(&self) -> &'static str {
        "parallelism"
    }

    fn name_flag(&self) -> NameFlag {
        NameFlag {
            name: "job",
            help: "A Job: its next sync, when each index is retried, why it failed or does not finish, and the \
                pods that are deleted when its parallelism falls",
        }
    }

    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>> {
        explain::answer(name, asked)
    }

    fn finishes(&self) -> Option<&dyn Finishes> {
        Some(self)
    }
}

impl Finishes for Jobs {
    fn course(&self, object: &dyn Object) -> Option<Course> {
        Course::from_object(object)
    }

    fn audit(&self, object: &dyn Object, pods: &[Arc<Pod>]) -> Result<(), String> {
        audit::check(object, pods)
    }

    fn warnings(&self, objects: &[InputObject]) -> Vec<String> {
        input::shared_selectors(objects)
    }
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::{Cluster, ClusterOptions};
    use podstorm_objects::Now;

    use super::*;
    use crate::settings::Settings;

    fn made(flags: &str) -> (Cluster, AnyObject) {
        let settings = Settings::of_flags(&format!("--scenario job-farm {flags}"), 1).unwrap();
        let objects = settings.objects();
        let part = Part {
            number: 0,
            replicas: objects.share(0),
            revision: 0,
            is_owned: false,
        };
        let cluster = Cluster::new(ClusterOptions::default());
        let now = Now::default();
        cluster.create(objects.namespace(0), now).unwrap();
        let job = Jobs.make(part, &objects).unwrap();
        let job = cluster.api(Kind::JOB).create(job, now).unwrap();
        (cluster, job)
    }

    #[test]
    fn generated_jobs_follow_their_flags() {
        let (_, job) = made(
            "--batch-jobs 2 --completions 30 --parallelism 7 --backoff-limit 3 --active-deadline 90s",
        );
        let course = Jobs.course(&*job).unwrap();
        assert_eq!(course.completions, Some(30));
        assert_eq!(course.parallelism, 7);
        assert!(!course.is_over());
        let job = job.downcast_ref::<DynamicObject>().unwrap();
        let spec = &job.fields["spec"];
        assert_eq!(spec["backoffLimitPerIndex"], 3);
        assert_eq!(spec["activeDeadlineSeconds"], 90);
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never");
    }

    #[test]
    fn invalid_job_flags_are_refused() {
        for (flags, words) in [
            ("--parallelism 0", "no Job would finish"),
            ("--parallelism 200000", "at most 100000 pods at a time"),
            ("--parallelism -1", "a whole number from 0 to 2147483647"),
            (
                "--backoff-limit 3000000000",
                "a whole number from 0 to 2147483647",
            ),
            ("--completions -5", "a size must be at least 1"),
        ] {
            let settings = Settings::of_flags(&format!("--scenario job-farm {flags}"), 1);
            let problem = settings.unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
        let problem = Settings::of_flags("--scenario up-down --completions 5", 1).unwrap_err();
        assert!(problem.contains("generates none"), "{problem}");
    }

    #[test]
    fn scaling_a_job_sets_its_parallelism() {
        let (cluster, job) = made("--batch-jobs 1 --completions 5");
        let meta = job.metadata();
        let (namespace, name) = (&*meta.namespace, &*meta.name);
        Jobs.scale(&cluster, namespace, name, 2, Now::default())
            .unwrap();
        let scaled = cluster.api(Kind::JOB).get(namespace, name).unwrap();
        assert_eq!(Jobs.course(&*scaled).unwrap().parallelism, 2);
    }
}
