//! Active deadlines.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w118_an_active_deadline() {
    with_one(STILL, |served| {
        let members =
            "  backoffLimit: 5\n  activeDeadlineSeconds: 100\n  completions: 2\n  parallelism: 2";
        served.apply(&job("pi-with-timeout", "run=never", members));
        pass(served, 98);
        assert_eq!(
            row(served, "pi-with-timeout"),
            "pi-with-timeout Running 0/2"
        );
        pass(served, 40);
        assert!(names(served).is_empty());
        let reason = "DeadlineExceeded";
        let both = format!("FailureTarget {reason}\nFailed {reason}");
        assert_eq!(conditions(served, "pi-with-timeout"), both);
        let message = "Job was active longer than specified deadline";
        assert_eq!(events(served, "pi-with-timeout", reason), [message]);
        // The deadline takes precedence over a back-off limit that is not reached.
        served.apply(&job(
            "fails",
            "exit=1",
            "  backoffLimit: 5\n  activeDeadlineSeconds: 25",
        ));
        pass(served, 300);
        assert_eq!(pods_in(served, "Failed").len(), 2);
        assert!(conditions(served, "fails").contains("Failed DeadlineExceeded"));
        served.run("delete job fails");
        // The deadline of a pod ends only that pod.
        let manifest = job("pods", "run=never", "");
        served.apply(&manifest.replace(
            "{restartPolicy",
            "{activeDeadlineSeconds: 10, restartPolicy",
        ));
        pass(served, 23);
        let failed =
            "get pods --field-selector status.phase=Failed -o jsonpath={.items[*].status.reason}";
        served.says(failed, reason);
        assert_eq!(pods_in(served, "Running").len(), 1);
        assert_eq!(row(served, "pods"), "pods Running 0/1");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w121_suspension_stops_the_deadline() {
    with_one(STILL, |served| {
        served.apply(&job("timed", "run=never", "  activeDeadlineSeconds: 60"));
        pass(served, 50);
        patch(served, "timed", "\"suspend\":true");
        pass(served, 600);
        patch(served, "timed", "\"suspend\":false");
        pass(served, 50);
        assert_eq!(row(served, "timed"), "timed Running 0/1");
        pass(served, 15);
        assert!(conditions(served, "timed").contains("Failed DeadlineExceeded"));
    });
}
