//! The steps of the scenarios.

use serde_json::{Value, json};

use super::play::Play;
use super::scenarios::Owner;

const PODS: &str = "/api/v1/namespaces/NS/pods";

impl Play<'_> {
    fn owners(&self) -> &'static str {
        match self.owner() {
            Owner::ReplicaSet => "/apis/apps/v1/namespaces/NS/replicasets",
            Owner::ReplicationController => "/api/v1/namespaces/NS/replicationcontrollers",
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.owners())
    }

    /// Creates an owner whose pods have its name as the label `app`. `change` is merged into it.
    fn own(&self, name: &str, replicas: u64, change: Value) {
        let labels = json!({"app": name});
        let selector = match self.owner() {
            Owner::ReplicaSet => json!({"matchLabels": labels}),
            Owner::ReplicationController => labels.clone(),
        };
        let mut owner = json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
            "selector": selector, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        merge(&mut owner, &change);
        self.create(self.owners(), owner);
    }

    /// Creates an owner named `web` and waits for its pods.
    fn web(&mut self, replicas: u64) {
        self.own("web", replicas, json!({}));
        self.settle();
    }

    fn scale(&self, name: &str, replicas: u64) {
        self.patch(&self.path(name), json!({"spec": {"replicas": replicas}}));
    }

    /// Creates a pod with the label `app`.
    fn pod(&self, name: &str, app: &str, change: Value) {
        let mut pod = json!({"metadata": {"name": name, "labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        merge(&mut pod, &change);
        self.create(PODS, pod);
    }

    fn patch_pod(&self, name: &str, patch: Value) {
        self.patch(&format!("{PODS}/{name}"), patch);
    }

    /// Sets a pod's label `app`; null removes it.
    fn label(&self, pod: &str, app: Value) {
        self.patch_pod(pod, json!({"metadata": {"labels": {"app": app}}}));
    }

    fn end(&self, pod: &str, phase: &str) {
        let path = format!("{PODS}/{pod}/status");
        self.patch(&path, json!({"status": {"phase": phase}}));
    }

    fn quota(&self, pods: u64) {
        let path = "/api/v1/namespaces/NS/resourcequotas";
        let quota = json!({"metadata": {"name": "few-pods"},
            "spec": {"hard": {"pods": pods.to_string()}}});
        self.create(path, quota);
    }

    /// Creates a limit range for containers from 16 Mi to 1 Gi.
    fn limit(&self) {
        let path = "/api/v1/namespaces/NS/limitranges";
        let range = json!({"metadata": {"name": "memory"}, "spec": {"limits": [{
            "type": "Container", "max": {"memory": "1Gi"}, "min": {"memory": "16Mi"}}]}});
        self.create(path, range);
    }
}

/// Merges a patch, but keeps its nulls.
fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// Scales to one number of replicas after the other.
pub(super) fn up(play: &mut Play<'_>, steps: &[u64]) {
    play.web(steps[0]);
    for replicas in &steps[1..] {
        play.settle();
        play.scale("web", *replicas);
        play.settle();
    }
}

pub(super) fn by_scale(play: &mut Play<'_>, from: u64, to: u64) {
    play.web(from);
    let path = format!("{}/scale", play.path("web"));
    play.patch(&path, json!({"spec": {"replicas": to}}));
}

pub(super) fn grows_beside_a_finished_pod(play: &mut Play<'_>) {
    play.web(3);
    let pod = play.pods("web").remove(0);
    play.end(&pod, "Succeeded");
    play.settle();
    play.scale("web", 5);
}

pub(super) fn grows_where_images_are_missing(play: &mut Play<'_>) {
    let image = json!([{"name": "c", "image": MISSING_IMAGE}]);
    let template = json!({"spec": {"template": {"spec": {"containers": image}}}});
    play.own("web", 2, template);
    play.settle();
    play.scale("web", 6);
}

/// An image that the simulated nodes cannot pull.
pub(super) const MISSING_IMAGE: &str = "missing";

pub(super) fn unready_pods_go_first(play: &mut Play<'_>) {
    play.web(3);
    let image = json!([{"name": "c", "image": MISSING_IMAGE}]);
    let template = json!({"spec": {"replicas": 6, "template": {"spec": {"containers": image}}}});
    play.patch(&play.path("web"), template);
    play.settle();
    // The three ready pods stay; the images show which pods are left.
    play.scale("web", 3);
}

pub(super) fn adopts(play: &mut Play<'_>, orphans: u64, wanted: u64) {
    for number in 0..orphans {
        // Generated names, because either of them may be deleted.
        let name = json!({"metadata": {"name": null, "generateName": "orphan-"}});
        play.pod(&number.to_string(), "web", name);
    }
    play.settle();
    play.web(wanted);
}

pub(super) fn leaves_a_finished_orphan(play: &mut Play<'_>) {
    play.pod("done", "web", json!({}));
    play.settle();
    play.end("done", "Succeeded");
    play.settle();
    play.web(2);
}

pub(super) fn leaves_other_labels(play: &mut Play<'_>) {
    play.pod("stranger", "other", json!({}));
    play.settle();
    play.web(2);
}

pub(super) fn leaves_an_owned_pod(play: &mut Play<'_>) {
    // Both select the same pods; the second finds them owned.
    play.web(2);
    let labels = json!({"app": "web"});
    let change = json!({"spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}}}});
    play.own("second", 3, change);
}

pub(super) fn an_orphan_comes_later(play: &mut Play<'_>) {
    play.web(3);
    let name = json!({"metadata": {"name": null, "generateName": "web-"}});
    play.pod("late", "web", name);
}

pub(super) fn releases(play: &mut Play<'_>, pods: usize) {
    play.web(4);
    for pod in play.pods("web").into_iter().take(pods) {
        play.label(&pod, json!("other"));
    }
}

pub(super) fn releases_without_label(play: &mut Play<'_>) {
    play.web(4);
    play.label(&play.pods("web")[0], Value::Null);
}

pub(super) fn takes_back(play: &mut Play<'_>) {
    play.web(3);
    let pod = play.pods("web").remove(0);
    play.label(&pod, json!("other"));
    play.settle();
    play.label(&pod, json!("web"));
}

pub(super) fn releases_then_shrinks(play: &mut Play<'_>) {
    play.web(5);
    play.label(&play.pods("web")[0], json!("other"));
    play.settle();
    play.scale("web", 2);
}

pub(super) fn readopts(play: &mut Play<'_>, before: u64, after: u64) {
    play.web(before);
    play.delete(&play.path("web"), "Orphan");
    play.settle();
    play.web(after);
}

pub(super) fn readopts_by_another(play: &mut Play<'_>) {
    play.web(3);
    play.delete(&play.path("web"), "Orphan");
    play.settle();
    let labels = json!({"app": "web"});
    let change = json!({"spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}}}});
    play.own("heir", 4, change);
}

pub(super) fn deletes(play: &mut Play<'_>, pods: u64, propagation: &str) {
    play.web(pods);
    play.delete(&play.path("web"), propagation);
}

pub(super) fn waits_for_a_finalizer(play: &mut Play<'_>) {
    play.web(3);
    let pod = play.pods("web").remove(0);
    let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
    play.patch_pod(&pod, finalizers(json!(["example.com/hold"])));
    play.settle();
    play.delete(&play.path("web"), "Foreground");
    play.settle();
    play.patch_pod(&pod, finalizers(json!(null)));
}

pub(super) fn grows_while_deleted(play: &mut Play<'_>) {
    play.web(3);
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    play.patch(&play.path("web"), hold);
    play.settle();
    play.delete(&play.path("web"), "Foreground");
    play.settle();
    play.scale("web", 6);
}

pub(super) fn deletes_one_of_two(play: &mut Play<'_>) {
    play.web(3);
    play.own("other", 2, json!({}));
    play.settle();
    play.delete(&play.path("web"), "Background");
}

pub(super) fn replaces(play: &mut Play<'_>, pods: usize) {
    play.web(5);
    for pod in play.pods("web").into_iter().take(pods) {
        play.delete(&format!("{PODS}/{pod}"), "Background");
    }
}

pub(super) fn replaces_ended(play: &mut Play<'_>, phase: &str) {
    play.web(3);
    play.end(&play.pods("web")[1], phase);
}

pub(super) fn replaces_an_evicted_pod(play: &mut Play<'_>) {
    play.web(3);
    let pod = play.pods("web").remove(0);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod}});
    play.create(&format!("{PODS}/{pod}/eviction"), eviction);
}

pub(super) fn replaces_the_owner(play: &mut Play<'_>) {
    play.web(3);
    play.delete(&play.path("web"), "Background");
    play.web(2);
}

pub(super) fn up_to_quota(play: &mut Play<'_>, quota: u64, wanted: u64) {
    play.quota(quota);
    play.web(wanted);
}

pub(super) fn shrinks_below_the_quota(play: &mut Play<'_>) {
    play.quota(3);
    play.web(5);
    play.scale("web", 2);
}

pub(super) fn the_quota_is_lifted(play: &mut Play<'_>) {
    play.quota(2);
    play.web(4);
    let path = "/api/v1/namespaces/NS/resourcequotas/few-pods";
    play.patch(path, json!({"spec": {"hard": {"pods": "10"}}}));
    // Changing a quota wakes no controller: the retry or a change of the owner does.
    play.pass(60);
    play.scale("web", 5);
}

pub(super) fn memory(limit: &str) -> Value {
    let resources = json!({"limits": {"memory": limit}, "requests": {"memory": limit}});
    json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
}

pub(super) fn refused(play: &mut Play<'_>, pod: Value) {
    play.limit();
    let template = json!({"spec": {"template": {"spec": pod}}});
    play.own("web", 3, template);
}

pub(super) fn mended(play: &mut Play<'_>) {
    refused(play, memory("2Gi"));
    play.settle();
    let template = json!({"spec": {"template": {"spec": memory("64Mi")}}});
    play.patch(&play.path("web"), template);
    play.pass(60);
}

pub(super) fn allowed_later(play: &mut Play<'_>) {
    refused(play, memory("2Gi"));
    play.settle();
    play.delete("/api/v1/namespaces/NS/limitranges/memory", "Background");
    play.pass(60);
    play.scale("web", 4);
}

pub(super) fn relabels_the_owner(play: &mut Play<'_>) {
    play.web(3);
    play.patch(
        &play.path("web"),
        json!({"metadata": {"labels": {"team": "red"}}}),
    );
}

pub(super) fn relabels_the_template(play: &mut Play<'_>) {
    play.web(3);
    let labels = json!({"metadata": {"labels": {"tier": "front"}}});
    play.patch(&play.path("web"), json!({"spec": {"template": labels}}));
    play.settle();
    play.scale("web", 5);
}

pub(super) fn relabels_beside(play: &mut Play<'_>) {
    play.web(3);
    let labels = json!({"metadata": {"labels": {"tier": "front"}}});
    play.patch_pod(&play.pods("web")[0], labels.clone());
    play.patch_pod(&play.pods("web")[1], labels);
}

pub(super) fn moves_over(play: &mut Play<'_>) {
    // Without room for other pods, the remaining ones are certain.
    play.quota(5);
    play.web(3);
    play.own("other", 3, json!({}));
    play.settle();
    play.label(&play.pods("web")[0], json!("other"));
}

pub(super) fn relabels_an_orphan(play: &mut Play<'_>) {
    play.web(2);
    let name = json!({"metadata": {"name": null, "generateName": "web-"}});
    play.pod("stranger", "other", name);
    play.settle();
    play.label(&play.pods("other")[0], json!("web"));
}

/// Longer than a busy machine takes to report pods as ready.
const SECONDS: u64 = 6;

fn with_seconds(seconds: u64) -> Value {
    json!({"spec": {"minReadySeconds": seconds}})
}

pub(super) fn available_later(play: &mut Play<'_>, replicas: u64) {
    play.own("web", replicas, with_seconds(SECONDS));
    play.settle();
    play.pass(SECONDS + 1);
}

pub(super) fn asks_for_more_seconds(play: &mut Play<'_>) {
    play.web(3);
    play.patch(&play.path("web"), with_seconds(3600));
}

pub(super) fn asks_for_no_seconds(play: &mut Play<'_>) {
    play.own("web", 3, with_seconds(3600));
    play.settle();
    play.patch(&play.path("web"), with_seconds(0));
}

pub(super) fn grows_with_seconds(play: &mut Play<'_>) {
    play.own("web", 2, with_seconds(SECONDS));
    play.settle();
    play.pass(SECONDS + 1);
    play.settle();
    play.scale("web", 4);
    play.settle();
    play.pass(SECONDS + 1);
}
