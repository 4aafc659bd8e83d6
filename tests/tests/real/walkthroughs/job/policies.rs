//! Pod failure policies.

use super::*;

/// Returns the example of the documentation with a script.
fn example(script: &str) -> String {
    let members = "  completions: 12
  parallelism: 3
  backoffLimit: 6
  podFailurePolicy:
    rules:
    - action: FailJob
      onExitCodes: {containerName: main, operator: In, values: [42]}
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget}]";
    job("policy", script, members)
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w113_fail_job() {
    with_one(STILL, |served| {
        served.apply(&example("run=5s exit=42"));
        assert_eq!(
            value(served, "policy", ".spec.podReplacementPolicy"),
            "Failed"
        );
        let status = ".spec.podFailurePolicy.rules[1].onPodConditions[0].status";
        assert_eq!(value(served, "policy", status), "True");
        pass(served, 120);
        let pods = names(served);
        assert_eq!(pods.len(), 3);
        assert_eq!(row(served, "policy"), "policy Failed 0/12");
        let both = "FailureTarget PodFailurePolicy\nFailed PodFailurePolicy";
        assert_eq!(conditions(served, "policy"), both);
        let told = events(served, "policy", "PodFailurePolicy");
        let tells = |pod: &String| {
            told == [format!(
                "Container main for pod default/{pod} failed with exit code 42 matching FailJob rule at index 0"
            )]
        };
        assert!(pods.iter().any(tells), "{told:?}");
        served.run("delete job policy");
        served.apply(&example("run=1s"));
        pass(served, 60);
        assert_eq!(row(served, "policy"), "policy Complete 12/12");
        served.run("delete job policy");
        served.apply(&example("run=1s exit=1"));
        pass(served, 3600);
        assert_eq!(row(served, "policy"), "policy Failed 0/12");
        let limit = "FailureTarget BackoffLimitExceeded\nFailed BackoffLimitExceeded";
        assert_eq!(conditions(served, "policy"), limit);
    });
}

/// Evicts a pod.
fn evict(served: &Served, pod: &str) {
    let body = format!(
        "{{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{{\"name\":\"{pod}\"}}}}"
    );
    served.file("eviction.json", &body);
    served.run(&format!(
        "create --raw /api/v1/namespaces/default/pods/{pod}/eviction -f eviction.json"
    ));
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w114_disruptions_are_ignored() {
    with_one(STILL, |served| {
        served.apply(&example("run=never"));
        pass(served, 2);
        for _ in 0..10 {
            let pod = pods_in(served, "Running").swap_remove(0);
            evict(served, &pod);
            pass(served, 700);
            assert_eq!(counts(served, "policy"), "3/3///0");
        }
        // An eviction by a taint is not a failure either.
        served.run("taint nodes --all out=now:NoExecute");
        pass(served, 60);
        served.run("taint nodes --all out-");
        pass(served, 700);
        assert_eq!(counts(served, "policy"), "3/3///0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w114_the_first_matching_rule_applies() {
    const IGNORE: &str = "{action: Ignore, onExitCodes: {operator: In, values: [42]}}";
    const FAIL: &str = "{action: FailJob, onExitCodes: {operator: In, values: [42]}}";
    const COUNT: &str = "{action: Count, onExitCodes: {operator: In, values: [1]}}";
    with_one(STILL, |served| {
        // The rules, the exit code, whether the Job fails, and the number of counted failures.
        for (rules, code, fails, failed) in [
            (vec![IGNORE, FAIL], 42, false, ""),
            (vec![FAIL, IGNORE], 42, true, "1"),
            (vec![COUNT, FAIL], 1, false, "1"),
            (vec![FAIL], 7, false, "1"),
        ] {
            let members = format!("  podFailurePolicy: {{rules: [{}]}}", rules.join(", "));
            served.apply(&job("rules", "run=never", &members));
            pass(served, 2);
            end_container(served, &names(served)[0], code);
            pass(served, 20);
            let status = if fails {
                "rules Failed 0/1"
            } else {
                "rules Running 0/1"
            };
            assert_eq!(row(served, "rules"), status, "{rules:?}");
            assert_eq!(
                value(served, "rules", ".status.failed"),
                failed,
                "{rules:?}"
            );
            served.run("delete job rules --cascade=foreground --wait=false");
            pass(served, 40);
        }
        // A rule without a container's name applies to init containers too.
        let members = format!("  podFailurePolicy: {{rules: [{FAIL}]}}");
        let manifest = job("init", "setup.exit=42", &members);
        let init = "initContainers: [{name: setup, image: 'busybox:1'}], containers";
        served.apply(&manifest.replace("containers", init));
        pass(served, 5);
        let told = events(served, "init", "PodFailurePolicy");
        assert!(
            told[0].starts_with("Container setup for pod default/init-"),
            "{told:?}"
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w116_a_policy_waits_until_the_pod_has_ended() {
    with_one(STILL, |served| {
        for (policy, waits) in [
            (
                "  podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: In, values: [9]}}]}",
                true,
            ),
            ("", false),
        ] {
            served.apply(&job("slow", "run=never stop=20s", policy));
            pass(served, 2);
            let pod = names(served).swap_remove(0);
            served.run(&format!("delete pod {pod} --wait=false"));
            pass(served, 3);
            assert_eq!(
                value(served, "slow", ".status.terminating"),
                "1",
                "{policy}"
            );
            let failed = value(served, "slow", ".status.failed");
            if waits {
                assert!(finalizers(served).contains("batch.kubernetes.io/job-tracking"));
                assert_eq!((failed.as_str(), names(served).len()), ("", 1), "{policy}");
            } else {
                assert_eq!(failed, "1", "{policy}");
            }
            pass(served, 40);
            assert_eq!(counts(served, "slow"), "1/1//1/0", "{policy}");
            assert!(!names(served).contains(&pod), "{policy}");
            served.run("delete job slow --cascade=foreground --wait=false");
            pass(served, 40);
        }
    });
}
