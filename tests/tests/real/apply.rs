//! `kubectl apply --server-side`: field owners, conflicts, and the migration from client-side
//! apply.

use super::manifests::FRONTEND;
use super::served::with_each;

const READY: &str = "get rs frontend -o jsonpath={.status.readyReplicas}";
const APPLIED: &str = "replicaset.apps/frontend serverside-applied";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn fields_of_others_conflict_unless_forced_or_omitted() {
    with_each(&[], |served| {
        served.file("frontend.yaml", FRONTEND);
        served.says("apply --server-side -f frontend.yaml", APPLIED);
        served.says("apply --server-side -f frontend.yaml", APPLIED);
        served.becomes(READY, "3");
        served.shows(
            "get rs frontend -o yaml --show-managed-fields",
            &["manager: kubectl", "operation: Apply", "f:replicas: {}"],
        );
        let five = r#"patch rs frontend --field-manager=autoscaler -p '{"spec":{"replicas":5}}'"#;
        served.run(five);
        served.becomes(READY, "5");
        served.refuses(
            "apply --server-side -f frontend.yaml",
            &[
                "conflict with \"autoscaler\" using apps/v1",
                ".spec.replicas",
            ],
        );
        served.says(READY, "5");
        served.says(
            "apply --server-side --force-conflicts -f frontend.yaml",
            APPLIED,
        );
        served.becomes(READY, "3");
        served.run(five);
        served.becomes(READY, "5");
        // If it is omitted, the number stays with its owner.
        served.file("frontend.yaml", &FRONTEND.replace("  replicas: 3\n", ""));
        served.says("apply --server-side -f frontend.yaml", APPLIED);
        served.becomes(READY, "5");
        served.shows(
            "apply --server-side --dry-run=server -o yaml --field-manager=other -f frontend.yaml",
            &["replicas: 5"],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn client_side_applies_are_migrated() {
    with_each(&[], |served| {
        served.file("frontend.yaml", FRONTEND);
        served.run("apply -f frontend.yaml");
        served.becomes(READY, "3");
        let two = FRONTEND
            .replace("replicas: 3", "replicas: 2")
            .replace(", tier: frontend}", "}");
        served.file("frontend.yaml", &two);
        served.says("apply --server-side -f frontend.yaml", APPLIED);
        served.becomes(READY, "2");
        // A label that was only in the client-side configuration is removed.
        served.says(
            "get rs frontend -o jsonpath={.metadata.labels}",
            r#"{"app":"guestbook"}"#,
        );
        served.shows(
            "get rs frontend -o jsonpath={.metadata.annotations}",
            &["last-applied-configuration", r#"\"replicas\":2"#],
        );
    });
}
