//! Finds the bottleneck of a run: the one of places on nodes, client limit, API calls and workers
//! that caused the longest total wait. Describes it with its numbers.

use crate::result::{RunResult, Waits};
use crate::units::{counted, number_for_people, seconds_for_people};

/// A wait that is shorter than this share of the run's time is not a bottleneck.
const LEAST_SHARE: f64 = 0.1;

/// Formats the sentence about one bottleneck.
type Sentence = fn(&RunResult) -> String;

/// Returns the sentence about the bottleneck, or a remark that the times include latencies. `None`
/// if the core set the pace.
pub(super) fn note(result: &RunResult) -> Option<String> {
    let waits = &result.waits;
    let of_syncs = |seconds: f64| match waits.sync_seconds > 0.0 {
        true => (seconds / waits.sync_seconds).min(1.0),
        false => 0.0,
    };
    let (limited, waiting) = (
        of_syncs(waits.sync_limited_seconds),
        of_syncs(waits.sync_waiting_seconds),
    );
    // Keys also wait in the queue while the workers wait: for the client limit, which additional
    // workers would share, or for answers. If the workers compute, the core sets the pace.
    let behind_limit = waits.worker_seconds * limited;
    let behind_answers = waits.worker_seconds * (waiting - limited).max(0.0);
    let all: [(f64, Sentence); 4] = [
        (waits.place_seconds, places),
        (waits.client_limit_seconds + behind_limit, client_limit),
        (behind_answers, workers),
        (waits.api_seconds, api),
    ];
    let least = LEAST_SHARE * result.elapsed_seconds;
    let counting = all.into_iter().filter(|(seconds, _)| *seconds > least);
    let most = counting.max_by(|(a, _), (b, _)| a.total_cmp(b));
    if let Some((_, sentence)) = most {
        return Some(sentence(result));
    }
    let latency = &result.settings.latency;
    let others = [
        latency.watch,
        latency.scheduling,
        latency.pod_startup,
        latency.pod_termination,
        latency.api,
    ];
    let set = others.iter().any(|latency| !latency.is_zero());
    (set || result.settings.min_ready_seconds > 0)
        .then(|| "times include the configured latencies, not only the core".to_owned())
}

/// Formats the mean of `count` durations.
fn mean(seconds: f64, count: u64) -> String {
    seconds_for_people(seconds / count.max(1) as f64)
}

fn places(result: &RunResult) -> String {
    let waits = &result.waits;
    format!(
        "places on nodes set the pace: {} waited {} on average for one, {} at the peak; the nodes hold {}, and {} \
         existed at the peak",
        counted(waits.place_pods, "pod"),
        mean(waits.place_seconds, waits.place_pods),
        counted(waits.place_pods_peak, "pod"),
        counted(waits.places, "pod"),
        counted(result.pods.peak, "pod"),
    )
}

fn client_limit(result: &RunResult) -> String {
    let qps = result.settings.controller.kube_api_qps.unwrap_or_default();
    let Waits {
        calls,
        client_limit_seconds,
        ..
    } = result.waits;
    format!(
        "the client limit of {} QPS set the pace, not the core: {} waited {} on average for it",
        number_for_people(qps),
        counted(calls, "call"),
        mean(client_limit_seconds, calls),
    )
}

fn workers(result: &RunResult) -> String {
    let waits = &result.waits;
    let share = waits.sync_waiting_seconds / waits.sync_seconds;
    format!(
        "the number of workers set the pace: {} waited {} on average for one, and workers waited for API calls \
         for {:.0} % of their time",
        counted(waits.worker_keys, "key"),
        mean(waits.worker_seconds, waits.worker_keys),
        100.0 * share.min(1.0),
    )
}

fn api(result: &RunResult) -> String {
    let waits = &result.waits;
    format!(
        "times include the configured latencies, not only the core: {} took {} on average",
        counted(waits.calls, "API call"),
        mean(waits.api_seconds, waits.calls),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::result;

    fn note_of(waits: Waits) -> Option<String> {
        let mut result = result();
        result.elapsed_seconds = 100.0;
        result.pods.peak = 6_474;
        result.settings.controller.kube_api_qps = Some(20.0);
        result.waits = waits;
        note(&result)
    }

    #[test]
    fn the_longest_wait_is_reported_with_its_numbers() {
        let limited = Waits {
            calls: 1_000,
            client_limit_seconds: 2_000.0,
            api_seconds: 50.0,
            worker_keys: 100,
            sync_seconds: 100.0,
            sync_limited_seconds: 80.0,
            sync_waiting_seconds: 95.0,
            ..Waits::default()
        };
        let placed = Waits {
            place_pods: 900,
            place_seconds: 900.0 * 74.0,
            place_pods_peak: 864,
            places: 5_610,
            ..limited.clone()
        };
        // The keys wait longest, but only because the client limit holds up the workers.
        let queued = Waits {
            worker_seconds: 50_000.0,
            ..limited.clone()
        };
        let few_workers = Waits {
            client_limit_seconds: 0.0,
            sync_limited_seconds: 0.0,
            ..queued.clone()
        };
        let slow = Waits {
            worker_seconds: 20.0,
            ..few_workers.clone()
        };
        for (waits, words) in [
            (
                placed,
                "places on nodes set the pace: 900 pods waited 74 s on average for one, 864 pods at the peak; the \
                 nodes hold 5,610 pods, and 6,474 pods existed at the peak",
            ),
            (
                limited,
                "the client limit of 20 QPS set the pace, not the core: 1,000 calls waited 2 s on average for it",
            ),
            (queued, "the client limit of 20 QPS set the pace"),
            (
                few_workers,
                "the number of workers set the pace: 100 keys waited 8 min 20 s on average for one, and workers waited \
                 for API calls for 95 % of their time",
            ),
            (slow, "1,000 API calls took 50 ms on average"),
        ] {
            let note = note_of(waits).expect("something was waited for");
            assert!(note.contains(words), "{note}\n{words}");
        }
    }

    #[test]
    fn the_core_is_not_reported_as_a_bottleneck() {
        // The workers compute, and the waits are negligible.
        let busy = Waits {
            worker_keys: 1_000,
            worker_seconds: 9_000.0,
            sync_seconds: 90.0,
            ..Waits::default()
        };
        assert_eq!(note_of(busy), None);
        let little = Waits {
            place_pods: 3,
            place_seconds: 9.0,
            ..Waits::default()
        };
        assert_eq!(note_of(little), None);
    }
}
