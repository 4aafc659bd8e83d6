//! Invalid Jobs.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w103_manifests_that_are_refused() {
    with_one(STILL, |served| {
        let plain = job("j", "run=1s", "");
        let restart = "spec.template.spec.restartPolicy: ";
        let valid = "valid values: \"OnFailure\", \"Never\"";
        for (manifest, wanted) in [
            (
                plain.replace("restartPolicy: Never, ", ""),
                format!("{restart}Required value: {valid}"),
            ),
            (
                plain.replace("Never", "Always"),
                format!("{restart}Required value: {valid}"),
            ),
            (
                job("j", "run=1s", "  selector: {matchLabels: {app: j}}"),
                "`selector` not auto-generated".to_owned(),
            ),
            (
                plain.replace("{name: j}", &format!("{{name: {}}}", "j".repeat(64))),
                "must be no more than 63 bytes".to_owned(),
            ),
            (
                job("j", "run=1s", "  completionMode: Indexed\n  parallelism: 2"),
                "spec.completions: Required value: when completion mode is Indexed".to_owned(),
            ),
        ] {
            served.refuses_manifest(&manifest, &[&wanted]);
        }
        for member in [
            "completions",
            "parallelism",
            "backoffLimit",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
        ] {
            let wanted =
                format!("spec.{member}: Invalid value: -1: must be greater than or equal to 0");
            served.refuses_manifest(&job("j", "run=1s", &format!("  {member}: -1")), &[&wanted]);
        }
        served.file("dotted.yaml", &plain.replace("{name: j}", "{name: j.k}"));
        let output = served.output("create -f dotted.yaml");
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("Warning:"));
        served.apply(&job("j", "run=never", "  completions: 2"));
        for members in [
            "\"completions\":3",
            "\"completionMode\":\"Indexed\"",
            "\"selector\":{\"matchLabels\":{\"a\":\"b\"}}",
            "\"template\":{\"spec\":{\"terminationGracePeriodSeconds\":1}}",
            "\"podFailurePolicy\":{\"rules\":[{\"action\":\"Count\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[1]}}]}",
        ] {
            refuses_patch(served, "j", members, "field is immutable");
        }
        for members in [
            "\"parallelism\":2",
            "\"backoffLimit\":3",
            "\"activeDeadlineSeconds\":600",
            "\"ttlSecondsAfterFinished\":60",
            "\"suspend\":true",
        ] {
            patch(served, "j", members);
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w115_policies_that_are_refused() {
    let policy = |rule: &str| format!("  podFailurePolicy: {{rules: [{rule}]}}");
    let codes = |values: &str| {
        policy(&format!(
            "{{action: Count, onExitCodes: {{operator: In, values: [{values}]}}}}"
        ))
    };
    with_one(STILL, |served| {
        let on_failure = job("j", "run=1s", &codes("1")).replace("Never", "OnFailure");
        let only = "only \"Never\" is supported when podFailurePolicy is specified";
        served.refuses_manifest(&on_failure, &[only]);
        for (members, wanted) in [
            (codes("0"), "must not be 0 for the In operator"),
            (codes("2, 1"), "must be ordered"),
            (codes("1, 1"), "Duplicate value"),
            (codes(""), "Invalid value"),
            (
                policy(
                    "{action: Count, onExitCodes: {containerName: other, operator: In, values: [1]}}",
                ),
                "must be one of the container or initContainer names",
            ),
            (
                policy(
                    "{action: Count, onExitCodes: {operator: In, values: [1]}, onPodConditions: [{type: Ready}]}",
                ),
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (
                policy("{action: Count}"),
                "specifying one of OnExitCodes and OnPodConditions is required",
            ),
            (
                policy("{action: Retry, onExitCodes: {operator: In, values: [1]}}"),
                "supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
            ),
        ] {
            served.refuses_manifest(&job("j", "run=1s", &members), &[wanted]);
        }
    });
}
