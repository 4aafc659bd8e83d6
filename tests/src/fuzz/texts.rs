//! What people write on the command line: feature gates, sizes, durations, rates and latencies; and what the
//! API has as text: quantities and times.

use podstorm::object::{Quantity, Time};
use podstorm_loadgen::{gates, units};

use super::{Outcome, Target, outcome};

pub(super) const SETTINGS: Target = Target {
    name: "setting",
    claim: "a text is refused with a reason or has a value, which printed is read back the same",
    run,
    words: &[
        "PodDeletionCost",
        "=true",
        "=false",
        "LogarithmicScaleDown",
        ",",
        "StaleControllerConsistencyReplicaSet",
        "k",
        "m",
        "ms",
        "us",
        "µs",
        "ns",
        "s",
        "h",
        "/s",
        "/m",
        "/h",
        "uniform:",
        "constant:",
        "lognormal:",
        "p50=",
        "p99=",
        "Ki",
        "Mi",
        "Gi",
        "Ti",
        "Pi",
        "Ei",
        "e",
        "E",
        "n",
        "u",
        "0.",
        ".5",
        "-",
        "+",
        "2026-01-02T03:04:05Z",
        "0000-01-01T00:00:00Z",
        "+05:30",
        "T",
        "Z",
        ":60",
        "9999-12-31T23:59:59",
        "02-29",
    ],
    short_runs: 20_000,
};

fn run(data: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(data);
    let mut told = 0;
    let mut tell = |number: u32, of: Outcome| told ^= of.rotate_left(number * 7);
    let message = |error: &dyn std::fmt::Display| outcome(&error.to_string());
    match gates::parse([&*text]) {
        Err(error) => tell(0, message(&error)),
        Ok(gates) => {
            let all: Vec<String> = gates
                .iter()
                .map(|(name, on)| format!("{name}={on}"))
                .collect();
            assert_eq!(gates::parse(all.iter().map(String::as_str)), Ok(gates));
        }
    }
    match units::parse_size(&text) {
        Err(error) => tell(1, message(&error)),
        Ok(size) => {
            assert!(size > 0);
            assert_eq!(units::parse_size(&size.to_string()), Ok(size));
        }
    }
    match units::parse_duration_ns(&text) {
        Err(error) => tell(2, message(&error)),
        Ok(ns) => {
            assert!(ns >= 0);
            assert_eq!(units::parse_duration_ns(&units::duration_text(ns)), Ok(ns));
        }
    }
    match units::parse_rate_per_second(&text) {
        Err(error) => tell(3, message(&error)),
        Ok(rate) => assert!(rate.is_finite() && rate > 0.0, "{rate}"),
    }
    match units::parse_latency(&text) {
        Err(error) => tell(4, message(&error)),
        Ok(latency) => {
            let printed = units::latency_text(latency);
            assert_eq!(
                units::parse_latency(&printed),
                Ok(latency),
                "printed as {printed:?}"
            );
        }
    }
    if let Ok(quantity) = text.parse::<Quantity>() {
        tell(5, u64::from(quantity.is_negative()) + 1);
        assert!(!quantity.is_negative() || quantity.ceil() <= 0);
    }
    if let Ok(time) = text.parse::<Time>() {
        tell(6, u64::from(time.is_unset()) + 1);
        assert_eq!(time.to_string().parse::<Time>(), Ok(time));
    }
    told
}
