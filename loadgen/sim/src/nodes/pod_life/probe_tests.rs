//! Tests of the probes in a spec: when they run, how many runs count, and their effects.

use serde_json::{Value, json};

use super::play::{Play, one, with_init};

/// Returns the spec of a pod with one container that has a probe.
fn probed(policy: &str, kind: &str, probe: Value) -> Value {
    let mut spec = one(policy);
    spec["containers"][0][kind] = probe;
    spec
}

fn unready(line: &str) -> String {
    line.replace(
        "False",
        "False ContainersNotReady containers with unready status: [c]",
    )
}

/// Returns the lines of the Events with this reason.
fn told(play: &mut Play, reason: &str) -> Vec<String> {
    let told = play.told().into_iter();
    let told = told.filter(|line| line.split(' ').nth(2) == Some(reason));
    told.collect()
}

#[test]
fn a_container_has_started_when_its_startup_probe_passes() {
    let probe = || {
        json!({"exec": {"command": ["x"]}, "initialDelaySeconds": 3, "periodSeconds": 2,
        "failureThreshold": 3})
    };
    let mut play = Play::new(probed("Always", "startupProbe", probe()), "");
    assert_eq!(
        play.until(4).lines()[1],
        unready("2 Running False | c running rc 0")
    );
    assert_eq!(play.status()["containerStatuses"][0]["started"], false);
    assert_eq!(play.until(60).lines(), ["5 Running True | c running rc 0"]);
    assert_eq!(play.status()["containerStatuses"][0]["started"], true);

    // The readiness probe waits for the startup probe.
    let mut spec = probed("Always", "startupProbe", probe());
    spec["containers"][0]["readinessProbe"] = json!({"periodSeconds": 10});
    let mut play = Play::new(spec, "started=4s");
    let lines = play.until(60).lines();
    assert_eq!(lines[2..], ["7 Running True | c running rc 0"]);
    assert_eq!(
        told(&mut play, "Unhealthy"),
        ["5 Warning Unhealthy c: Startup probe failed: "]
    );

    let mut play = Play::new(probed("Always", "startupProbe", probe()), "started=never");
    let lines = play.until(11).lines();
    assert_eq!(
        lines[2..],
        [
            unready("10 Running False | c Completed 0 rc 0"),
            unready("10 Running False | c running rc 1")
        ]
    );
    let all = play.told();
    let failed = |second: i64| format!("{second} Warning Unhealthy c: Startup probe failed: ");
    assert_eq!(all[4..7], [failed(5), failed(7), failed(9)]);
    assert_eq!(
        all[7],
        "9 Normal Killing c: Container c failed startup probe, will be restarted"
    );
}

#[test]
fn readiness_counts_passing_and_failing_runs() {
    let probe = json!({"httpGet": {"port": 80}, "initialDelaySeconds": 1, "periodSeconds": 2,
        "successThreshold": 3, "failureThreshold": 2});
    let spec = || probed("Always", "readinessProbe", probe.clone());
    let mut play = Play::new(spec(), "");
    assert_eq!(
        play.until(60).lines()[1..],
        [
            unready("2 Running False | c running rc 0"),
            "7 Running True | c running rc 0".to_owned()
        ]
    );
    assert_eq!(told(&mut play, "Unhealthy"), [""; 0]);
    let mut play = Play::new(spec(), "ready=2s unready=20s");
    assert_eq!(
        play.until(30).lines()[2..],
        [
            "9 Running True | c running rc 0".to_owned(),
            unready("25 Running False | c running rc 0"),
        ]
    );
    let failed = told(&mut play, "Unhealthy");
    let seconds = failed.iter().map(|line| line.split(' ').next().unwrap());
    assert_eq!(seconds.collect::<Vec<_>>(), ["3", "23", "25", "27", "29"]);
    assert_eq!(play.status()["containerStatuses"][0]["started"], true);
}

#[test]
fn a_failed_liveness_probe_restarts_the_container_by_policy() {
    let probe = json!({"periodSeconds": 5, "failureThreshold": 2,
        "terminationGracePeriodSeconds": 3});
    let spec = |policy: &str| probed(policy, "livenessProbe", probe.clone());
    let ends = |policy: &str, script: &str| {
        let mut play = Play::new(spec(policy), script);
        let lines = play.until(11).lines();
        (lines[2..].to_vec(), told(&mut play, "Killing"))
    };
    // The probe needs two runs, and has its own grace period.
    let (lines, killing) = ends("OnFailure", "unhealthy=1s,never stop=never");
    assert_eq!(
        lines,
        [
            unready("10 Running False | c Error 137 rc 0"),
            "10 Running True | c running rc 1".to_owned()
        ]
    );
    let message = "7 Normal Killing c: Container c failed liveness probe";
    assert_eq!(killing, [format!("{message}, will be restarted")]);
    // The exit code and rules are ignored.
    let (lines, _) = ends("OnFailure", "unhealthy=1s,never stop-exit=0");
    assert_eq!(lines[1], "8 Running True | c running rc 1");
    let (lines, killing) = ends("Never", "unhealthy=1s stop-exit=7");
    assert_eq!(lines, ["8 Failed False PodFailed | c Error 7 rc 0"]);
    assert_eq!(killing, [message]);
}

#[test]
fn a_sidecar_that_has_not_started_blocks_later_containers() {
    let mut spec = with_init();
    spec["initContainers"][1]["startupProbe"] = json!({"periodSeconds": 1, "failureThreshold": 9});
    let mut play = Play::new(spec, "s.started=4s");
    let lines = play.until(60).lines();
    let waits = "False ContainersNotReady containers with unready status: [s c]";
    assert_eq!(
        lines[lines.len() - 3..],
        [
            format!(
                "2 Pending {waits} | i Completed 0 rc 0, s running rc 0, c PodInitializing rc 0"
            ),
            format!(
                "6 Pending {} | i Completed 0 rc 0, s running rc 0, c PodInitializing rc 0",
                waits.replace("s c", "c")
            ),
            "6 Running True | i Completed 0 rc 0, s running rc 0, c running rc 0".to_owned(),
        ]
    );
}
