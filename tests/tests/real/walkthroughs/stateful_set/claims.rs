//! The claims of the pods: their creation and deletion.

use super::*;

/// Returns the claims, each with the kind and the name of its owner, if it has one.
#[track_caller]
fn claims(served: &Served) -> Vec<String> {
    let owner = ":.metadata.ownerReferences[*].kind,:.metadata.ownerReferences[*].name";
    let line = format!("get pvc --no-headers -o custom-columns=:.metadata.name,{owner}");
    let rows = served.run(&line);
    let rows = rows.lines().filter(|line| !line.is_empty());
    rows.map(|row| row.replace(" <none>", "")).collect()
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w70_storage() {
    with_one(STILL, |served| {
        up(served, "", "  replicas: 3", 3);
        let columns = ":.metadata.name,:.status.phase,:.spec.storageClassName,:.status.capacity.storage,:.metadata.labels.app";
        let line = format!("get pvc --no-headers -o custom-columns={columns}");
        let row = |n| format!("www-web-{n} Bound my-storage-class 1Gi nginx");
        served.says(&line, &[row(0), row(1), row(2)].join("\n"));
        assert_eq!(claims(served), ["www-web-0", "www-web-1", "www-web-2"]);
        let volume = "get pod web-1 -o jsonpath='{.spec.volumes[?(@.name==\"www\")].persistentVolumeClaim.claimName}'";
        served.says(volume, "www-web-1");
        let uids = [0, 1, 2].map(|n| uid(served, &format!("pvc/www-web-{n}")));
        served.run("scale sts web --replicas=1");
        pass(served, 30);
        served.run("delete sts web --wait=false");
        pass(served, 30);
        assert_eq!(pods(served), "");
        up(served, "", "  replicas: 3", 3);
        let again = [0, 1, 2].map(|n| uid(served, &format!("pvc/www-web-{n}")));
        assert_eq!(again, uids, "the claims are used again");
        served.run("delete sts web --wait=false");
        pass(served, 30);
        served.run("delete pvc -l app=nginx --wait=false");
        pass(served, 30);
        assert_eq!(claims(served), [""; 0]);
        // Without a class, the default one is filled in.
        let manifest = web("", "  replicas: 1").replace("storageClassName: my-storage-class, ", "");
        served.apply(&manifest);
        pass(served, 10);
        served.says(
            "get pvc www-web-0 -o jsonpath={.spec.storageClassName}",
            "standard",
        );
        served.run("delete sts web --wait=false");
        // Claims that are never bound keep the first pod pending, and the second from being
        // created.
        let never = web("", "  replicas: 2")
            .replace("volumes.podstorm", "kubernetes.io/no-provisioner")
            .replace("my-storage-class", "never")
            .replace("{name: www}", "{name: late}")
            .replace("{name: www, ", "{name: late, ");
        served.apply(&never);
        pass(served, 60);
        served.says(
            "get pods --no-headers -o custom-columns=:.metadata.name,:.status.phase",
            "web-0 Pending",
        );
    });
}

/// Creates a set of three pods with a retention policy.
#[track_caller]
fn with_policy(served: &Served, deleted: &str, scaled: &str) {
    let policy = format!("{{whenDeleted: {deleted}, whenScaled: {scaled}}}");
    let members = format!("  replicas: 3\n  persistentVolumeClaimRetentionPolicy: {policy}");
    up(served, "stop=4s", &members, 3);
    pass(served, 10);
}

const THREE: [&str; 3] = ["www-web-0", "www-web-1", "www-web-2"];
const THREE_OF_SET: [&str; 3] = [
    "www-web-0 StatefulSet web",
    "www-web-1 StatefulSet web",
    "www-web-2 StatefulSet web",
];

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w83_claims_deleted_with_the_set() {
    with_one(STILL, |served| {
        with_policy(served, "Delete", "Retain");
        assert_eq!(claims(served), THREE_OF_SET);
        served.run("scale sts web --replicas=1");
        pass(served, 30);
        assert_eq!(claims(served), THREE_OF_SET);
        served.run("delete pod web-0 --wait=false");
        pass(served, 10);
        assert_eq!(claims(served), THREE_OF_SET);
        // Another policy changes the owners.
        let path = "persistentVolumeClaimRetentionPolicy";
        patch(
            served,
            &format!(r#""replicas":3,"{path}":{{"whenDeleted":"Retain"}}"#),
        );
        for _ in 0..3 {
            pass(served, 10);
        }
        assert_eq!(claims(served), THREE);
        patch(served, &format!(r#""{path}":{{"whenDeleted":"Delete"}}"#));
        pass(served, 10);
        assert_eq!(claims(served), THREE_OF_SET);
        served.run("delete sts web --wait=false");
        pass(served, 30);
        assert_eq!(pods(served), "");
        assert_eq!(claims(served), [""; 0]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w83_claims_deleted_with_the_pods() {
    with_one(STILL, |served| {
        with_policy(served, "Retain", "Delete");
        assert_eq!(claims(served), THREE);
        let uids = [1, 2].map(|n| uid(served, &format!("pvc/www-web-{n}")));
        served.run("delete pod web-1 --wait=false");
        pass(served, 10);
        assert_eq!(uid(served, "pvc/www-web-1"), uids[0]);
        served.run("scale sts web --replicas=1");
        pass(served, 2);
        assert!(claims(served).contains(&"www-web-2 Pod web-2".to_owned()));
        pass(served, 30);
        assert_eq!(claims(served), ["www-web-0"]);
        served.run("scale sts web --replicas=3");
        for _ in 0..2 {
            pass(served, 10);
        }
        assert_eq!(claims(served), THREE);
        assert_ne!(uid(served, "pvc/www-web-2"), uids[1]);
        served.run("delete sts web --wait=false");
        pass(served, 30);
        assert_eq!(claims(served), THREE);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w83_claims_deleted_with_both() {
    with_one(STILL, |served| {
        with_policy(served, "Delete", "Delete");
        assert_eq!(claims(served), THREE_OF_SET);
        served.run("scale sts web --replicas=2");
        pass(served, 2);
        let mut wanted = THREE_OF_SET;
        wanted[2] = "www-web-2 Pod web-2";
        assert_eq!(claims(served), wanted);
        pass(served, 30);
        assert_eq!(claims(served), THREE_OF_SET[..2]);
        served.run("delete sts web --cascade=orphan --wait=false");
        pass(served, 30);
        assert_eq!(claims(served), THREE[..2]);
        assert_eq!(pods(served), "0:0.8 1:0.8");
        served.refuses_manifest(
            &web(
                "",
                "  persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}",
            ),
            &["whenScaled: Unsupported value: \"Keep\""],
        );
    });
}
