//! Suspended Jobs.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w120_suspend_and_resume() {
    with_each(STILL, |served| {
        let members = "  suspend: true\n  parallelism: 1\n  completions: 5";
        served.apply(&job("myjob", "run=never stop=5s", members));
        pass(served, 5);
        assert!(names(served).is_empty());
        assert_eq!(value(served, "myjob", ".status.startTime"), "");
        assert_eq!(row(served, "myjob"), "myjob Suspended 0/5");
        assert_eq!(conditions(served, "myjob"), "Suspended JobSuspended");
        assert_eq!(events(served, "myjob", "Suspended"), ["Job suspended"]);
        let resume = "patch job/myjob --type=strategic --patch '{\"spec\":{\"suspend\":false}}'";
        served.says(resume, "job.batch/myjob patched");
        pass(served, 2);
        assert_eq!(pods_in(served, "Running").len(), 1);
        let condition = |member| format!(".status.conditions[?(@.type==\"Suspended\")].{member}");
        let members = ["status", "reason", "message"]
            .map(|member| value(served, "myjob", &condition(member)));
        assert_eq!(members, ["False", "JobResumed", "Job resumed"]);
        assert_ne!(value(served, "myjob", ".status.startTime"), "");
        for _ in 0..2 {
            end_container(served, &pods_in(served, "Running")[0], 0);
            pass(served, 3);
        }
        assert_eq!(row(served, "myjob"), "myjob Running 2/5");
        patch(served, "myjob", "\"suspend\":true");
        pass(served, 2);
        assert_eq!(value(served, "myjob", ".status.terminating"), "1");
        assert_eq!(value(served, "myjob", ".status.startTime"), "");
        pass(served, 10);
        assert!(pods_in(served, "Running").is_empty());
        assert_eq!(row(served, "myjob"), "myjob Suspended 2/5");
        assert_eq!(value(served, "myjob", ".status.failed"), "");
        served.run(resume);
        pass(served, 2);
        assert_eq!(pods_in(served, "Running").len(), 1);
        assert_eq!(row(served, "myjob"), "myjob Running 2/5");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w120_the_events_are_in_order() {
    with_one(STILL, |served| {
        served.apply(&job("told", "run=never", ""));
        pass(served, 5);
        assert_eq!(value(served, "told", ".status.conditions"), "");
        patch(served, "told", "\"suspend\":true");
        pass(served, 5);
        patch(served, "told", "\"suspend\":false");
        pass(served, 5);
        let reasons = "get events --sort-by=.metadata.name -o custom-columns=:.reason --no-headers \
                       --field-selector involvedObject.kind=Job";
        let mut told = served.words(reasons);
        let wanted = [
            "SuccessfulCreate",
            "SuccessfulDelete",
            "Suspended",
            "SuccessfulCreate",
            "Resumed",
        ];
        told.sort();
        let mut sorted = wanted.to_vec();
        sorted.sort_unstable();
        assert_eq!(told, sorted);
        let described = served.run("describe jobs/told");
        let places: Vec<_> = ["SuccessfulDelete", "Suspended", "Resumed"]
            .iter()
            .map(|reason| described.find(&format!("Normal {reason} ")))
            .collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{described}"
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w122_scheduling_directives_of_a_suspended_job() {
    with_one(STILL, |served| {
        served.apply(&job("placed", "run=never", "  suspend: true"));
        pass(served, 2);
        served.run("label node node-1 disk=fast");
        for members in [
            "\"nodeSelector\":{\"disk\":\"fast\"}",
            "\"tolerations\":[{\"key\":\"batch\",\"operator\":\"Exists\"}]",
        ] {
            patch(
                served,
                "placed",
                &format!("\"template\":{{\"spec\":{{{members}}}}}"),
            );
        }
        patch(
            served,
            "placed",
            "\"template\":{\"metadata\":{\"labels\":{\"team\":\"a\"}}}",
        );
        let image = "\"template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"busybox:2\"}]}}";
        refuses_patch(served, "placed", image, "field is immutable");
        patch(served, "placed", "\"suspend\":false");
        pass(served, 2);
        served.says(
            "get pods -l team=a -o jsonpath={.items[*].spec.nodeName}",
            "node-1",
        );
        let elsewhere = "\"template\":{\"spec\":{\"nodeSelector\":{\"disk\":\"slow\"}}}";
        refuses_patch(served, "placed", elsewhere, "field is immutable");
        patch(served, "placed", "\"suspend\":true");
        pass(served, 40);
        patch(served, "placed", elsewhere);
        let resources = "\"template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":\
                         {\"requests\":{\"cpu\":\"1\"}}}]}}";
        patch(served, "placed", resources);
    });
}
