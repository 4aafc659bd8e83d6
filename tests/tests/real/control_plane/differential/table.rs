//! The table of all requests of both sides, as in `tests/control-plane/differential.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use podstorm_tests::command::cases;

use super::play::Requests;
use super::scenarios::Scenario;

/// Requests that both sides send equally often in every scenario.
const SAME: [&str; 2] = ["create pods 201", "delete pods 200"];

/// Adoptions and releases. The real side may repeat one, and never sends fewer.
const PATCH: &str = "patch pods 200";

/// Reasons for different numbers of a request. Any other difference fails the test.
const WHY: &str = "
patch pods 200 => 1.20 may repeat an adoption or a release until its cache shows it, or shows that the owner was deleted
create pods 403 => refused creates are retried as time passes, which it does only on theirs
get replicasets 200 => both read the owner before an adoption; 1.20 also after each status conflict
get replicationcontrollers 200 => as for ReplicaSets
get replicasets 404 => the owner was deleted in the meantime
get replicationcontrollers 404 => as for ReplicaSets
update replicasets/status 200 => one status for each sync; ours syncs when its caches are up to date
update replicationcontrollers/status 200 => as for ReplicaSets
update replicasets/status 404 => the owner was deleted in the meantime
update replicationcontrollers/status 404 => as for ReplicaSets
update replicasets/status 409 => 1.20 writes from caches that lack its own writes; 1.36 and ours wait for them
update replicationcontrollers/status 409 => 1.20 as for ReplicaSets; our caches are up to date
create events 201 => an Event for each refused create, of which theirs has more; others are combined by time
patch events 200 => as for created Events
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

/// Checks that both sides agree apart from the explained differences, and that the committed table
/// is up to date.
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
        std::fs::write(&new, table).expect("a file can be written");
        panic!(
            "the table has changed: review {}, and copy it to {}",
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
         all ReplicaSets, ReplicationControllers and pods were equal, except for generated names, UIDs, times, versions, addresses and nodes.\n\
         `cargo real the_real_controller_manager` repeats them, and fails if a number without `~` has changed; numbers with `~` depend on\n\
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
        "\n`terminatingReplicas`, which 1.20 lacks, is left out. Which pods a scale-down \
         deletes is\ncompared by number, because 1.20 ranks pods differently. Garbage collection is part of our server, so its requests exist only in theirs and are left out.\n\n\
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

/// Removes what changes from run to run: numbers with a `~`, and rows with only the real side's
/// requests.
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
