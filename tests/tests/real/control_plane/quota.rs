//! A quota counted by the real kube-controller-manager, on this server and on a real one.
//!
//! Both servers charge a pod to the quota before they store the pod. The manager counts pods from
//! one watch, and writes the sum at the quota's version from another watch. A count between the two
//! misses the charged pod, so the quota admits one pod too many. A quota that the watch shows too
//! late looks counted, so the room of a deleted pod stays taken until the next count. Neither
//! server can distinguish such a status from a right one.

use std::thread;

use crate::control_plane::manager::{Bodies, Manager};
use crate::control_plane::on_our_server::WORKLOADS;
use crate::control_plane::server::with_real_server;
use crate::served::{Served, with_one};

/// The pods that quotas count. Finished ones do not count, e.g. deleted ones whose containers have
/// ended.
const PODS: &str = "get pods --field-selector=status.phase!=Succeeded,status.phase!=Failed -o name";
const USED: &str = "get quota few -o jsonpath={.status.used.pods}";

/// Runs a test concurrently on this server and on a real one, where the real manager counts a quota
/// of four pods.
fn on_both_servers(flags: &[&str], test: impl Fn(&Served) + Sync) {
    let begin = |served: &Served, controllers: &str| {
        let log = served.path("manager.log");
        let config = served.path("config");
        let _manager = Manager::with(controllers, &config, log, Bodies::Json, flags);
        served.run("create quota few --hard=pods=4");
        served.becomes("get quota few -o jsonpath={.status.hard.pods}", "4");
        served.apply(WORKLOADS);
        test(served);
    };
    let begin = &begin;
    thread::scope(|scope| {
        scope.spawn(move || {
            with_one(&["--controllers", "*,-resourcequota"], |served| {
                begin(served, "resourcequota");
            });
        });
        let all = "resourcequota,deployment,replicaset,replicationcontroller";
        scope.spawn(move || with_real_server(|served| begin(served, all)));
    });
}

/// Wakes the controllers, which wait longer after each refused pod, by changing a label.
fn wake(served: &Served) {
    served.run("label rs,rc --all --overwrite turn=$(date +%s%N)");
}

fn count(served: &Served) -> usize {
    served.words(PODS).len()
}

/// Waits for four pods, and asserts that a fifth is refused.
#[track_caller]
fn is_exact(served: &Served) {
    served.comes_to(USED, |used| {
        wake(served);
        used == "4"
    });
    let full = ["exceeded quota: few", "used: pods=4"];
    served.refuses("run more --image=nginx:1", &full);
    wake(served);
    assert_eq!(count(served), 4);
}

#[test]
#[ignore = "needs kubectl and a built control plane"]
fn a_counted_quota_is_exact_for_later_pods() {
    on_both_servers(&[], |served| {
        is_exact(served);
        for _ in 0..3 {
            served.run("scale deployment/web rc/old --replicas=0");
            served.becomes(USED, "0");
            served.becomes(PODS, "");
            served.run("scale deployment/web rc/old --replicas=5");
            is_exact(served);
        }
    });
}

/// Four is not a limit here: the count may lag behind concurrently created pods, on the real server
/// too. docs/reference/api-differences.md has the frequency on both.
#[test]
#[ignore = "needs kubectl and a built control plane"]
fn an_outdated_count_is_corrected_by_the_next_one() {
    on_both_servers(&["--resource-quota-sync-period=1s"], |served| {
        for _ in 0..3 {
            served.comes_to(USED, |used| {
                wake(served);
                let count = count(served);
                count >= 4 && used == count.to_string()
            });
            served.refuses("run more --image=nginx:1", &["exceeded quota: few"]);
            served.run("delete pods --all");
        }
    });
}
