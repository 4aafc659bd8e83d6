//! The requests of both, side by side, as `tests/control-plane/differential.md` has them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use podstorm_tests::command::cases;

use super::play::Requests;
use super::scenarios::Scenario;

/// Requests that both make equally often in every scenario.
const SAME: [&str; 2] = ["create pods 201", "delete pods 200"];

/// Adoptions and releases: theirs may make one again, never fewer.
const PATCH: &str = "patch pods 200";

/// Why the numbers of a request differ. Any other difference fails the test.
const WHY: &str = "
patch pods 200 => 1.20 may adopt or release a pod again before its cache shows that it has, or that the owner is gone
create pods 403 => refused creates are tried again as time passes, which it does on theirs alone
get replicasets 200 => both read the owner before an adoption; 1.20 also after each conflict of a status
get replicationcontrollers 200 => as for ReplicaSets
get replicasets 404 => the owner was deleted meanwhile
get replicationcontrollers 404 => as for ReplicaSets
update replicasets/status 200 => one status for each look at the pods; ours looks when its caches are there
update replicationcontrollers/status 200 => as for ReplicaSets
update replicasets/status 404 => the owner was deleted meanwhile
update replicationcontrollers/status 404 => as for ReplicaSets
update replicasets/status 409 => 1.20 writes from caches that lack its own writes; 1.36 waits for them, and so does ours
update replicationcontrollers/status 409 => 1.20 as for ReplicaSets; ours finds its caches there
create events 201 => an Event for each refused create, and theirs has more of these; the rest is put together by time
patch events 200 => as the Events that are made
";

fn why(request: &str) -> Option<&'static str> {
    let mut all = cases::<2>(WHY).into_iter();
    all.find_map(|[known, why]| (known == request).then_some(why))
}

/// The requests of one scenario.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) scenario: String,
    ours: Requests,
    theirs: Requests,
}

impl Row {
    pub(super) fn new(scenario: &Scenario, ours: Requests, theirs: Requests) -> Row {
        Row {
            scenario: scenario.name.clone(),
            ours,
            theirs,
        }
    }
}

/// Checks that both did the same but for what is explained, and that the committed table tells of it.
pub(super) fn check(rows: &[Row]) {
    let mut wrong = String::new();
    for row in rows {
        for request in SAME {
            let (ours, theirs) = (count(&row.ours, request), count(&row.theirs, request));
            if ours != theirs {
                let _ = writeln!(wrong, "{}: {request}: {ours} and {theirs}", row.scenario);
            }
        }
        let (ours, theirs) = (count(&row.ours, PATCH), count(&row.theirs, PATCH));
        if theirs < ours {
            let _ = writeln!(wrong, "{}: {PATCH}: {ours} and {theirs}", row.scenario);
        }
    }
    for (request, (ours, theirs)) in totals(rows) {
        if ours != theirs && why(&request).is_none() {
            let _ = writeln!(wrong, "all: {request}: {ours} and {theirs}");
        }
    }
    assert!(wrong.is_empty(), "ours and theirs differ:\n{wrong}");
    let table = render(rows);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/differential.md");
    let known = std::fs::read_to_string(&kept).unwrap_or_default();
    if without_varying(&known) != without_varying(&table) {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("differential.md");
        std::fs::write(&new, table).expect("the folder takes files");
        panic!(
            "the table has changed: look at {}, and keep it as {}",
            new.display(),
            kept.display()
        );
    }
}

fn count(requests: &Requests, request: &str) -> u64 {
    requests.get(request).copied().unwrap_or(0)
}

fn totals(rows: &[Row]) -> BTreeMap<String, (u64, u64)> {
    let mut totals: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows {
        for (request, number) in &row.ours {
            totals.entry(request.clone()).or_default().0 += number;
        }
        for (request, number) in &row.theirs {
            totals.entry(request.clone()).or_default().1 += number;
        }
    }
    totals
}

fn render(rows: &[Row]) -> String {
    let mut text = format!(
        "# Ours and kube-controller-manager 1.20.2, request by request\n\n\
         {} scenarios, each played once with our controllers and once with the real ones, on our server. After every step\n\
         all ReplicaSets, ReplicationControllers and pods were equal, but for drawn names, UIDs, times, versions, addresses and nodes.\n\
         `cargo real the_real_controller_manager` plays them again, and fails where a number without `~` has changed; those with it depend on\n\
         when things happen.\n\n\
         | request | ours | theirs | why they differ |\n|---|---|---|---|\n",
        rows.len()
    );
    for (request, (ours, theirs)) in totals(rows) {
        let why = why(&request).unwrap_or("");
        let varies = if why.is_empty() { "" } else { "~" };
        let _ = writeln!(text, "| {request} | {ours} | {varies}{theirs} | {why} |");
    }
    text.push_str(
        "\nWhat theirs lacks is known: `terminatingReplicas`, which is younger than 1.20, is left out. Which pods a scale-down \
         deletes is\ncompared by number, as 1.20 ranks otherwise. Garbage collection is part of our server, so its requests are theirs alone and are left out.\n\n\
         | scenario | pods created | deleted | patched | statuses, ours | theirs | all requests, ours | theirs |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let [created, deleted] = SAME.map(|request| count(&row.ours, request));
        let patched = count(&row.ours, PATCH);
        let of = |requests: &Requests, is: fn(&str) -> bool| -> u64 {
            let some = requests.iter().filter(|(request, _)| is(request));
            some.map(|(_, number)| number).sum()
        };
        let statuses = |requests| of(requests, |request| request.contains("/status"));
        let all = |requests| of(requests, |_| true);
        let _ = writeln!(
            text,
            "| {} | {created} | {deleted} | {patched} | {} | ~{} | {} | ~{} |",
            row.scenario,
            statuses(&row.ours),
            statuses(&row.theirs),
            all(&row.ours),
            all(&row.theirs),
        );
    }
    text
}

/// The text without what changes from run to run: numbers with a `~`, and rows of what theirs alone did.
fn without_varying(text: &str) -> String {
    let kept = text.lines().filter(|line| !line.contains(" | 0 | ~"));
    let cells = kept.flat_map(|line| line.split('|').chain(["\n"]));
    let fixed = cells.map(|cell| {
        if cell.trim().starts_with('~') {
            "~"
        } else {
            cell
        }
    });
    fixed.collect()
}
