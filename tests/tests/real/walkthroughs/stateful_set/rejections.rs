//! Invalid StatefulSets.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w75_manifests_that_are_refused() {
    with_one(STILL, |served| {
        let plain = web("", "  replicas: 1");
        for (manifest, wanted) in [
            (
                plain.replace("matchLabels: {app: nginx}", "matchLabels: {app: other}"),
                "`selector` does not match template `labels`",
            ),
            (
                plain.replace("  selector: {matchLabels: {app: nginx}}\n", ""),
                "spec.selector: Required value",
            ),
            (
                plain.replace("metadata: {name: web}", "metadata: {name: web.one}"),
                "metadata.name: Invalid value: \"web.one\"",
            ),
            (
                plain.replace(
                    "terminationGracePeriodSeconds: 10",
                    "restartPolicy: OnFailure",
                ),
                "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\"",
            ),
            (
                web("", "  podManagementPolicy: Foo"),
                "must be 'OrderedReady' or 'Parallel'",
            ),
            (
                web(
                    "",
                    "  updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}",
                ),
                "only allowed for updateStrategy 'RollingUpdate'",
            ),
            (
                web("", "  updateStrategy: {rollingUpdate: {partition: -1}}"),
                "must be greater than or equal to 0",
            ),
        ] {
            served.refuses_manifest(&manifest, &[wanted]);
        }
        served.apply(&plain);
        for members in [
            r#""serviceName":"other""#,
            r#""podManagementPolicy":"Parallel""#,
            r#""volumeClaimTemplates":null"#,
        ] {
            served.refuses(
                &format!("patch sts web -p '{{\"spec\":{{{members}}}}}'"),
                &[
                    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                     'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                     'minReadySeconds' are forbidden",
                ],
            );
        }
        // The Service may be missing: the set works regardless.
        served.run("delete svc nginx --wait=false");
        pass(served, 10);
        assert_eq!(value(served, ".status.readyReplicas"), "1");
    });
}
