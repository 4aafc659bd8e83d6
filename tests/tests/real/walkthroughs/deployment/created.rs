//! Creation: columns, conditions, hashes, selectors, and the Deployment's own ReplicaSets.

use super::*;

const REVISION: &str = ".metadata.annotations.deployment\\.kubernetes\\.io/revision";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w26_create_and_read_the_columns() {
    let slow = ["--engine", "virtual", "--pod-startup-latency", "5s"];
    with_each(&slow, |served| {
        served.file("nginx-deployment.yaml", DEPLOYMENT);
        served.says(
            "apply -f nginx-deployment.yaml",
            "deployment.apps/nginx-deployment created",
        );
        served.tabulates(
            "get deployments",
            "NAME READY UP-TO-DATE AVAILABLE\nnginx-deployment 0/3 3 0",
        );
        let waits = served.beside(STATUS, "status");
        waits.shows("0 of 3 updated replicas are available...");
        pass(served, 6);
        waits.ends();
        served.says(STATUS, DONE);
        complete(served, 3);
        let set = set_of(served, OLD);
        let (_, hash) = set.rsplit_once('-').expect("the name ends with the hash");
        served.tabulates("get rs --no-headers", &format!("{set} 3 3 3"));
        let labels = format!(" app=nginx,pod-template-hash={hash}");
        let pods = served.run("get pods --show-labels --no-headers");
        for line in pods.lines() {
            assert!(line.starts_with(&format!("{set}-")), "{line}");
            assert!(line.ends_with(&labels), "{line}");
        }
        let of_set = |path: &str| served.run(&format!("get rs -o jsonpath='{{.items[0]{path}}}'"));
        let uid = member(served, ".metadata.uid");
        let reference = of_set(".metadata.ownerReferences");
        for part in [&uid, "\"controller\":true", "\"blockOwnerDeletion\":true"] {
            assert!(reference.contains(part), "{part}: {reference}");
        }
        let both = format!("{{\"app\":\"nginx\",\"pod-template-hash\":\"{hash}\"}}");
        assert_eq!(of_set(".spec.selector.matchLabels"), both);
        assert_eq!(of_set(".spec.template.metadata.labels"), both);
        let of = "deployment.kubernetes.io";
        let annotations = format!(
            "{{\"{of}/desired-replicas\":\"3\",\"{of}/max-replicas\":\"4\",\"{of}/revision\":\"1\"}}"
        );
        assert_eq!(of_set(".metadata.annotations"), annotations);
        assert_eq!(member(served, REVISION), "1");
        let up = format!("Normal ScalingReplicaSet Scaled up replica set {set} from 0 to 3");
        served.becomes(EVENTS, &up);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w27_status_and_conditions_of_a_first_rollout() {
    let slow = ["--engine", "virtual", "--pod-startup-latency", "10s"];
    with_one(&slow, |served| {
        served.apply(DEPLOYMENT);
        condition(served, "Available False MinimumReplicasUnavailable");
        condition(served, "Progressing True ReplicaSetUpdated");
        let messages = member(served, ".status.conditions[*].message");
        assert!(messages.contains("Deployment does not have minimum availability."));
        assert!(messages.contains("\" is progressing."), "{messages}");
        pass(served, 11);
        condition(served, "Available True MinimumReplicasAvailable");
        condition(served, "Progressing True NewReplicaSetAvailable");
        let messages = member(served, ".status.conditions[*].message");
        assert!(messages.contains("Deployment has minimum availability."));
        assert!(
            messages.contains("\" has successfully progressed."),
            "{messages}"
        );
        let times = "get deployment nginx-deployment -o jsonpath='{range .status.conditions[?(@.type==\"Progressing\")]}\
                     {.lastTransitionTime} {.lastUpdateTime}{end}'";
        let times = served.words(times);
        assert!(times[0] < times[1], "{times:?}");
        let status = member(served, ".status");
        for count in [
            "\"observedGeneration\":1",
            "\"replicas\":3",
            "\"updatedReplicas\":3",
            "\"readyReplicas\":3",
            "\"availableReplicas\":3",
            "\"terminatingReplicas\":0",
        ] {
            assert!(status.contains(count), "{count}: {status}");
        }
        assert!(!status.contains("unavailableReplicas"), "{status}");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w28_completion_stays_recorded() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        let one = name_of(served, 0);
        not_ready(served, &one);
        served.tabulates(ROW, "nginx-deployment 2/3 3 2");
        condition(served, "Available False MinimumReplicasUnavailable");
        pass(served, 1200);
        condition(served, "Progressing True NewReplicaSetAvailable");
        let waits = served.beside(STATUS, "status");
        waits.shows("2 of 3 updated replicas are available...");
        served.run(&format!("delete pod {one}"));
        complete(served, 3);
        condition(served, "Available True MinimumReplicasAvailable");
        waits.ends();
        served.says(STATUS, DONE);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w29_only_the_template_triggers_a_rollout() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        scale(served, 4);
        complete(served, 4);
        let pods = names(served);
        served.runs(&[
            "label deployment nginx-deployment x=y",
            "annotate deployment nginx-deployment a=b",
        ]);
        for members in [
            "\"minReadySeconds\":5",
            "\"strategy\":{\"rollingUpdate\":{\"maxSurge\":2}}",
            "\"revisionHistoryLimit\":3",
            "\"progressDeadlineSeconds\":60",
        ] {
            patch(served, members);
        }
        pass(served, 10);
        complete(served, 4);
        sizes(served, &format!("{OLD} 4"));
        assert_eq!(names(served), pods);
        let copied = "get rs -o jsonpath='{.items[*].metadata.annotations.a} {.items[*].spec.minReadySeconds}'";
        served.says(copied, "b 5");
        for (number, line) in [
            "set image deployment/nginx-deployment nginx=nginx:1.16.1",
            "set env deployment/nginx-deployment A=b",
            "set resources deployment/nginx-deployment --requests=cpu=10m",
            "rollout restart deployment/nginx-deployment",
        ]
        .into_iter()
        .enumerate()
        {
            served.run(line);
            pass(served, 60);
            complete(served, 4);
            let revision = (number + 2).to_string();
            assert_eq!(member(served, REVISION), revision, "{line}");
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w30_pod_template_hash() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        let set = set_of(served, OLD);
        served.run("delete deployment nginx-deployment");
        served.becomes("get rs,pods -o name", "");
        nginx(served, 3, "");
        assert_eq!(set_of(served, OLD), set);
        // A pod without the label has no owner.
        let one = name_of(served, 0);
        served.run(&format!("label pod {one} pod-template-hash-"));
        served.comes_to("get pods -o name", |text| text.lines().count() == 4);
        served.says(&owners_of(&format!("pod {one}")), "");
        served.run(&format!("delete pod {one}"));
        // A foreign ReplicaSet has the name that the next one would get.
        image(served, NEW);
        complete(served, 3);
        let next = set_of(served, NEW);
        served.runs(&["delete deployment nginx-deployment"]);
        served.becomes("get rs,pods -o name", "");
        let stranger = crate::manifests::FRONTEND
            .replace("name: frontend,", &format!("name: {next},"))
            .replace("replicas: 3", "replicas: 0");
        served.apply(&stranger);
        nginx(served, 3, "");
        image(served, NEW);
        complete(served, 3);
        assert_eq!(member(served, ".status.collisionCount"), "1");
        assert_ne!(set_of(served, NEW), next);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w31_match_labels_and_expressions() {
    let selector = "selector: {matchLabels: {app: nginx}, matchExpressions: [{key: app, operator: In, \
                    values: [nginx]}, {key: tier, operator: Exists}]}";
    let both = DEPLOYMENT.replace("selector: {matchLabels: {app: nginx}}", selector);
    with_one(STILL, |served| {
        served.refuses_manifest(&both, &["`selector` does not match template `labels`"]);
        served.apply(&both.replace(
            "metadata: {labels: {app: nginx}}",
            "metadata: {labels: {app: nginx, tier: x}}",
        ));
        complete(served, 3);
        served.shows(
            "describe deployment nginx-deployment",
            &["Selector: app=nginx,app in (nginx),tier\n"],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w32_replica_sets_belong_to_their_deployment() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        let set = set_of(served, OLD);
        served.run(&format!("scale rs/{set} --replicas=10"));
        complete(served, 3);
        scaled(served, &["down nginx:1.14.2 10 3"]);
        let pods = names(served);
        served.run(&format!("delete rs/{set}"));
        complete(served, 3);
        assert_eq!(set_of(served, OLD), set);
        assert!(names(served).iter().all(|it| !pods.contains(it)));
        // A relabeled ReplicaSet is released, and another replaces it.
        served.run(&format!("label rs {set} app=other --overwrite"));
        served.becomes(&owners_of(&format!("rs {set}")), "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w33_a_deployment_adopts_orphans() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        let (pods, set) = (names(served), set_of(served, OLD));
        let orphan = || {
            served.run("delete deployment nginx-deployment --cascade=orphan");
            served.says(&owners_of(&format!("rs {set}")), "");
            assert_eq!(names(served), pods);
        };
        orphan();
        nginx(served, 3, "");
        assert_eq!(names(served), pods);
        condition(served, "Progressing True NewReplicaSetAvailable");
        served.shows(HISTORY, &["\n1 <none>"]);
        orphan();
        served.apply(&DEPLOYMENT.replace(OLD, NEW));
        complete(served, 3);
        sizes(served, &format!("{OLD} 0\n{NEW} 3"));
        served.run("delete deployment nginx-deployment");
        served.becomes("get rs,pods -o name", "");
    });
}
