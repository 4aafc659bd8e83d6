//! `kubectl apply --server-side`: who owns what, conflicts, and the way from client-side apply.

use super::manifests::FRONTEND;
use super::served::with_each;

const READY: &str = "get rs frontend -o jsonpath={.status.readyReplicas}";
const APPLIED: &str = "replicaset.apps/frontend serverside-applied";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn what_others_own_is_a_conflict_until_it_is_forced_or_left_out() {
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
        // Left out, the number stays whose it is.
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
fn what_was_applied_by_the_client_is_taken_over() {
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
        // A label that only the client-side configuration had is gone with it.
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
