//! Cases of those decisions of the Job controller that need no cache: `job_indexes`, `job_backoff`,
//! `job_pod_failure_policy` and `job_success_policy`.

use std::collections::BTreeSet;

use podstorm::job::backoff::{Failures, finish_time};
use podstorm::job::indexes::{Indexes, indexed_name_prefix};
use podstorm::job::pod::{COMPLETION_INDEX, completion_index, count_of};
use podstorm::job::policies::{FailureAction, FailurePolicy, SuccessPolicy};
use podstorm::object::{Labels, Time};
use serde_json::{Value, json};

use super::harness::nanos;
use crate::conformance::shared::pod;
use crate::conformance::{Fields, expect_eq};

/// A limit so high that no set of indexes is truncated.
const NO_LIMIT: i64 = i64::MAX;

/// Runs one case of `job_indexes`.
pub(in crate::conformance) fn indexes(case: &mut Fields) -> Result<(), String> {
    match case.text("op")?.as_str() {
        "parse" => {
            let parsed = Indexes::parse(&case.text("string")?, case.int("completions")?);
            let intervals = case.list("intervals")?;
            expect_eq("intervals", &json!(parsed.intervals()), &json!(intervals))?;
            expect_eq("print", &parsed.to_string(), &case.text("print")?)?;
            expect_eq("total", &parsed.count(), &case.int("total")?)
        }
        "merge" => {
            let read = |text: String| Indexes::parse(&text, NO_LIMIT);
            let union = read(case.text("a")?).union(&read(case.text("b")?));
            expect_eq("print", &union.to_string(), &case.text("print")?)?;
            expect_eq("total", &union.count(), &case.int("total")?)?;
            for (index, is_there) in case.object("has")?.rest() {
                let index: i64 = index.parse().map_err(|error| format!("has: {error}"))?;
                expect_eq("has", &Value::from(union.has(index)), &is_there)?;
            }
            Ok(())
        }
        "firstPending" => {
            let completions = case.int("completions")?;
            let ints = |list: Vec<Value>| {
                list.iter()
                    .filter_map(Value::as_i64)
                    .collect::<BTreeSet<_>>()
            };
            let mut busy = ints(case.list("activeIndexes")?);
            let terminating = ints(case.list("terminatingIndexes")?);
            if case.flag("onlyReplaceFailed")? {
                busy.extend(terminating);
            }
            let mut taken = Indexes::of_ordered(busy);
            for set in ["succeeded", "failed"] {
                taken = taken.union(&Indexes::parse(&case.text(set)?, completions));
            }
            let count = usize::try_from(case.int("count")?).map_err(|error| error.to_string())?;
            let found = taken.first_missing(count, completions);
            expect_eq("result", &json!(found), &json!(case.list("result")?))
        }
        "generateName" => {
            let prefix = indexed_name_prefix(&case.text("job")?, case.int("index")?);
            expect_eq(
                "generateName",
                &prefix.as_str(),
                &case.text("generateName")?.as_str(),
            )
        }
        "completionIndex" => {
            let text = case.take("annotation");
            let text = text.as_ref().and_then(Value::as_str);
            let annotations = Labels::from_pairs(text.map(|text| (COMPLETION_INDEX, text)));
            expect_eq(
                "index",
                &completion_index(&annotations),
                &case.int("index")?,
            )?;
            let count = case.int("failureCount")?;
            expect_eq("failureCount", &count_of(text), &count)
        }
        other => Err(format!("unknown op {other:?}")),
    }
}

/// Runs one case of `job_backoff`.
pub(in crate::conformance) fn backoff(case: &mut Fields) -> Result<(), String> {
    let op = case.text("op")?;
    case.text("now")?;
    let now_ns = case.int("nowUnixNano")?;
    let mut out = case.object("out")?;
    match op.as_str() {
        "remaining" => {
            let failures = failures(case)?;
            out.is(json!({"remainingNanos": failures.remaining_ns(now_ns)}))
        }
        "record" => {
            let before = match case.take("before") {
                None => Failures::default(),
                Some(before) => failures(&mut Fields::new(before, "before")?)?,
            };
            let times = |texts: Vec<String>| {
                texts
                    .iter()
                    .map(|it| nanos(it))
                    .collect::<Result<Vec<_>, _>>()
            };
            let failed = times(case.texts("newFailedFinishTimes")?)?;
            let succeeded = times(case.texts("newSucceededFinishTimes")?)?;
            let after = before.with(&failed, succeeded);
            let count = out.int("failuresAfterLastSuccess")?;
            expect_eq("failures", &i64::from(after.count), &count)?;
            let last = out.take("lastFailureTime");
            let last = last
                .as_ref()
                .and_then(Value::as_str)
                .map(nanos)
                .transpose()?;
            expect_eq("last", &after.last_ns, &last)?;
            out.finish()
        }
        "finishTime" => {
            let pod = pod(case.value("pod"))?;
            let time = finish_time(&pod);
            let text = if time == Time::UNSET {
                String::new()
            } else {
                time.to_string()
            };
            out.is(json!({"finishTime": text}))
        }
        other => Err(format!("unknown op {other:?}")),
    }
}

fn failures(case: &mut Fields) -> Result<Failures, String> {
    let count = ["failures", "failuresAfterLastSuccess"].map(|name| case.int(name));
    let [a, b] = count;
    let last = case.take("lastFailureTime");
    Ok(Failures {
        count: u32::try_from(a? + b?).map_err(|error| error.to_string())?,
        last_ns: last
            .as_ref()
            .and_then(Value::as_str)
            .map(nanos)
            .transpose()?,
    })
}

/// Runs one case of `job_pod_failure_policy`.
pub(in crate::conformance) fn failure_policy(case: &mut Fields) -> Result<(), String> {
    let policy = FailurePolicy::read(&case.value("policy")).ok_or("no policy")?;
    let mut given = case.object("pod")?;
    let metadata = json!({"name": given.text("name")?, "namespace": given.text("namespace")?});
    let pod = pod(json!({"metadata": metadata, "status": given.value("status")}))?;
    given.finish()?;
    let met = policy.met(&pod);
    let action = met.as_ref().map(|met| met.action);
    let fails = met.filter(|met| met.action == FailureAction::FailJob);
    case.object("out")?.is(json!({
        "countFailed": action != Some(FailureAction::Ignore),
        "action": action.map(FailureAction::as_str),
        "failJobMessage": fails.map(|met| met.message),
    }))
}

/// Runs one case of `job_success_policy`.
pub(in crate::conformance) fn success_policy(case: &mut Fields) -> Result<(), String> {
    let policy = SuccessPolicy::read(&case.value("policy"));
    let completions = case.int("completions")?;
    let succeeded = Indexes::parse(&case.text("succeeded")?, completions);
    let met = policy.and_then(|policy| policy.met(&succeeded, completions));
    case.object("out")?
        .is(json!({"met": met.is_some(), "message": met.unwrap_or_default()}))
}
