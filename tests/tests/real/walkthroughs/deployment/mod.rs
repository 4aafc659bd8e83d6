//! Walkthroughs of Deployments: W26 to W66, W177, and the creation of the autoscaler in W148. Tests
//! that wait advance the clock of a server on the virtual engine. Such a server does everything
//! that is due before it answers kubectl.

mod created;
mod failed;
mod patterns;
mod scaled;
mod updated;

use std::collections::BTreeMap;

use super::super::manifests::{DEPLOYMENT, bare_pods, pod};
use super::super::served::{Beside, Served, with_each, with_one};
use super::{all_run, count, name_of, names, not_ready, owners_of, pass};

const OLD: &str = "nginx:1.14.2";
const NEW: &str = "nginx:1.16.1";
const BAD: &str = "nginx:bad";

/// Virtual time stands still, and images with the tag `bad` cannot be pulled.
const STILL: &[&str] = &["--engine", "virtual", "--unpullable-image", "nginx:bad"];

const ROW: &str = "get deployments nginx-deployment --no-headers";
const STATUS: &str = "rollout status deployment/nginx-deployment";
const DONE: &str = "deployment \"nginx-deployment\" successfully rolled out";
const HISTORY: &str = "rollout history deployment/nginx-deployment";
const UNDO: &str = "rollout undo deployment/nginx-deployment";

/// The image and the size of every ReplicaSet.
const SIZES: &str = "get rs --no-headers --sort-by=.spec.template.spec.containers[0].image -o \
                     custom-columns=:.spec.template.spec.containers[0].image,:.spec.replicas";
const SETS: &str = "get rs --no-headers -o \
                    custom-columns=:.metadata.name,:.spec.template.spec.containers[0].image";
const EVENTS: &str = "get events --no-headers -o custom-columns=:.type,:.reason,:.message \
                      --field-selector involvedObject.name=nginx-deployment";

/// The type, status and reason of every condition.
const CONDITIONS: &str = "get deployment nginx-deployment -o jsonpath='{range \
                          .status.conditions[*]}{.type} {.status} {.reason}{\"\\n\"}{end}'";

/// Returns the manifest with `replicas` replicas and with `members` added to its spec.
fn manifest(replicas: usize, members: &str) -> String {
    let line = format!("replicas: {replicas}\n{members}");
    DEPLOYMENT.replace("replicas: 3\n", &line)
}

fn strategy(surge: &str, unavailable: &str) -> String {
    format!("  strategy: {{rollingUpdate: {{maxSurge: {surge}, maxUnavailable: {unavailable}}}}}\n")
}

/// Creates a Deployment and waits until all its pods are available.
fn nginx(served: &Served, replicas: usize, members: &str) {
    served.apply(&manifest(replicas, members));
    complete(served, replicas);
}

/// Waits until all pods have the newest template and are available.
fn complete(served: &Served, replicas: usize) {
    let all = format!("{replicas}/{replicas} {replicas} {replicas}");
    served.tabulates(ROW, &format!("nginx-deployment {all}"));
    all_run(served, replicas);
}

fn image(served: &Served, image: &str) {
    served.says(
        &format!("set image deployment/nginx-deployment nginx={image}"),
        "deployment.apps/nginx-deployment image updated",
    );
}

fn scale(served: &Served, replicas: usize) {
    served.says(
        &format!("scale deployment/nginx-deployment --replicas={replicas}"),
        "deployment.apps/nginx-deployment scaled",
    );
}

/// Merges members into the spec.
fn patch(served: &Served, members: &str) {
    let patch = format!("'{{\"spec\":{{{members}}}}}'");
    served.run(&format!(
        "patch deployment nginx-deployment --type=merge -p {patch}"
    ));
}

/// Waits until the ReplicaSets have these sizes, by image.
fn sizes(served: &Served, wanted: &str) {
    served.becomes(SIZES, wanted);
}

/// Returns the value of a JSON path of the Deployment.
fn member(served: &Served, path: &str) -> String {
    served.run(&format!(
        "get deployment nginx-deployment -o jsonpath='{{{path}}}'"
    ))
}

/// Waits until the Deployment has the condition `wanted`, in the form `TYPE STATUS REASON`.
fn condition(served: &Served, wanted: &str) {
    served.comes_to_show(CONDITIONS, &[wanted]);
}

/// Waits until the last scaling events are `wanted`, each in the form `up IMAGE FROM TO`.
fn scaled(served: &Served, wanted: &[&str]) {
    let words = |text: &str| -> Vec<String> {
        let sets = served.run(SETS);
        let sets = sets.lines().filter_map(|line| line.split_once(' '));
        let images: BTreeMap<&str, &str> = sets.collect();
        let told = text.lines().filter_map(|line| {
            let (_, what) = line.split_once("Scaled ")?;
            let [way, _, _, set, _, from, _, to] = what.split(' ').collect::<Vec<_>>()[..] else {
                return None;
            };
            Some(format!("{way} {} {from} {to}", images.get(set)?))
        });
        told.collect()
    };
    served.comes_to(EVENTS, |text| {
        let told = words(text);
        told.len() >= wanted.len() && told[told.len() - wanted.len()..] == *wanted
    });
}

/// Asserts that all ReplicaSets together never want more than `most` pods and never have fewer than
/// `least` ready ones, until one of them has the row `last`.
fn stays_within(rows: &Beside, last: &str, most: i64, least: i64) {
    let mut sets: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for row in rows.shows(last).lines() {
        let [name, wanted, _, ready, ..] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let number = |text: &str| text.parse().expect("a number");
        sets.insert(name.to_owned(), (number(wanted), number(ready)));
        assert!(sets.values().map(|it| it.0).sum::<i64>() <= most, "{row}");
        assert!(sets.values().map(|it| it.1).sum::<i64>() >= least, "{row}");
    }
}

/// Returns the name of the ReplicaSet whose pods run this image.
fn set_of(served: &Served, image: &str) -> String {
    let sets = served.run(SETS);
    let line = sets.lines().find(|line| line.ends_with(image));
    let line = line.unwrap_or_else(|| panic!("{image}: {sets}"));
    line.split(' ').next().unwrap_or_default().to_owned()
}
