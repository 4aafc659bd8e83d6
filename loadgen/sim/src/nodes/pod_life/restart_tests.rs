//! Tests of containers that restart all containers of their pod.

use serde_json::{Value, json};

use super::play::{Play, condition, with_init};

/// Returns the spec of a pod with an init container, a sidecar, and a container whose exit code 42
/// restarts all of them.
pub(super) fn ruled() -> Value {
    let mut spec = with_init();
    let container = &mut spec["containers"][0];
    container["restartPolicy"] = json!("Never");
    let exits = |operator: &str, code: i64| json!({"operator": operator, "values": [code]});
    container["restartPolicyRules"] = json!([
        {"action": "Restart", "exitCodes": exits("In", 7)},
        {"action": "RestartAllContainers", "exitCodes": exits("In", 42)}]);
    spec
}

#[test]
fn an_exit_can_restart_all_containers_in_order() {
    let mut play = Play::new(ruled(), "i.run=3s c.run=4s c.exit=42,7,0 s.stop=1s");
    let lines = play.until(9).lines();
    assert_eq!(
        lines.last().unwrap(),
        "9 Running False ContainersNotReady containers with unready status: [c] \
        | i Completed 0 rc 0, s running rc 0, c Error 42 rc 0"
    );
    let status = play.status();
    let last = status["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!(
        last["type"], "AllContainersRestarting",
        "it is the last condition"
    );
    assert_eq!(last["observedGeneration"], Value::Null);
    assert_eq!(
        condition(&status, "AllContainersRestarting"),
        "True RestartAllContainersStarted container exited with restart policy rule"
    );
    assert_eq!(last["lastTransitionTime"], "2027-01-15T08:00:09Z");
    let lines = play.until(10).lines();
    let removed = "10 Running False ContainersNotReady containers with unready status: [s c] \
        | i RestartingAllContainers rc 1, s RestartingAllContainers rc 1, c RestartingAllContainers rc 1";
    assert!(lines.contains(&removed.to_owned()), "{lines:?}");
    let status = play.status();
    assert_eq!(condition(&status, "AllContainersRestarting"), "False");
    assert_eq!(condition(&status, "Initialized"), "True");
    let container = &status["containerStatuses"][0];
    assert_eq!(
        container["state"]["waiting"]["reason"],
        "RestartingAllContainers"
    );
    let message = "The container is removed because RestartAllContainers in place";
    assert_eq!(container["state"]["waiting"]["message"], message);
    let last = json!({"exitCode": 137, "reason": "RestartingAllContainers", "message": message,
        "startedAt": null, "finishedAt": null});
    assert_eq!(container["lastState"]["terminated"], last);

    // Code 7 restarts only the container; code 0 ends the pod.
    let lines = play.until(60).lines();
    let shown = lines
        .iter()
        .filter(|line| line.contains(" True ") || line.contains("Succeeded"));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "13 Running True | i Completed 0 rc 1, s running rc 1, c running rc 1",
            "17 Running True | i Completed 0 rc 1, s running rc 1, c running rc 2",
            "22 Succeeded False PodCompleted | i Completed 0 rc 1, s Error 143 rc 1, c Completed 0 rc 2",
        ]
    );
}

#[test]
fn a_pod_without_a_restart_rule_has_no_condition() {
    let status = Play::new(ruled(), "").until(5).status();
    assert_eq!(condition(&status, "AllContainersRestarting"), "False");
    let status = Play::new(with_init(), "").until(5).status();
    assert_eq!(status["conditions"].as_array().unwrap().len(), 5);
}

#[test]
fn a_pod_deleted_during_its_restart_ends() {
    let mut play = Play::new(ruled(), "c.run=4s c.exit=42 s.stop=2s");
    play.until(7);
    play.delete(30);
    let line = play.until(60).lines().pop().unwrap();
    assert_eq!(
        line,
        "8 Failed False PodFailed | i Completed 0 rc 0, s Error 143 rc 0, c Error 42 rc 0"
    );
    assert_eq!(
        condition(&play.status(), "AllContainersRestarting"),
        "False"
    );
}
