//! Worked examples of the Events in a pod's life.

use serde_json::json;

use super::play::{Play, one, with_init};

#[test]
fn a_job_pod_records_only_its_start() {
    for script in ["run=5s", "run=5s exit=3"] {
        let mut play = Play::new(one("Never"), script);
        assert_eq!(
            play.until(100).told(),
            [
                "0 Normal Pulling c: Pulling image \"i:1\"",
                "2 Normal Pulled c: Successfully pulled image \"i:1\" in 2s (2s including waiting). Image size: 10485760 bytes.",
                "2 Normal Created c: Container created",
                "2 Normal Started c: Container started",
            ]
        );
    }
}

#[test]
fn each_wait_of_a_crash_loop_records_a_back_off() {
    let mut play = Play::new(one("Always"), "run=1s exit=1");
    play.until(2).told();
    let present =
        "Container image \"i:1\" already present on machine and can be accessed by the pod";
    let started = |second: i64| {
        [
            format!("{second} Normal Pulled c: {present}"),
            format!("{second} Normal Created c: Container created"),
            format!("{second} Normal Started c: Container started"),
        ]
    };
    let backs_off = |second: i64| {
        format!("{second} Warning BackOff c: Back-off restarting failed container c in pod p_n(u)")
    };
    let mut expected = started(3).to_vec();
    expected.push(backs_off(5));
    expected.extend(started(14));
    expected.push(backs_off(16));
    assert_eq!(play.until(20).told(), expected);
}

#[test]
fn failed_pulls_and_back_offs_are_recorded() {
    let spec = json!({"containers": [{"name": "c", "image": "missing:1"}]});
    let mut play = Play::new(spec.clone(), "");
    let failed =
        "Failed to pull image \"missing:1\": failed to pull image \"missing:1\": not found";
    let told = |at: [i64; 3]| {
        let [pulled, failed_at, backed_off] = at;
        [
            format!("{pulled} Normal Pulling c: Pulling image \"missing:1\""),
            format!("{failed_at} Warning Failed c: {failed}"),
            format!("{failed_at} Warning Failed c: Error: ErrImagePull"),
            format!("{backed_off} Normal BackOff c: Back-off pulling image \"missing:1\""),
            format!("{backed_off} Warning Failed c: Error: ImagePullBackOff"),
        ]
    };
    let expected = [told([0, 2, 3]), told([12, 12, 13]), told([32, 32, 33])].concat();
    assert_eq!(play.until(60).told(), expected);
    // No container is running, so none is killed.
    play.delete(30);
    assert_eq!(play.until(80).told(), [""; 0]);

    let mut never = spec;
    never["containers"][0]["imagePullPolicy"] = json!("Never");
    let mut play = Play::new(never, "");
    let absent = "Container image \"missing:1\" is not present with pull policy of Never";
    let told = |second: i64| {
        [
            format!("{second} Warning ErrImageNeverPull c: {absent}"),
            format!("{second} Warning Failed c: Error: ErrImageNeverPull"),
        ]
    };
    assert_eq!(play.until(15).told(), [told(2), told(12)].concat());
    let waiting = play.status()["containerStatuses"][0]["state"]["waiting"].clone();
    assert_eq!(
        waiting,
        json!({"reason": "ErrImageNeverPull", "message": absent})
    );
}

#[test]
fn a_deleted_pod_records_its_stopped_containers() {
    let mut play = Play::new(one("Always"), "stop=never");
    play.until(10).told();
    play.delete(30);
    play.until(20);
    play.delete(5);
    assert_eq!(
        play.until(60).told(),
        ["10 Normal Killing c: Stopping container c"]
    );
}

#[test]
fn sidecars_stop_when_the_work_is_done() {
    let mut play = Play::new(with_init(), "i.run=3s c.run=5s");
    let told = play.until(60).told();
    let reasons = told.iter().map(|line| line.split(':').next().unwrap());
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        [
            "0 Normal Pulling i",
            "2 Normal Pulled i",
            "2 Normal Created i",
            "2 Normal Started i",
            "5 Normal Pulling s",
            "5 Normal Pulled s",
            "5 Normal Created s",
            "5 Normal Started s",
            "5 Normal Pulling c",
            "5 Normal Pulled c",
            "5 Normal Created c",
            "5 Normal Started c",
            "10 Normal Killing s",
        ]
    );
}

#[test]
fn deadlines_and_evictions_are_recorded_before_the_stops() {
    let mut spec = one("Never");
    spec["activeDeadlineSeconds"] = json!(10);
    let mut play = Play::new(spec, "stop=3s");
    play.until(9).told();
    let over = "10 Normal DeadlineExceeded pod: Pod was active on the node longer than the specified deadline";
    let killing = "10 Normal Killing c: Stopping container c";
    assert_eq!(play.until(60).told(), [over, over, killing]);
    let mut play = Play::new(one("Always"), "evicted=10s");
    play.until(9).told();
    let evicted = "10 Warning Evicted pod: The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ";
    assert_eq!(play.until(60).told(), [evicted, killing]);
}

#[test]
fn failed_probe_runs_are_recorded() {
    let mut spec = one("Always");
    spec["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["x"]}, "periodSeconds": 2, "initialDelaySeconds": 1});
    spec["containers"][0]["livenessProbe"] =
        json!({"tcpSocket": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2});
    let mut play = Play::new(spec, "ready=4s unhealthy=20s");
    play.until(2).told();
    let unready = "Warning Unhealthy c: Readiness probe failed: ";
    let unhealthy =
        "Warning Unhealthy c: Liveness probe failed: dial tcp :80: connect: connection refused";
    assert_eq!(
        play.until(22).told(),
        [
            format!("3 {unready}"),
            format!("5 {unready}"),
            format!("17 {unhealthy}"),
            format!("22 {unhealthy}"),
            "22 Normal Killing c: Container c failed liveness probe, will be restarted".to_owned(),
        ]
    );
    let told = play.until(23).told();
    assert_eq!(told[2], "23 Normal Started c: Container started");
    // A probe that never passes fails in every run.
    let mut play = Play::new(one("Always"), "ready=never");
    play.until(2).told();
    let told = play.until(32).told();
    let failed =
        "12 Warning Unhealthy c: Readiness probe failed: HTTP probe failed with statuscode: 500";
    assert_eq!((told.len(), &*told[0]), (3, failed));
}

#[test]
fn an_invalid_script_is_a_container_error() {
    let mut play = Play::new(one("Always"), "run=soon");
    let told = play.until(60).told();
    let error = "Error: script: expected times like 30s or 1m30s, or never in \"run=soon\"";
    assert_eq!(told[2..], [format!("2 Warning Failed c: {error}")]);
}
