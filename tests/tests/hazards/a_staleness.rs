//! A. Caches that lag, and expectations.

use podstorm_loadgen::faults::{Call, StreamKind};
use podstorm_tests::hazard::objects::idle_set;
use podstorm_tests::hazard::{Did, Scene, minutes, seconds};

/// No second round of creates; the gate refuses syncs before they read anything.
#[test]
fn hazard_01_slow_pod_watch_after_creates() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.hold(StreamKind::Pods, seconds(30));
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        assert_eq!(scene.count(Did::Create), 3);
        let before = scene.syncs().len();
        for _ in 0..5 {
            scene.touch("web");
            scene.run(seconds(2));
        }
        assert_eq!(scene.count(Did::Create), 3);
        let syncs = scene.syncs().split_off(before);
        assert!(syncs.len() >= 5);
        let refused = syncs.iter().filter(|page| page.failed_at().is_some()).count();
        assert_eq!(refused > 0, gate);
        scene.run(seconds(30));
        assert_eq!(scene.status("web").replicas, 3);
        scene.conclude();
    }
}
