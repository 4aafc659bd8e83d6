//! Tests of the hooks of containers: the steps that wait for hooks, and the effects of failures.

use serde_json::{Value, json};

use super::play::{Play, one, with_init};

fn hooked(policy: &str, lifecycle: Value) -> Value {
    let mut spec = one(policy);
    spec["containers"][0]["lifecycle"] = lifecycle;
    spec
}

fn sleeps(seconds: i64) -> Value {
    json!({"sleep": {"seconds": seconds}})
}

fn unready(line: &str) -> String {
    line.replace(
        "False",
        "False ContainersNotReady containers with unready status: [c]",
    )
}

#[test]
fn a_post_start_hook_blocks_the_pod_while_it_sleeps() {
    let mut spec = hooked("Always", json!({"postStart": sleeps(5)}));
    let other = json!({"name": "d", "image": "i:1"});
    spec["containers"].as_array_mut().unwrap().push(other);
    let mut play = Play::new(spec, "c.run=8s");
    let lines = play.until(9).lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[1], "7 Running True | c running rc 0, d running rc 0");
    let status = play.status();
    let started =
        |number: usize| &status["containerStatuses"][number]["state"]["running"]["startedAt"];
    assert_eq!(started(0), "2027-01-15T08:00:02Z");
    assert_eq!(started(1), "2027-01-15T08:00:07Z");
    // A restart, too, becomes visible only when the hook has ended.
    let lines = play.until(15).lines();
    let waits = "False ContainersNotReady containers with unready status: [c]";
    assert_eq!(
        lines,
        [
            format!("10 Running {waits} | c Completed 0 rc 0, d running rc 0"),
            "15 Running True | c running rc 1, d running rc 0".to_owned(),
        ]
    );

    // A sidecar blocks later containers; a hook that does not sleep blocks nothing.
    let mut spec = with_init();
    spec["initContainers"][1]["lifecycle"] = json!({"postStart": sleeps(3)});
    spec["containers"][0]["lifecycle"] = json!({"postStart": {"exec": {"command": ["x"]}}});
    let lines = Play::new(spec, "").until(9).lines();
    let last = "5 Running True | i Completed 0 rc 0, s running rc 0, c running rc 0";
    assert_eq!(lines.last().unwrap(), last);
}

#[test]
fn a_pod_deleted_during_a_hook_is_stopped() {
    let mut play = Play::new(hooked("Always", json!({"postStart": sleeps(60)})), "");
    play.until(10).lines();
    play.delete(30);
    let lines = play.until(60).lines();
    let last = "11 Succeeded False PodCompleted | c Completed 0 rc 0";
    assert_eq!(lines.last().unwrap(), last);
}

#[test]
fn a_failed_post_start_hook_ends_the_container() {
    let hook = json!({"postStart": {"exec": {"command": ["x"]}}});
    let mut play = Play::new(hooked("Always", hook.clone()), "post-start=fail,fail,ok");
    let lines = play.until(60).lines();
    assert_eq!(
        lines[1..],
        [
            unready("3 Running False | c PostStartHookError rc 0"),
            unready("4 Running False | c PostStartHookError rc 1"),
            unready("5 Running False | c CrashLoopBackOff rc 1"),
            "14 Running True | c running rc 2".to_owned(),
        ]
    );
    assert_eq!(
        play.told()[4..6],
        [
            "2 Warning FailedPostStartHook c: PostStartHook failed",
            "2 Normal Killing c: FailedPostStartHook",
        ]
    );
    let last = play.status()["containerStatuses"][0]["lastState"]["terminated"].clone();
    assert_eq!(last["startedAt"], "2027-01-15T08:00:03Z");
    // The container may not restart.
    let mut play = Play::new(hooked("Never", hook), "post-start=fail");
    let lines = play.until(60).lines();
    assert_eq!(lines[1..], ["3 Failed False PodFailed | c Error 143 rc 0"]);
}

#[test]
fn a_pre_stop_hook_uses_the_grace_period() {
    let deleted = |script: &str, sleep: i64, grace: i64| {
        let mut play = Play::new(hooked("Always", json!({"preStop": sleeps(sleep)})), script);
        play.until(10).lines();
        play.told();
        play.delete(grace);
        let line = play.until(100).lines().pop().unwrap();
        (line, play.told())
    };
    let ends = |script, sleep, grace| deleted(script, sleep, grace).0;
    let well = |second| format!("{second} Succeeded False PodCompleted | c Completed 0 rc 0");
    assert_eq!(ends("", 5, 30), well(16));
    let killed = |second| format!("{second} Failed False PodFailed | c Error 137 rc 0");
    assert_eq!(ends("stop=never", 5, 30), killed(40));
    // The container still has two seconds to stop.
    assert_eq!(ends("", 5, 3), well(14));
    assert_eq!(ends("stop=never", 5, 3), killed(15));
    let (line, told) = deleted("pre-stop=fail", 5, 30);
    assert_eq!(line, well(11));
    assert_eq!(
        told,
        [
            "10 Normal Killing c: Stopping container c",
            "10 Warning FailedPreStopHook c: PreStopHook failed",
        ]
    );
}
