//! Explains a run of the scenario `stale-watch` from its result: what happened, what followed from
//! it, and what to try next.

use podstorm::policy::Behaviour;

use crate::result::RunResult;
use crate::settings::Settings;
use crate::units::{count_for_people as count, counted};

/// The phase of the scenario in which expectations expire while the watch is stalled.
const EXPIRED: &str = "five minutes later: one event each";

/// The phase of the scenario in which answers to creates are lost.
const LOST: &str = "scale up; each first answer is lost";

/// The explanation of a run, for the report.
pub(super) struct Explanation {
    /// The paragraphs, each with its label.
    pub(super) paragraphs: Vec<(&'static str, String)>,
    /// Commands to try next.
    pub(super) commands: Vec<String>,
}

/// Explains a run. `command` returns the command for the same run with other settings.
pub(super) fn explanation(
    result: &RunResult,
    command: &dyn Fn(&Settings) -> String,
) -> Explanation {
    let settings = &result.settings;
    let size = &settings.size;
    let in_phase = |name: &str| -> u64 {
        let phases = result.phases.iter().filter(|phase| phase.name == name);
        phases.map(|phase| phase.excess_pods_created).sum()
    };
    let (stalled, lost) = (in_phase(EXPIRED), in_phase(LOST));
    let done = format!(
        "The controller's pod watch stalled while ReplicaSets ({}) were scaled to {}, and after five \
         minutes each got an event without a change. Then the watch resumed. Later, at 0 again, \
         the watch stalled once more and the answer to the first create of each was lost.",
        count(size.workloads()),
        counted(size.pods, "pod"),
    );
    let hardened = result.behaviour == "hardened";
    // The gate in question is the one that the scenario itself sets.
    let named = settings.scenario.settings.feature_gates.first();
    let name = named
        .and_then(|gate| gate.split('=').next())
        .unwrap_or_default();
    let gate = settings.controller.feature_gates.get(name) == Some(&true);
    let skips = counted(result.wasted_work.stale_sync_skips, "sync");
    let came = match (hardened, gate) {
        (true, _) => format!(
            "Hardened: no sync counted pods before the caches showed all of its own writes, including those \
             with a lost answer; this postponed {skips} and read {}.",
            counted(calls(result, "list "), "version"),
        ),
        (false, false) => format!(
            "Upstream, {name} off as before 1.36: after five minutes the expectations expired while the \
             cache still showed none of the pods, so {} were created a second time \
             (kubernetes#129795), and deleted again when the watch resumed.",
            count(stalled)
        ),
        (false, true) => format!(
            "Upstream, {name} on as in 1.36: each sync waited until the cache had seen the writes of the \
             controller; {} created twice, and {skips} postponed.",
            counted(stalled, "pod")
        ),
    };
    let answers = match (hardened, gate) {
        (true, _) if lost == 0 => "No create with a lost answer caused a second pod.".to_owned(),
        (true, _) => format!(
            "{} with a lost answer caused a second pod.",
            counted(lost, "create")
        ),
        (false, gate) => format!(
            "A create whose answer is lost counts as failed, although the pod exists: {} too \
             many.{}",
            counted(lost, "pod"),
            if gate {
                " The gate does not prevent this: it remembers only answered writes."
            } else {
                ""
            }
        ),
    };
    let sum = format!(
        "excess_pods_created {} = {} behind the stalled watch + {} after lost answers",
        count(result.excess_pods_created),
        count(stalled),
        count(result.excess_pods_created.saturating_sub(stalled)),
    );
    let other = |behaviour: Behaviour, gate: bool| {
        let mut settings = settings.clone();
        settings.behaviour = behaviour;
        let gates = &mut settings.controller.feature_gates;
        gates.insert(name.to_owned(), gate);
        command(&settings)
    };
    let mut commands = Vec::new();
    if hardened || gate {
        commands.push(other(Behaviour::Upstream, false));
    }
    if hardened || !gate {
        commands.push(other(Behaviour::Upstream, true));
    }
    if !hardened {
        commands.push(other(Behaviour::Hardened, false));
    }
    Explanation {
        paragraphs: vec![("done", done), ("outcome", came), ("", answers), ("", sum)],
        commands,
    }
}

/// Returns the number of calls whose name begins with this verb and resource, whatever their
/// outcome.
fn calls(result: &RunResult, start: &str) -> u64 {
    let counts = result.api_calls.iter();
    counts
        .filter(|(name, _)| name.starts_with(start))
        .map(|(_, count)| count)
        .sum()
}
