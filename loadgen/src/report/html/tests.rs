//! Tests of the page without a browser: it is complete and self-contained, and shows the run.

use super::*;
use crate::report::tests::{assert_sound, result};
use crate::result::{Series, SlowWorkload};

fn page(result: &RunResult) -> String {
    let report = Report {
        result,
        command: "loadgen run --seed 1 --api-latency '<b>&'",
        settings: &[
            ("seed".to_owned(), "1".to_owned()),
            ("engine".to_owned(), "virtual".to_owned()),
        ],
    };
    let mut bytes = Vec::new();
    write(&mut bytes, &report).expect("writing to a Vec does not fail");
    String::from_utf8(bytes).expect("pages are UTF-8")
}

#[test]
fn the_page_is_complete_and_self_contained() {
    let page = page(&result());
    assert_sound(&page);
    assert!(page.len() < 100_000, "{}", page.len());
    for text in [
        "up-down <span class=\"verdict good\">converged in 1.25 s",
        "created so far",
        "Waiting in the work queue",
        "load-000&#x2f;rs-00007",
        "scale to 100 %",
        "create pods 201",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
    assert!(page.contains("&lt;b&gt;&amp;"), "text is escaped");
    let drawn = page.matches("<path class=\"line").count();
    assert_eq!(drawn, 4 + 1 + 1, "pods, queue, calls");
    assert!(page.matches("<rect class=\"bar\"").count() >= 2);
}

#[test]
fn a_failed_run_has_its_reason_at_the_top() {
    let mut result = result();
    result.outcome.exit_code = 3;
    result.outcome.reason = "it was </script> too late".into();
    result.outcome.violations = vec!["a < b".into()];
    result.phases[0].converged = false;
    result.slowest_workloads.push(SlowWorkload {
        name: "</script>".into(),
        seconds: 9.0,
        ..SlowWorkload::default()
    });
    let page = page(&result);
    assert_sound(&page);
    for text in [
        "invariant broken within",
        "it was &lt;&#x2f;script&gt; too late",
        "a &lt; b",
        "not done",
        "not converged",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn runs_without_time_or_samples_have_pages() {
    let mut result = result();
    result.elapsed_seconds = 0.0;
    result.series.seconds.fill(0.0);
    let timeless = page(&result);
    assert_sound(&timeless);
    assert!(timeless.contains("writes to the server"));
    result.series = Series::default();
    result.phases.clear();
    result.slowest_workloads.clear();
    result.histograms = Default::default();
    let empty = page(&result);
    assert_sound(&empty);
    assert!(empty.contains("None took any time."));
}

#[test]
fn the_size_of_the_page_does_not_grow_with_the_run() {
    let mut result = result();
    let count = 1_026_u64;
    let column = |times: u64| {
        (0..count)
            .map(|at| at * times % 100_003)
            .collect::<Vec<u64>>()
    };
    result.series = Series {
        seconds: (0..count).map(|at| at as f64 * 0.001_234_5).collect(),
        phase: vec![0; 1_026],
        pods_desired: column(7),
        pods_existing: column(11),
        pods_ready: column(13),
        pods_created: column(17),
        pods_deleted: column(19),
        queue_depth: column(23),
        queue_delayed: column(29),
        api_calls: (0..count).map(|at| at * 400).collect(),
        resource_version: column(31),
    };
    let page = page(&result);
    assert_sound(&page);
    assert!(page.len() < 300_000, "{}", page.len());
}

#[test]
fn the_page_has_the_bottleneck_and_the_waits() {
    let mut result = result();
    assert!(!page(&result).contains("Note: "));
    result.waits.place_pods = 2;
    result.waits.place_seconds = 130.0;
    let page = page(&result);
    for text in [
        "Note: places on nodes set the pace: 2 pods waited 65 s on average",
        "<th scope=\"row\">pods for a place on a node</th><td>2 min 10 s</td>",
    ] {
        assert!(page.contains(text), "{text}");
    }
}
