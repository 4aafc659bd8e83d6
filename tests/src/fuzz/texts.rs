//! Strings that people write on the command line: feature gates, sizes, durations, rates and
//! latencies. Also strings in the API: quantities and times.

use podstorm::object::{Quantity, Time};
use podstorm_loadgen::{gates, units};

use super::Target;

pub(super) const SETTINGS: Target = Target {
    name: "setting",
    claim: "a text is refused with a reason or has a value that survives a round trip",
    run,
    runs: 20_000,
};

fn run(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let mut read = false;
    if let Ok(gates) = gates::parse([&*text]) {
        let all: Vec<String> = gates
            .iter()
            .map(|(name, on)| format!("{name}={on}"))
            .collect();
        assert_eq!(gates::parse(all.iter().map(String::as_str)), Ok(gates));
        read = true;
    }
    if let Ok(size) = units::parse_size(&text) {
        assert!(size > 0);
        assert_eq!(units::parse_size(&size.to_string()), Ok(size));
        read = true;
    }
    if let Ok(ns) = units::parse_duration_ns(&text) {
        assert!(ns >= 0);
        assert_eq!(units::parse_duration_ns(&units::duration_text(ns)), Ok(ns));
        read = true;
    }
    if let Ok(rate) = units::parse_rate_per_second(&text) {
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
        read = true;
    }
    if let Ok(latency) = units::parse_latency(&text) {
        let printed = units::latency_text(latency);
        let again = units::parse_latency(&printed);
        assert_eq!(again, Ok(latency), "printed as {printed:?}");
        read = true;
    }
    if let Ok(quantity) = text.parse::<Quantity>() {
        assert!(!quantity.is_negative() || quantity.ceil() <= 0);
        read = true;
    }
    if let Ok(time) = text.parse::<Time>() {
        assert_eq!(time.to_string().parse::<Time>(), Ok(time));
        read = true;
    }
    read
}
