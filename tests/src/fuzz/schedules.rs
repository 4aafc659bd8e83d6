//! Schedules of the fault simulator.

use podstorm_faultsim::rows::read;

use super::Target;

pub(super) const SCHEDULES: Target = Target {
    name: "schedule",
    claim: "a schedule is refused with a reason, or survives a round trip",
    run,
    runs: 1_500,
};

fn run(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let Ok(schedule) = read(&text) else {
        return false;
    };
    let written = schedule.to_yaml();
    match read(&written) {
        Ok(again) => assert_eq!(again.to_yaml(), written),
        Err(error) => panic!("{error}\nin the written form:\n{written}"),
    }
    true
}
