//! Walkthroughs of ReplicationControllers: W17 to W25.

use super::super::manifests::{NGINX, pod};
use super::super::served::{Served, with_one};
use super::{ALL_OWNERS, PHASES, all_run, count, name_of, names, not_ready, owners_of, place_six};

const ROW: &str = "get rc nginx --no-headers";
const EVENTS: &str = "get events --field-selector involvedObject.name=nginx \
                      -o custom-columns=:type,:reason,:source.component,:message --no-headers";
const CREATED: &str = "Normal SuccessfulCreate replication-controller Created pod: nginx-";
const DELETED: &str = "Normal SuccessfulDelete replication-controller Deleted pod: ";

/// Waits until exactly this number of pods exist, all ready.
fn has(served: &Served, replicas: usize) {
    served.tabulates(ROW, &format!("nginx {replicas} {replicas} {replicas}"));
    all_run(served, replicas);
}

fn nginx(served: &Served, replicas: usize) {
    served.apply(&NGINX.replace("replicas: 3", &format!("replicas: {replicas}")));
    has(served, replicas);
}

fn told(served: &Served, times: usize, event: &str) {
    served.comes_to(EVENTS, |text| count(text, event) == times);
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w17_run_the_example() {
    with_one(&["--pod-startup-latency", "3s"], |served| {
        served.file("replication.yaml", NGINX);
        served.says(
            "apply -f replication.yaml",
            "replicationcontroller/nginx created",
        );
        told(served, 3, CREATED);
        let describe = "describe replicationcontrollers/nginx";
        served.comes_to_show(
            describe,
            &[
                "Selector: app=nginx\nLabels: app=nginx\n",
                "Replicas: 3 current / 3 desired\n",
                "Pods Status: 0 Running / 3 Waiting / 0 Succeeded / 0 Failed\n",
                "replication-controller Created pod: nginx-",
            ],
        );
        let running = "Pods Status: 3 Running / 0 Waiting / 0 Succeeded / 0 Failed\n";
        served.comes_to_show(describe, &[running]);
        served.tabulates("get rc", "NAME DESIRED CURRENT READY\nnginx 3 3 3");
        let pods =
            served.run("get pods --selector=app=nginx --output=jsonpath={.items..metadata.name}");
        assert_eq!(pods.split(' ').count(), 3, "{pods}");
        let owners = "get pods -o jsonpath='{.items[*].metadata.ownerReferences[0]}'";
        let owners = served.run(owners);
        for member in [
            "\"apiVersion\":\"v1\"",
            "\"kind\":\"ReplicationController\"",
        ] {
            assert_eq!(count(&owners, member), 3, "{owners}");
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w18_manifest_rules_and_defaults() {
    const SELECTOR: &str = "  selector: {app: nginx}\n";
    const LABELS: &str = "metadata: {name: nginx, labels: {app: nginx}}";
    with_one(&[], |served| {
        let (without_template, _) = NGINX
            .split_once("  template:")
            .expect("a manifest with a template");
        for (manifest, wanted) in [
            (
                NGINX.replace(SELECTOR, "  selector: {app: other}\n"),
                [
                    "spec.template.metadata.labels",
                    "`selector` does not match template `labels`",
                ],
            ),
            (
                NGINX.replace(
                    "spec: {containers",
                    "spec: {restartPolicy: Never, containers",
                ),
                [
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\"",
                    "supported values: \"Always\"",
                ],
            ),
            (
                without_template.to_owned(),
                ["spec.template: Required value", "nginx"],
            ),
            (
                NGINX
                    .replace(SELECTOR, "")
                    .replace(LABELS, "metadata: {name: nginx}"),
                ["spec.selector: Required value", "nginx"],
            ),
        ] {
            served.refuses_manifest(&manifest, &wanted);
        }
        served.says("get rc,pods -o name", "");

        served.apply(&NGINX.replace(SELECTOR, "").replace("  replicas: 3\n", ""));
        served.says(
            "get rc nginx -o jsonpath='{.spec.selector} {.metadata.labels} {.spec.replicas}'",
            "{\"app\":\"nginx\"} {\"app\":\"nginx\"} 1",
        );
        has(served, 1);
        served.run("delete rc nginx");
        served.becomes("get pods -o name", "");

        let labelled = NGINX.replacen("{name: nginx}", "{name: nginx, labels: {team: web}}", 1);
        served.apply(&labelled.replace(LABELS, "metadata: {labels: {app: nginx, ver: one}}"));
        has(served, 3);
        served.says(
            "get rc nginx -o jsonpath='{.metadata.labels}'",
            "{\"team\":\"web\"}",
        );
        served.comes_to("get pods -l ver=one -o name", |text| {
            text.lines().count() == 3
        });
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w19_the_number_is_kept_whatever_happens_to_pods() {
    let times = [
        "--pod-startup-latency=500ms",
        "--node-monitor-grace-period=1s",
        "--node-monitor-period=500ms",
        "--default-unreachable-toleration-seconds=1",
    ];
    with_one(&times, |served| {
        nginx(served, 3);
        served.run(&format!("delete pod {}", name_of(served, 0)));
        has(served, 3);
        let failed = name_of(served, 0);
        let patch = "'{\"status\":{\"phase\":\"Failed\"}}'";
        served.run(&format!(
            "patch pod {failed} --subresource=status -p {patch}"
        ));
        served.comes_to(PHASES, |text| {
            count(text, "Running") == 3 && count(text, "Failed") == 1
        });
        served.tabulates(ROW, "nginx 3 3 3");
        served.run(&format!("delete pod {failed}"));
        let evicted = name_of(served, 0);
        let eviction = format!(
            "{{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{{\"name\":\"{evicted}\"}}}}"
        );
        served.file("eviction.json", &eviction);
        let path = format!("/api/v1/namespaces/default/pods/{evicted}/eviction");
        served.run(&format!("create --raw {path} -f eviction.json"));
        has(served, 3);
        assert!(!names(served).contains(&evicted));

        let before = names(served);
        served.apply(&pod("extra", "labels: {app: nginx}", ""));
        told(served, 1, &format!("{DELETED}extra"));
        has(served, 3);
        assert_eq!(names(served), before);

        for pod in &before {
            not_ready(served, pod);
        }
        served.tabulates(ROW, "nginx 3 3 0");
        served.run(&format!("label pod {} note=seen", before[0]));
        served.apply(&NGINX.replace("image: nginx", "image: 'nginx:2'"));
        served.run("wait rc/nginx --for=jsonpath={.status.observedGeneration}=2");
        assert_eq!(names(served), before, "no pod was replaced");
        served.says(
            "get pods -o jsonpath='{.items[*].spec.containers[0].image}'",
            "nginx nginx nginx",
        );

        served.run("scale rc nginx --replicas=1");
        served.tabulates(ROW, "nginx 1 1 0");
        let node = served.run("get pods -o jsonpath={.items[0].spec.nodeName}");
        served.run(&format!("annotate node {node} podstorm/kubelet=silent"));
        served.tabulates(ROW, "nginx 1 1 1");
        let elsewhere = format!("get pods --field-selector spec.nodeName!={node}");
        served.shows(&elsewhere, &["1/1 Running"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w20_no_set_based_selector() {
    with_one(&[], |served| {
        for selector in [
            "{matchExpressions: [{key: app, operator: In, values: [nginx]}]}",
            "{matchLabels: {app: nginx}}",
        ] {
            served.refuses_manifest(
                &NGINX.replace("selector: {app: nginx}", &format!("selector: {selector}")),
                &["cannot unmarshal", "of type string"],
            );
        }
        served.says("get rc -o name", "");
        let set = super::super::manifests::FRONTEND.replace(
            "{matchLabels: {tier: frontend}}",
            "{matchExpressions: [{key: tier, operator: In, values: [frontend]}]}",
        );
        served.apply(&set);
        served.tabulates("get rs --no-headers", "frontend 3 3 3");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w21_delete_with_and_without_pods() {
    const PATH: &str = "/api/v1/namespaces/default/replicationcontrollers/nginx";
    with_one(&[], |served| {
        nginx(served, 3);
        let watched = served.beside("get rc nginx -w --no-headers", "rows");
        watched.shows("nginx 3 3 3");
        served.says("delete rc nginx", "replicationcontroller \"nginx\" deleted");
        served.becomes("get pods -o name", "");
        assert!(
            !watched.shows("nginx").contains("nginx 0"),
            "the deletion does not scale to 0"
        );

        nginx(served, 3);
        let before = names(served);
        served.run("delete rc nginx --cascade=orphan");
        served.says(ALL_OWNERS, "");
        served.apply(&NGINX.replace("image: nginx", "image: 'nginx:2'"));
        has(served, 3);
        assert_eq!(names(served), before);
        served.says(
            "get pods -o jsonpath='{.items[*].spec.containers[0].image}'",
            "nginx nginx nginx",
        );

        let (status, answer) = served.rest("DELETE", PATH, "");
        assert_eq!(status, 200, "{answer}");
        served.becomes("get rc -o name", "");
        served.says(ALL_OWNERS, "");
        assert_eq!(names(served), before);

        nginx(served, 3);
        served.run("scale rc/nginx --replicas=0");
        has(served, 0);
        served.run("delete rc nginx");
        served.says("get rc,pods -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w22_isolate_and_scale() {
    with_one(&[], |served| {
        nginx(served, 3);
        let one = name_of(served, 0);
        served.run(&format!("label pod {one} app=debug --overwrite"));
        told(served, 4, CREATED);
        served.becomes(&owners_of(&format!("pod {one}")), "");
        served.tabulates(ROW, "nginx 3 3 3");
        served.run(&format!("label pod {one} app=nginx --overwrite"));
        told(served, 1, DELETED);
        has(served, 3);

        served.says(
            "scale rc/nginx --replicas=5",
            "replicationcontroller/nginx scaled",
        );
        has(served, 5);
        served.shows(
            "get --raw /api/v1/namespaces/default/replicationcontrollers/nginx/scale",
            &[
                "\"kind\":\"Scale\"",
                "\"replicas\":5,\"selector\":\"app=nginx\"",
            ],
        );
        served.refuses(
            "scale --current-replicas=9 --replicas=1 rc/nginx",
            &["Expected replicas to be 9, was 5"],
        );
        served.run("scale rc/nginx --replicas=2");
        has(served, 2);

        // Four of six pods are on one node. Colocation does not count, so the cost decides.
        served.run("delete rc nginx");
        served.becomes("get pods -o name", "");
        place_six(served, "app: nginx");
        served.run("annotate pod p5 controller.kubernetes.io/pod-deletion-cost=-1");
        nginx(served, 5);
        served.refuses("get pod p5", &["NotFound"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w23_rolling_update_by_hand() {
    let version = |version: &str, image: &str, replicas: &str| {
        NGINX
            .replacen("{name: nginx}", &format!("{{name: nginx-{version}}}"), 1)
            .replace("{app: nginx}", &format!("{{app: nginx, ver: {version}}}"))
            .replace("image: nginx", &format!("image: '{image}'"))
            .replace("replicas: 3", replicas)
    };
    with_one(&[], |served| {
        let versions = |old: usize, new: usize| {
            served.comes_to("get pods -L ver --no-headers", |text| {
                let ready = |version| {
                    text.lines()
                        .filter(|it| it.contains(" 1/1 Running ") && it.ends_with(version))
                        .count()
                };
                ready(" v1") == old && ready(" v2") == new && text.lines().count() == old + new
            });
        };
        served.apply(&version("v1", "nginx:1.14.2", "replicas: 3"));
        versions(3, 0);
        let watched = served.beside("get rc -w --no-headers", "rows");
        served.apply(&version("v2", "nginx:1.16.1", "replicas: 1"));
        versions(3, 1);
        for (old, new) in [(2, 1), (2, 2), (1, 2), (1, 3), (0, 3)] {
            let name = if old + new == 3 {
                ("nginx-v1", old)
            } else {
                ("nginx-v2", new)
            };
            served.run(&format!("scale rc {} --replicas={}", name.0, name.1));
            versions(old, new);
        }
        served.run("delete rc nginx-v1");
        versions(0, 3);
        // Never fewer than three ready pods.
        let (mut old, mut new) = (3, 0);
        for row in watched.shows("nginx-v1 0 0 0").lines() {
            let ready = row.split(' ').nth(3).and_then(|it| it.parse().ok());
            let ready: i32 = ready.expect("a number");
            match row.starts_with("nginx-v1") {
                true => old = ready,
                false => new = ready,
            }
            assert!(old + new >= 3, "{row}");
        }
        served.refuses(
            "rolling-update nginx-v1 nginx-v2",
            &["unknown command \"rolling-update\""],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w24_release_tracks_behind_one_service() {
    let track = |track: &str, replicas: usize| {
        let labels = format!("{{tier: frontend, environment: prod, track: {track}}}");
        NGINX
            .replacen("{name: nginx}", &format!("{{name: {track}}}"), 1)
            .replace("{app: nginx}", &labels)
            .replace("replicas: 3", &format!("replicas: {replicas}"))
    };
    const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: frontend}
spec: {selector: {tier: frontend, environment: prod}, ports: [{port: 80}]}
";
    with_one(&[], |served| {
        let created =
            served.apply(&[&track("stable", 9), &track("canary", 1), SERVICE].join("---"));
        assert_eq!(created.lines().last(), Some("service/frontend created"));
        let service = served.run("get service frontend -o yaml");
        let both = |all: usize, canary: usize| {
            let selection = "get pods -l 'tier in (frontend), environment in (prod)' -o name";
            served.comes_to(selection, |text| text.lines().count() == all);
            let lines = |text: &str| text.lines().count() == canary;
            served.comes_to("get pods -l track=canary -o name", lines);
            let ready = "get endpointslices -l kubernetes.io/service-name=frontend \
                         -o jsonpath={.items[*].endpoints[*].conditions.ready}";
            served.becomes(ready, &vec!["true"; all].join(" "));
        };
        both(10, 1);
        let stable = served.run("get pods -l track=stable -o name");
        for (replicas, all) in [(0, 9), (2, 11)] {
            served.run(&format!("scale rc canary --replicas={replicas}"));
            both(all, replicas);
        }
        served.run("delete rc canary");
        both(9, 0);
        served.says("get pods -l track=stable -o name", &stable);
        served.says("get service frontend -o yaml", &service);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w25_an_idle_controller_writes_nothing() {
    // Ten minutes take one second.
    with_one(&["--time-scale", "600"], |served| {
        nginx(served, 3);
        let seconds = || -> f64 {
            let clock = served.run("get --raw /podstorm/clock");
            let (_, after) = clock
                .split_once("\"seconds\":")
                .expect("the time in seconds");
            let number = after.split(',').next().expect("a number");
            number.parse().expect("a number")
        };
        let versions =
            "get rc,pods -l app=nginx -o jsonpath='{.items[*].metadata.resourceVersion}'";
        let before = served.run(versions);
        let since = seconds();
        served.says("run bare --image=nginx", "pod/bare created");
        served.run("wait --for=condition=Ready pod/bare");
        served.says(&owners_of("pod bare"), "");
        served.comes_to("get --raw /podstorm/clock", |_| seconds() - since > 600.0);
        served.says(versions, &before);
        served.says("get rc -o name", "replicationcontroller/nginx");
    });
}
