//! Advancing time, and a stream of samples meanwhile.

use super::*;

/// Returns how many pods report that they are ready.
fn ready_pods(pods: &Value) -> usize {
    let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    let conditions = |pod: &Value| pod["status"]["conditions"].as_array().cloned();
    let pods = pods["items"].as_array().into_iter().flatten();
    pods.filter_map(conditions)
        .filter(|all| all.iter().any(is_ready))
        .count()
}

/// Returns the states that a test sees which advances the cluster's time by five minutes.
async fn play() -> Vec<Value> {
    let served = start();
    create(&served, SETS, set("web", 2)).await;
    // The answer arrives after everything that is due immediately has happened.
    let before = get(&served, PODS).await;
    assert_eq!(texts(&before, "name").len(), 2);
    let moved = json!({"seconds": STARTUP_S - 1});
    let (_, clock) = send(&served, "POST", "/podstorm/clock/advance", moved).await;
    assert_eq!(clock["seconds"], 299.0);
    assert_eq!(ready_pods(&before), 0);
    assert_eq!(ready_pods(&get(&served, PODS).await), 0);
    advance(&served, 2);
    assert_eq!(served.now().mono_ns, 301_000_000_000);
    assert_eq!(ready(&served, "web").await, 2);
    let after = get(&served, PODS).await;
    assert_eq!(ready_pods(&after), 2);
    vec![before, after, get(&served, &format!("{SETS}/web")).await]
}

#[tokio::test]
async fn advancing_five_minutes_is_deterministic() {
    assert_eq!(play().await, play().await);
}

#[tokio::test]
async fn real_time_cannot_be_advanced() {
    let served = Served::start(ServeOptions::default()).unwrap();
    assert_eq!(served.advance(Duration::from_secs(1)), None);
}

#[tokio::test]
async fn samples_arrive_while_the_time_of_the_cluster_stands_still() {
    let served = start();
    let open = Request::get("/podstorm/live").body(Full::new(Bytes::new()));
    let stream = served.api().answer(open.unwrap()).await;
    let mut stream = stream.unwrap().into_body();
    let mut states = Vec::new();
    for step in 0..3 {
        match step {
            0 => {}
            1 => drop(create(&served, SETS, set("web", 2)).await),
            _ => advance(&served, 301),
        }
        let frame = stream.frame().await.expect("the stream continues").unwrap();
        let event = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let sample = event.split_once("data: ").expect("the line is an event").1;
        let sample: Value = serde_json::from_str(sample).unwrap();
        assert_eq!(sample["virtual"], true);
        let of = |name: &str| sample["pods"][name].as_u64().unwrap();
        let pods = [of("desired"), of("existing"), of("ready")];
        states.push((sample["seconds"].as_f64().unwrap(), pods));
    }
    let expected = [(0.0, [0, 0, 0]), (0.0, [2, 2, 0]), (301.0, [2, 2, 2])];
    assert_eq!(states, expected);
}
