//! Updates: stepwise replacement, refused changes, rollover, and a new selector.

use podstorm_tests::command::cases;

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w34_update_the_image_three_ways() {
    with_each(STILL, |served| {
        nginx(served, 3, "");
        served.says(
            "set image deployment.v1.apps/nginx-deployment nginx=nginx:1.16.1",
            "deployment.apps/nginx-deployment image updated",
        );
        complete(served, 3);
        image(served, OLD);
        complete(served, 3);
        served.says(
            "set image deployment/nginx-deployment nginx=nginx:1.14.2",
            "",
        );
        served.file("editor.sh", "sed -i s/nginx:1.14.2/nginx:1.16.1/ \"$1\"\n");
        served.says(
            "edit deployment/nginx-deployment",
            "deployment.apps/nginx-deployment edited",
        );
        complete(served, 3);
        sizes(served, &format!("{OLD} 0\n{NEW} 3"));
        served.refuses(
            "set image deployment/nginx-deployment wrong=nginx:1",
            &["error: unable to find container named \"wrong\""],
        );
        served.says(STATUS, DONE);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w35_one_by_one_replacement_of_three() {
    with_each(&[], |served| {
        nginx(served, 3, "");
        let rows = served.beside("get rs -w --no-headers", "rows");
        let old = set_of(served, OLD);
        rows.shows(&old);
        image(served, NEW);
        complete(served, 3);
        scaled(
            served,
            &[
                "up nginx:1.14.2 0 3",
                "up nginx:1.16.1 0 1",
                "down nginx:1.14.2 3 2",
                "up nginx:1.16.1 1 2",
                "down nginx:1.14.2 2 1",
                "up nginx:1.16.1 2 3",
                "down nginx:1.14.2 1 0",
            ],
        );
        let new = set_of(served, NEW);
        stays_within(&rows, &format!("{old} 0 0 0"), 4, 3);
        sizes(served, &format!("{OLD} 0\n{NEW} 3"));
        assert!(names(served).iter().all(|it| it.starts_with(&new)));
        served.shows(
            "describe deployments",
            &[
                "Replicas: 3 desired | 3 updated | 3 total | 3 available | 0 unavailable\n",
                "StrategyType: RollingUpdate\nMinReadySeconds: 0\n",
                "RollingUpdateStrategy: 25% max unavailable, 25% max surge\n",
                "Available True MinimumReplicasAvailable\n",
                "Progressing True NewReplicaSetAvailable\n",
                &format!("OldReplicaSets: {old} (0/0 replicas created)\n"),
                &format!("NewReplicaSet: {new} (3/3 replicas created)\n"),
            ],
        );
    });
}

/// Surge, unavailable and replicas; the sizes while no new pod becomes ready; the maximum and
/// minimum numbers of pods.
const BOUNDS: &[(&str, &str, usize, &str, i64, i64)] = &[
    ("1", "1", 4, "nginx:1.14.2 3\nnginx:bad 2", 5, 3),
    ("0", "30%", 10, "nginx:1.14.2 7\nnginx:bad 3", 10, 7),
    ("30%", "0", 10, "nginx:1.14.2 10\nnginx:bad 3", 13, 10),
    ("25%", "25%", 10, "nginx:1.14.2 8\nnginx:bad 5", 13, 8),
    ("25%", "25%", 5, "nginx:1.14.2 4\nnginx:bad 3", 7, 4),
    // If both percentages round to zero, one pod may be unavailable.
    ("0", "1%", 2, "nginx:1.14.2 1\nnginx:bad 1", 2, 1),
];

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w36_to_w38_surge_and_availability_are_never_exceeded() {
    with_one(STILL, |served| {
        for (surge, unavailable, replicas, stuck, most, least) in BOUNDS {
            nginx(served, *replicas, &strategy(surge, unavailable));
            let rows = served.beside("get rs -w --no-headers", "rows");
            rows.shows(&set_of(served, OLD));
            image(served, BAD);
            sizes(served, stuck);
            pass(served, 30);
            sizes(served, stuck);
            image(served, NEW);
            complete(served, *replicas);
            let new = set_of(served, NEW);
            let last = format!("{new} {replicas} {replicas} {replicas}");
            stays_within(&rows, &last, *most, *least);
            served.run("delete deployment nginx-deployment");
            served.becomes("get rs,pods -o name", "");
        }
    });
}

/// Invalid members of a spec, and the error messages.
const WRONG_MEMBERS: &str = r#"
strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}} => spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0
strategy: {rollingUpdate: {maxUnavailable: 110%}} => must not be greater than 100%
strategy: {rollingUpdate: {maxSurge: half}} => spec.strategy.rollingUpdate.maxSurge: Invalid value: "half"
strategy: {rollingUpdate: {maxUnavailable: -1}} => spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1
strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}} => spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'
strategy: {type: Foo} => spec.strategy: Unsupported value: {"Type":"Foo","RollingUpdate":null}
progressDeadlineSeconds: 5\n  minReadySeconds: 5 => must be greater than minReadySeconds
revisionHistoryLimit: -1 => must be greater than or equal to 0
"#;

/// A text in the manifest, its replacement, and the error message.
const WRONG: &str = r#"
selector: {matchLabels: {app: nginx}} =>  => spec.selector: Required value
selector: {matchLabels: {app: nginx}} => selector: {} => empty selector is invalid for deployment
{labels: {app: nginx}}\n    spec => {labels: {app: other}}\n    spec => `selector` does not match template `labels`
replicas: 3 => replicas: -1 => must be greater than or equal to 0
replicas: 3 => replicas: 3000000000 => int32
spec: {containers => spec: {restartPolicy: Never, containers => spec.template.spec.restartPolicy: Unsupported value: "Never"
name: nginx-deployment => name: Nginx_ => RFC 1123 subdomain
"#;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w39_w42_w54_w61_invalid_changes_are_refused() {
    let swap = |from: &str, to: &str| DEPLOYMENT.replace(from, to);
    with_one(STILL, |served| {
        for [members, wanted] in cases(WRONG_MEMBERS) {
            let members = members.replace("\\n", "\n");
            let manifest = manifest(3, &format!("  {members}\n"));
            served.refuses_manifest(&manifest, &[wanted]);
        }
        for [from, to, wanted] in cases(WRONG) {
            let [from, to] = [from, to].map(|it| it.replace("\\n", "\n"));
            assert!(DEPLOYMENT.contains(&from), "{from}");
            served.refuses_manifest(&swap(&from, &to), &[wanted]);
        }
        served.says("get deployments,rs,pods -o name", "");

        served.apply(&swap("  replicas: 3\n", ""));
        complete(served, 1);
        served.refuses_manifest(
            &swap(
                "{app: nginx}}\n  template:\n    metadata: {labels: {app: nginx}}",
                "{app: b}}\n  template:\n    metadata: {labels: {app: b}}",
            ),
            &["spec.selector: Invalid value", "field is immutable"],
        );
        assert_eq!(member(served, ".metadata.generation"), "1");
        let dotted = served.output("create deployment a.b --image=nginx:1 --dry-run=server");
        let warning = String::from_utf8_lossy(&dotted.stderr).into_owned();
        assert!(
            warning.contains("metadata.name: this is used in Pod names and hostnames"),
            "{warning}"
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w40_rollover_during_an_unfinished_rollout() {
    with_one(STILL, |served| {
        // Three of five pods become ready.
        served.run("create quota object-counts --hard=pods=3");
        served.apply(&manifest(5, ""));
        served.tabulates(ROW, "nginx-deployment 3/5 3 3");
        image(served, BAD);
        sizes(served, "nginx:1.14.2 4\nnginx:bad 3");
        served.run("delete quota object-counts");
        pass(served, 60);
        sizes(served, "nginx:1.14.2 4\nnginx:bad 3");
        image(served, NEW);
        pass(served, 60);
        complete(served, 5);
        sizes(served, "nginx:1.14.2 0\nnginx:1.16.1 5\nnginx:bad 0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w41_terminating_pods_are_not_counted() {
    let slow = ["--engine", "virtual", "--pod-termination-latency", "30s"];
    with_one(&slow, |served| {
        nginx(served, 3, "");
        image(served, NEW);
        pass(served, 5);
        served.tabulates(ROW, "nginx-deployment 3/3 3 3");
        assert_eq!(member(served, ".status.terminatingReplicas"), "3");
        assert_eq!(member(served, ".status.replicas"), "3");
        assert_eq!(count(&served.run("get pods"), "Terminating"), 3);
        served.says(STATUS, DONE);
        pass(served, 31);
        complete(served, 3);
        assert_eq!(member(served, ".status.terminatingReplicas"), "0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w43_to_w45_a_new_selector_by_recreation() {
    let tier = |manifest: &str| {
        manifest.replace(
            "{labels: {app: nginx}}\n    spec",
            "{labels: {app: nginx, tier: web}}\n    spec",
        )
    };
    let selects = |labels: &str| {
        tier(DEPLOYMENT).replace(
            "{matchLabels: {app: nginx}}",
            &format!("{{matchLabels: {labels}}}"),
        )
    };
    let other = DEPLOYMENT
        .replace(
            "{matchLabels: {app: nginx}}",
            "{matchLabels: {app: nginx2}}",
        )
        .replace(
            "{labels: {app: nginx}}\n    spec",
            "{labels: {app: nginx2}}\n    spec",
        );
    with_one(STILL, |served| {
        for next in [selects("{app: nginx, tier: web}"), other.clone()] {
            nginx(served, 3, "");
            let before = names(served);
            served.run("delete deployment nginx-deployment --cascade=orphan");
            served.apply(&next);
            served.tabulates(ROW, "nginx-deployment 3/3 3 3");
            let all = names(served);
            assert_eq!(all.len(), 6, "{all:?}");
            assert!(before.iter().all(|it| all.contains(it)));
            served.runs(&["delete deployment nginx-deployment", "delete rs --all"]);
            served.becomes("get rs,pods -o name", "");
        }
        served.apply(&selects("{app: nginx, tier: web}"));
        complete(served, 3);
        let before = names(served);
        served.run("delete deployment nginx-deployment --cascade=orphan");
        served.apply(&selects("{app: nginx}"));
        complete(served, 3);
        assert_eq!(names(served), before);
        served.becomes(
            "get rs -o jsonpath='{.items[*].spec.selector.matchLabels.tier}'",
            "web",
        );
    });
}
