//! Failed pods: restarted in place or replaced, the back-off, and its limit.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w110_restarted_in_place_or_replaced() {
    with_one(STILL, |served| {
        let again = job("again", "exit=1,1,0", "");
        served.apply(&again.replace("Never", "OnFailure"));
        pass(served, 120);
        served.shows("get pods --no-headers", &["0/1 Completed 2"]);
        assert_eq!(names(served).len(), 1);
        assert_eq!(counts(served, "again"), "/0/1//0");
        served.run("delete job again");
        served.apply(&job("replaced", "run=never", ""));
        for code in [1, 1, 0] {
            pass(served, 25);
            let running = pods_in(served, "Running");
            end_container(served, &running[0], code);
        }
        pass(served, 3);
        assert_eq!(
            (
                pods_in(served, "Failed").len(),
                pods_in(served, "Succeeded").len()
            ),
            (2, 1)
        );
        assert_eq!(counts(served, "replaced"), "/0/1/2/0");
        served.run("delete job replaced");
        // A deleted pod counts as failed immediately, or under the policy `Failed` only when it has
        // ended.
        for (policy, at_once) in [("TerminatingOrFailed", true), ("Failed", false)] {
            let members = format!("  podReplacementPolicy: {policy}");
            served.apply(&job("gone", "run=never stop=20s", &members));
            pass(served, 2);
            let first = names(served);
            served.run(&format!("delete pod {} --wait=false", first[0]));
            pass(served, 3);
            let failed = if at_once { "1" } else { "" };
            assert_eq!(value(served, "gone", ".status.failed"), failed, "{policy}");
            assert_eq!(
                value(served, "gone", ".status.terminating"),
                "1",
                "{policy}"
            );
            pass(served, 60);
            assert_eq!(counts(served, "gone"), "1/1//1/0", "{policy}");
            assert_ne!(names(served), first, "{policy}");
            served.run("delete job gone --cascade=foreground --wait=false");
            pass(served, 40);
            assert!(names(served).is_empty());
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w111_back_off_and_its_limit() {
    with_one(STILL, |served| {
        served.apply(&job("loses", "exit=1", "  backoffLimit: 4"));
        // 10 s after the first failure, then 20, 40 and 80 s, each plus the second in which events
        // are collected.
        for (until, pods) in [
            (5, 1),
            (4, 1),
            (5, 2),
            (15, 2),
            (9, 3),
            (30, 3),
            (14, 4),
            (65, 4),
            (20, 5),
        ] {
            pass(served, until);
            assert_eq!(names(served).len(), pods);
        }
        pass(served, 600);
        assert_eq!(pods_in(served, "Failed").len(), 5);
        assert_eq!(row(served, "loses"), "loses Failed 0/1");
        let reason = "BackoffLimitExceeded";
        assert_eq!(
            conditions(served, "loses"),
            format!("FailureTarget {reason}\nFailed {reason}")
        );
        let message = "Job has reached the specified backoff limit";
        assert_eq!(events(served, "loses", reason), [message]);
        assert_eq!(
            value(served, "loses", ".status.conditions[*].message"),
            format!("{message} {message}")
        );
        served.run("delete job loses");
        for (limit, pods) in [("", 7), ("  backoffLimit: 0", 1)] {
            served.apply(&job("loses", "exit=1", limit));
            pass(served, 3600);
            assert_eq!(pods_in(served, "Failed").len(), pods, "{limit}");
            assert_eq!(row(served, "loses"), "loses Failed 0/1");
            served.run("delete job loses");
        }
        // The other pods end with the Job.
        served.apply(&job(
            "three",
            "run=never",
            "  backoffLimit: 0\n  completions: 3\n  parallelism: 3",
        ));
        pass(served, 2);
        end_container(served, &names(served)[0], 1);
        pass(served, 40);
        assert_eq!(row(served, "three"), "three Failed 0/3");
        assert!(pods_in(served, "Running").is_empty());
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w112_the_limit_with_on_failure() {
    with_one(STILL, |served| {
        for (limit, restarts_before) in [(3, 2), (0, 0)] {
            let members = format!("  backoffLimit: {limit}");
            let manifest = job("restarts", "run=1s exit=1", &members);
            served.apply(&manifest.replace("Never", "OnFailure"));
            let restarts =
                "get pods -o jsonpath={.items[*].status.containerStatuses[0].restartCount}";
            let mut most = 0;
            for _ in 0..120 {
                pass(served, 1);
                let now = served.run(restarts).parse().unwrap_or(0);
                most = most.max(now);
            }
            assert!(most >= restarts_before, "{most}");
            assert!(most <= limit.max(1), "{most}");
            assert_eq!(row(served, "restarts"), "restarts Failed 0/1");
            assert!(conditions(served, "restarts").contains("Failed BackoffLimitExceeded"));
            assert!(names(served).is_empty(), "the pod goes with its logs");
            served.run("delete job restarts");
        }
    });
}
