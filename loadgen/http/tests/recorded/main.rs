//! Requests and answers recorded from a Kubernetes 1.36.2 API server, played against ours in process:
//! `fixtures/http.jsonl.gz`, some 1,700 short sequences.
//!
//! `fixtures/answered.txt` lists the cases that are answered as recorded. A case that is listed and
//! isn't fails the test, and so does one that is and isn't listed: then run it with
//! `PODSTORM_BLESS=1`, which writes the list anew. `PODSTORM_CASE=id` plays one case and tells what
//! differs.

mod compare;
mod mangled;
mod play;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Cases whose id or category stands here are about what this server doesn't have yet: see the
/// crate's README.
fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/http.jsonl.gz");
    let file = std::fs::File::open(path).expect("the recording is there");
    let mut text = String::new();
    let read = GzDecoder::new(file).read_to_string(&mut text);
    read.expect("the recording is whole");
    let lines = text.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .expect("each line is a case")
}

fn id(case: &Value) -> &str {
    case["id"].as_str().expect("a case has an id")
}

#[tokio::test(start_paused = true)]
async fn recorded_requests_are_answered_as_recorded() {
    let only = std::env::var("PODSTORM_CASE").ok();
    let server = play::server();
    let mut answered = BTreeSet::new();
    let mut by_category = std::collections::BTreeMap::new();
    for case in cases() {
        if only
            .as_deref()
            .is_some_and(|only| !id(&case).starts_with(only))
        {
            continue;
        }
        let category = case["category"].as_str().unwrap_or("").to_owned();
        let count: &mut (u32, u32) = by_category.entry(category).or_default();
        count.1 += 1;
        match play::play(&server, &case).await {
            Ok(()) => {
                count.0 += 1;
                answered.insert(id(&case).to_owned());
            }
            Err(difference) if only.is_some() => println!("{}: {difference}", id(&case)),
            Err(_) => {}
        }
    }
    for (category, (same, all)) in &by_category {
        println!("{category:24} {same:4} of {all:4}");
    }
    println!("{} answered as recorded", answered.len());
    if only.is_some() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/answered.txt");
    let text: String = answered.iter().map(|id| format!("{id}\n")).collect();
    if std::env::var_os("PODSTORM_BLESS").is_some() {
        std::fs::write(&path, text).expect("the list can be written");
        return;
    }
    let listed = std::fs::read_to_string(&path).expect("the list is there");
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let lost: Vec<&String> = listed.difference(&answered).collect();
    let won: Vec<&String> = answered.difference(&listed).collect();
    assert!(
        lost.is_empty(),
        "not answered as recorded any more: {lost:?}"
    );
    assert!(
        won.is_empty(),
        "answered now; PODSTORM_BLESS=1 lists them: {won:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn mangled_bodies_are_refused_or_taken_and_the_server_goes_on() {
    let sent = mangled::send_all(&cases()).await;
    assert!(sent > 10_000, "{sent} requests");
}
