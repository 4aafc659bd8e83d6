//! Schedules of the fault simulator.

use podstorm_faultsim::schedule::Schedule;

use super::{Outcome, Target, outcome};

pub(super) const SCHEDULES: Target = Target {
    name: "schedule",
    claim: "a schedule is refused with a reason, or is written and read back the same",
    run,
    words: &[
        "version",
        "seed",
        "world",
        "replica-sets",
        "nodes",
        "workers",
        "burst-replicas",
        "api-ms",
        "watch-ms",
        "startup-ms",
        "termination-ms",
        "disturb-ms",
        "steps",
        "at-ms",
        "class",
        "action",
        "name",
        "replicas",
        "scale",
        "touch",
        "kill",
        "percent",
        "requests",
        "drop",
        "crash",
        "pause",
        "replica-set",
        "web",
        ": ",
        "- ",
        "[]",
        "{}",
        "null",
        "true",
        "y",
        "\"",
        "&a ",
        "*a",
    ],
    short_runs: 1_500,
};

fn run(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    let schedule = match Schedule::read(&text) {
        Ok(schedule) => schedule,
        Err(error) => return outcome(&error.to_string()),
    };
    let written = schedule.to_yaml();
    match Schedule::read(&written) {
        Ok(again) => assert_eq!(again, schedule, "written as\n{written}"),
        Err(error) => panic!("{error}\nin what was read and written:\n{written}"),
    }
    schedule.steps.len() as Outcome
}
