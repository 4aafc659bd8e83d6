//! Scenario files.

use podstorm_loadgen::scenario::Scenario;

use super::Target;

pub(super) const SCENARIOS: Target = Target {
    name: "scenario",
    claim: "a scenario is refused with its file name, or survives a round trip",
    run,
    runs: 1_500,
};

fn run(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let scenario = match Scenario::from_yaml(&text, "input") {
        Ok(scenario) => scenario,
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("input"), "no file name in: {text}");
            return false;
        }
    };
    let written = serde_json::to_string(&scenario).expect("every scenario can be written");
    match Scenario::from_yaml(&written, "written") {
        Ok(again) => assert_eq!(again, scenario, "written as\n{written}"),
        Err(error) => panic!("{error}\nin the written form:\n{written}"),
    }
    // TOML may be accepted or rejected, but must not panic.
    let _toml = Scenario::from_toml(&text, "input");
    true
}
