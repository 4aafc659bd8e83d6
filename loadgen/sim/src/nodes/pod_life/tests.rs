//! Worked examples of a kubelet's pod statuses, with their times.

use podstorm_objects::{Object, Resource};
use serde_json::{Value, json};

use super::play::{Play, condition, one, text, with_init};
use super::restart_tests::ruled;
use super::*;

#[test]
fn a_job_pods_exit_code_decides_its_phase() {
    let mut play = Play::new(one("Never"), "run=5s");
    play.until(100);
    assert_eq!(
        play.lines(),
        [
            "0 Pending False ContainersNotReady containers with unready status: [c] | c ContainerCreating rc 0",
            "2 Running True | c running rc 0",
            "7 Succeeded False PodCompleted | c Completed 0 rc 0",
        ]
    );
    let status = play.status();
    let types = status["conditions"].as_array().unwrap();
    let types: Vec<&str> = types.iter().map(|it| text(&it["type"])).collect();
    assert_eq!(
        types,
        [
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled"
        ]
    );
    assert_eq!(condition(&status, "PodReadyToStartContainers"), "False");
    assert_eq!(condition(&status, "Initialized"), "True PodCompleted");
    assert_eq!(
        status["conditions"][4]["lastTransitionTime"],
        "2027-01-15T08:00:00Z"
    );
    assert_eq!(
        status["conditions"][1]["lastTransitionTime"],
        "2027-01-15T08:00:00Z"
    );
    assert_eq!(
        status["conditions"][2]["lastTransitionTime"],
        "2027-01-15T08:00:07Z"
    );
    assert_eq!(status["conditions"][2]["observedGeneration"], 1);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["startTime"], "2027-01-15T08:00:00Z");
    assert_eq!(status["podIP"], "10.1.0.7");
    assert_eq!(status["qosClass"], "BestEffort");
    let end = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(end["startedAt"], "2027-01-15T08:00:02Z");
    assert_eq!(end["finishedAt"], "2027-01-15T08:00:07Z");
    assert_eq!(status["containerStatuses"][0]["started"], false);
    assert!(play.life.has_ended() && play.life.next_ns().is_none());

    let mut play = Play::new(one("Never"), "run=5s exit=3");
    let lines = play.until(100).lines();
    assert_eq!(lines[2..], ["7 Failed False PodFailed | c Error 3 rc 0"]);
}

#[test]
fn a_crashing_container_restarts_with_doubling_back_offs() {
    let mut play = Play::new(one("Always"), "run=1s exit=1");
    play.until(20);
    let unready = "False ContainersNotReady containers with unready status: [c]";
    let expected = [
        "0 Pending False | c ContainerCreating rc 0",
        "2 Running True | c running rc 0",
        "3 Running False | c Error 1 rc 0",
        "3 Running True | c running rc 1",
        "4 Running False | c Error 1 rc 1",
        "5 Running False | c CrashLoopBackOff rc 1",
        "14 Running True | c running rc 2",
        "15 Running False | c Error 1 rc 2",
        "16 Running False | c CrashLoopBackOff rc 2",
    ];
    let expected = expected.map(|line| line.replace("False", unready));
    assert_eq!(play.lines(), expected);
    let container = play.status()["containerStatuses"][0].clone();
    let waiting = &container["state"]["waiting"];
    assert_eq!(
        waiting["message"],
        "back-off 20s restarting failed container=c pod=p_n(u)"
    );
    let last = &container["lastState"]["terminated"];
    assert_eq!(last["finishedAt"], "2027-01-15T08:00:15Z");
    assert_eq!(container["ready"], false);

    // Back-offs grow to five minutes, and a container that ran for ten minutes restarts without
    // one.
    play.lines();
    play.until(2000);
    let starts: Vec<i64> = play
        .lines()
        .iter()
        .filter(|line| line.contains("c running"))
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(starts[..6], [35, 76, 157, 318, 619, 920]);
    let mut play = Play::new(one("Always"), "run=1s,1s,601s,1s");
    let starts = |play: &mut Play| {
        play.lines()
            .iter()
            .filter(|it| it.contains("running"))
            .count()
    };
    play.until(14);
    assert_eq!(starts(&mut play), 3);
    play.until(615);
    assert_eq!(starts(&mut play), 1, "at once");
}

#[test]
fn exits_apply_by_instance_and_containers_have_restart_rules() {
    let mut play = Play::new(one("OnFailure"), "run=1s exit=1,SIGSEGV,0");
    let lines = play.until(60).lines();
    assert_eq!(
        lines.last().unwrap(),
        "15 Succeeded False PodCompleted | c Completed 0 rc 2"
    );
    assert!(lines.iter().any(|line| line.contains("c Error 139 rc 1")));

    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i:1", "restartPolicy": "Never", "restartPolicyRules": rules}]});
    let mut play = Play::new(spec, "run=1s exit=42,1");
    let lines = play.until(60).lines();
    assert_eq!(
        lines.last().unwrap(),
        "4 Failed False PodFailed | c Error 1 rc 1"
    );
}

#[test]
fn a_missing_image_is_pulled_with_doubling_back_offs() {
    let spec = json!({"containers": [{"name": "c", "image": "missing:1"}]});
    let mut play = Play::new(spec, "");
    let lines = play.until(700).lines();
    let pulls: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains("ErrImagePull"))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(pulls, ["2", "12", "32", "72", "152", "312", "612"]);
    assert!(
        lines
            .iter()
            .all(|line| line.contains(" Pending False ContainersNotReady"))
    );
    let status = play.status();
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    assert_eq!(
        waiting["message"],
        "Back-off pulling image \"missing:1\": ErrImagePull: failed to pull image \"missing:1\": not found"
    );
    assert_eq!(status["podIP"], Value::Null);
    assert_eq!(status["hostIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!(condition(&status, "PodReadyToStartContainers"), "True");
    // The pod is deleted while it waits.
    play.delete(30);
    play.until(800);
    let unready = "False ContainersNotReady containers with unready status: [c]";
    assert_eq!(
        play.lines().last().unwrap(),
        &format!("700 Failed {unready} | c ContainerStatusUnknown 137 rc 0")
    );
    let end = &play.status()["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(end["finishedAt"], Value::Null);

    // With another image, the pod starts.
    let spec = json!({"containers": [{"name": "c", "image": "missing:1"}]});
    let mut play = Play::new(spec, "");
    play.until(20).lines();
    let mut json = play.pod.to_json();
    json["spec"]["containers"][0]["image"] = json!("there:1");
    play.pod = Pod::from_json(json).unwrap();
    play.see();
    let lines = play.until(20).lines();
    assert_eq!(lines.last().unwrap(), "20 Running True | c running rc 0");
    assert_eq!(play.status()["containerStatuses"][0]["image"], "there:1");

    let mut play = Play::new(one("Always"), "pull=fail,ok");
    let lines = play.until(60).lines();
    assert_eq!(lines.last().unwrap(), "12 Running True | c running rc 0");
}

#[test]
fn a_deleted_pod_reports_its_end_before_its_removal() {
    let mut play = Play::new(one("Always"), "stop=2s");
    play.until(10).lines();
    play.delete(30);
    play.until(60);
    assert_eq!(
        play.lines(),
        [
            "10 Running True | c running rc 0",
            "12 Succeeded False PodCompleted | c Completed 0 rc 0",
        ]
    );
    assert_eq!(play.status()["observedGeneration"], 2);

    let mut play = Play::new(one("Always"), "stop=never");
    play.until(10).lines();
    play.delete(30);
    let lines = play.until(60).lines();
    assert_eq!(lines[1..], ["40 Failed False PodFailed | c Error 137 rc 0"]);

    // A shorter grace period takes effect immediately.
    let mut play = Play::new(one("Always"), "stop=never");
    play.until(10).lines();
    play.delete(30);
    play.until(20);
    play.delete(5);
    let lines = play.until(60).lines();
    assert_eq!(
        lines.last().unwrap(),
        "25 Failed False PodFailed | c Error 137 rc 0"
    );

    // Interrupted work has failed.
    let mut play = Play::new(one("Never"), "run=never");
    play.until(10).lines();
    play.delete(30);
    let lines = play.until(60).lines();
    assert_eq!(lines[1..], ["11 Failed False PodFailed | c Error 143 rc 0"]);

    // During the back-off, the container has already ended.
    let mut play = Play::new(one("Always"), "run=1s exit=1");
    play.until(10).lines();
    play.delete(30);
    let lines = play.until(60).lines();
    let unready = "False ContainersNotReady containers with unready status: [c]";
    assert_eq!(
        lines,
        [
            format!("10 Running {unready} | c Error 1 rc 1"),
            "10 Failed False PodFailed | c Error 1 rc 1".to_owned()
        ]
    );
}

#[test]
fn init_containers_run_first_and_sidecars_end_last() {
    let mut play = Play::new(with_init(), "i.run=3s c.run=5s s.stop-exit=7");
    let lines = play.until(60).lines();
    let waits = "False ContainersNotReady containers with unready status: [s c]";
    assert_eq!(
        lines,
        [
            format!("0 Pending {waits} | i PodInitializing rc 0, s PodInitializing rc 0, c PodInitializing rc 0"),
            format!("2 Pending {waits} | i running rc 0, s PodInitializing rc 0, c PodInitializing rc 0"),
            format!("5 Pending {waits} | i Completed 0 rc 0, s PodInitializing rc 0, c PodInitializing rc 0"),
            "5 Running True | i Completed 0 rc 0, s running rc 0, c running rc 0".to_owned(),
            "10 Running False ContainersNotReady containers with unready status: [c] | i Completed 0 rc 0, s running rc 0, c Completed 0 rc 0".to_owned(),
            "11 Succeeded False PodCompleted | i Completed 0 rc 0, s Error 7 rc 0, c Completed 0 rc 0".to_owned(),
        ]
    );
    let status = play.status();
    assert_eq!(condition(&status, "Initialized"), "True PodCompleted");
    assert_eq!(status["initContainerStatuses"][0]["ready"], true);
    assert_eq!(status["initContainerStatuses"][0]["started"], false);
    let mut play = Play::new(with_init(), "i.run=3s");
    play.until(3);
    let status = play.status();
    assert_eq!(
        condition(&status, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [i s]"
    );
    assert_eq!(status["podIP"], "10.1.0.7");
    assert_eq!(status["initContainerStatuses"][0]["started"], true);
}

#[test]
fn a_permanently_failed_init_container_fails_its_pod() {
    let mut play = Play::new(with_init(), "i.run=3s i.exit=2");
    let lines = play.until(60).lines();
    assert_eq!(
        lines.last().unwrap(),
        "5 Failed False PodFailed | i Error 2 rc 0, s PodInitializing rc 0, c PodInitializing rc 0"
    );
    let mut spec = with_init();
    spec["restartPolicy"] = json!("Always");
    let mut play = Play::new(spec, "i.run=1s i.exit=2,2,0");
    let lines = play.until(60).lines();
    assert!(
        lines[..lines.len() - 1]
            .iter()
            .all(|line| line.contains(" Pending "))
    );
    assert_eq!(
        lines.last().unwrap(),
        "15 Running True | i Completed 0 rc 2, s running rc 0, c running rc 0"
    );
}

#[test]
fn a_pod_is_stopped_at_its_deadline() {
    let mut spec = one("Never");
    spec["activeDeadlineSeconds"] = json!(10);
    let mut play = Play::new(spec, "stop=3s");
    let lines = play.until(60).lines();
    assert_eq!(
        lines[2..],
        [
            "10 Running False PodFailed | c running rc 0",
            "13 Failed False PodFailed | c Error 143 rc 0"
        ]
    );
    let status = play.status();
    assert_eq!(status["reason"], "DeadlineExceeded");
    assert_eq!(
        status["message"],
        "Pod was active on the node longer than the specified deadline"
    );
}

#[test]
fn an_evicted_pod_fails_with_a_reason() {
    let mut play = Play::new(one("Always"), "evicted=10s");
    let lines = play.until(60).lines();
    assert_eq!(lines[2..], ["10 Failed False PodFailed | c Error 137 rc 0"]);
    let status = play.status();
    assert_eq!(status["reason"], "Evicted");
    let message =
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ";
    assert_eq!(status["message"], message);
    let target = &status["conditions"][0];
    assert_eq!(target["type"], "DisruptionTarget");
    assert_eq!(target["reason"], "TerminationByKubelet");
    assert_eq!(target["message"], message);
    assert_eq!(status["conditions"].as_array().unwrap().len(), 6);
}

#[test]
fn probes_and_gates_decide_when_a_pod_is_ready() {
    let mut play = Play::new(one("Always"), "ready=3s unhealthy=10s");
    let lines = play.until(17).lines();
    let unready = "False ContainersNotReady containers with unready status: [c]";
    assert_eq!(
        lines[1..],
        [
            format!("2 Running {unready} | c running rc 0"),
            "5 Running True | c running rc 0".to_owned(),
            format!("13 Running {unready} | c Completed 0 rc 0"),
            format!("13 Running {unready} | c running rc 1"),
            "16 Running True | c running rc 1".to_owned(),
        ]
    );
    let mut spec = one("Always");
    spec["readinessGates"] = json!([{"conditionType": "example.com/lb"}]);
    let mut play = Play::new(spec, "");
    let closed = "False ReadinessGatesNotReady corresponding condition of pod readiness gate \"example.com/lb\" does not exist.";
    assert_eq!(
        play.until(5).lines()[1],
        format!("2 Running {closed} | c running rc 0")
    );
    let mut json = play.pod.to_json();
    let gate = json!({"type": "example.com/lb", "status": "True"});
    json["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(gate);
    play.pod = Pod::from_json(json).unwrap();
    play.see();
    assert_eq!(play.lines(), ["5 Running True | c running rc 0"]);
    assert_eq!(
        play.status()["conditions"][0]["type"],
        "example.com/lb",
        "others come first"
    );
}

#[test]
fn statuses_report_mounts_and_allocated_resources() {
    let mut spec = one("Always");
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let asked = json!({"requests": {"cpu": "250m"}, "limits": {"cpu": "1"}});
    spec["containers"][0]["volumeMounts"] = mounts.clone();
    spec["containers"][0]["resources"] = asked.clone();
    let mut play = Play::new(spec, "");
    let status = play.status();
    let container = &status["containerStatuses"][0];
    assert_eq!(container["volumeMounts"], mounts);
    assert_eq!(
        container["resources"],
        Value::Null,
        "the container is not created"
    );
    assert_eq!(status["resources"], asked);
    assert_eq!(status["allocatedResources"], asked["requests"]);
    let status = play.until(2).status();
    let container = &status["containerStatuses"][0];
    assert_eq!(container["resources"], asked);
    assert_eq!(container["allocatedResources"], asked["requests"]);
    // The pod is resized.
    let mut json = play.pod.to_json();
    json["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("2");
    play.pod = Pod::from_json(json).unwrap();
    play.see();
    let status = play.status();
    assert_eq!(status["resources"]["limits"]["cpu"], "2");
    assert_eq!(
        status["containerStatuses"][0]["resources"],
        status["resources"]
    );
    // A container without requests.
    let status = Play::new(one("Always"), "").until(2).status();
    for resources in [&status, &status["containerStatuses"][0]] {
        assert_eq!(resources["resources"], json!({}));
        assert_eq!(resources["allocatedResources"], Value::Null);
    }
    assert_eq!(status["containerStatuses"][0]["volumeMounts"], Value::Null);
}

#[test]
fn an_invalid_script_prevents_container_creation() {
    for (script, message) in [
        (
            "run=soon",
            "script: expected times like 30s or 1m30s, or never in \"run=soon\"",
        ),
        ("d.run=1s", "script: the pod has no container \"d\""),
    ] {
        let mut play = Play::new(one("Always"), script);
        let lines = play.until(60).lines();
        assert!(
            lines
                .last()
                .unwrap()
                .contains("c CreateContainerConfigError rc 0")
        );
        let waiting = play.status()["containerStatuses"][0]["state"]["waiting"].clone();
        assert_eq!(waiting["message"], message);
        assert_eq!(play.life.next_ns(), None);
    }
}

/// A life can be dropped at any time, because another one can continue from the status.
#[test]
fn a_life_resumed_from_a_status_continues_the_same_way() {
    let mut probed = one("Always");
    for kind in ["startupProbe", "readinessProbe", "livenessProbe"] {
        probed["containers"][0][kind] = json!({"periodSeconds": 3});
    }
    for (spec, script) in [
        (one("Always"), "run=1s exit=1"),
        (one("Never"), "run=5s"),
        (with_init(), "i.run=3s c.run=5s s.run=2s"),
        // The status does not contain the time at which a sidecar begins to stop: a longer stop
        // would begin again each second.
        (with_init(), "i.run=3s c.run=5s s.stop=1s"),
        // The same is true during a restart of all containers.
        (ruled(), "i.run=3s c.run=4s c.exit=42,7,0 s.stop=1s"),
        (one("Always"), "ready=3s unhealthy=10s"),
        (probed, "started=5s ready=8s unready=22s unhealthy=40s"),
    ] {
        let whole = Play::new(spec.clone(), script).until(60).lines();
        let mut play = Play::new(spec, script);
        for second in 3..60 {
            play.until(second);
            if play.life.has_ended() {
                break;
            }
            let parsed = Script::parse(script);
            let seen = Circumstances {
                script: parsed.as_ref(),
                rules: &SpecRules::from_pod(&play.pod, false, true),
                is_unpullable: &|_| false,
                is_present: &|_| true,
                tells: false,
                is_full: true,
                heeds_status: false,
                startup_ns: 0,
                stop_ns: SECOND_NS,
                deleted_ns: 0,
                now_ns: play.now_ns,
            };
            play.life = PodLife::resume(&play.pod, &seen);
        }
        assert_eq!(play.until(60).lines(), whole, "{script}");
    }
}
