//! Logs of simulated containers: the text of an annotation, or the server's log line, reduced by
//! the options of `kubectl logs`.
//!
//! Source: `ValidatePodLogOptions` and `validateContainerLogStatus` of Kubernetes 1.36. A simulated
//! container writes its whole log when it starts.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Now, Object, Pod, Time, Uid};
use serde_json::{Value, json};
use tokio::time::Sleep;

use crate::answer::{Bits, NextPart};
use crate::call::Call;
use crate::query::Query;
use crate::server::ApiServer;

/// The pod annotation with the log of all of the pod's containers.
pub(crate) const LOG: &str = "podstorm/log";
/// The interval at which a followed log checks whether the container still runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The options of a log request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) follow: bool,
    previous: bool,
    timestamps: bool,
    since: Option<Since>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
}

/// The time from which lines are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    SecondsAgo(i64),
    Time(Time),
}

impl Options {
    /// Reads the options of a log request.
    ///
    /// # Errors
    /// 400 for an option that is not a number or a time; 422 for a number out of range, or if both
    /// `sinceTime` and `sinceSeconds` are given.
    pub(super) fn from_query(query: &Query<'_>) -> Result<Options, ApiError> {
        let seconds = query.number("sinceSeconds")?;
        let time = match query.text("sinceTime") {
            "" => None,
            text => {
                let read = Time::read(text);
                let why = |error: podstorm_objects::TimeError| {
                    errors::bad_request(error.told(text, "2006-01-02T15:04:05Z07:00"))
                };
                Some(read.map_err(why)?)
            }
        };
        let tail_lines = query.number("tailLines")?;
        let limit_bytes = query.number("limitBytes")?;
        let mut causes = Vec::new();
        let mut at_least = |field: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                causes.push(errors::invalid_value(field, &json!(value), why));
            }
        };
        at_least(
            "tailLines",
            tail_lines,
            0,
            "must be greater than or equal to 0",
        );
        at_least("limitBytes", limit_bytes, 1, "must be greater than 0");
        match (seconds, time) {
            (Some(_), Some(_)) => {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                causes.push(errors::forbidden_field("", why));
            }
            _ => at_least("sinceSeconds", seconds, 1, "must be greater than 0"),
        }
        if !causes.is_empty() {
            return Err(errors::invalid_of("PodLogOptions", "", "", causes));
        }
        Ok(Options {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since: time.map(Since::Time).or(seconds.map(Since::SecondsAgo)),
            tail_lines,
            limit_bytes,
        })
    }

    /// Returns the requested part of a log. `written` is the time at which all lines were written,
    /// according to the status; `None` if the status does not have it.
    fn cut(&self, log: &str, written: Option<&str>, now: Now) -> String {
        let time = written.and_then(|text| Time::read(text).ok());
        let since = self.since.map(|since| match since {
            Since::Time(time) => time,
            Since::SecondsAgo(seconds) => {
                now.plus_ns(seconds.saturating_mul(-1_000_000_000)).wall()
            }
        });
        if time.zip(since).is_some_and(|(time, since)| time < since) {
            return String::new();
        }
        let lines: Vec<&str> = log.split_inclusive('\n').collect();
        let most = |count: Option<_>| {
            let count = count.and_then(|count| usize::try_from(count).ok());
            count.unwrap_or(usize::MAX)
        };
        let lines = &lines[lines.len().saturating_sub(most(self.tail_lines))..];
        let mut text = String::new();
        for line in lines {
            if let Some(written) = written.filter(|_| self.timestamps) {
                text.push_str(written);
                text.push(' ');
            }
            text.push_str(line);
        }
        text.truncate(text.floor_char_boundary(most(self.limit_bytes)));
        text
    }
}

/// The log of one instance of a container.
pub(super) struct Log {
    /// The requested part.
    pub(super) text: String,
    /// The start time of the instance; `None` if the status does not have it.
    started: Option<String>,
}

/// Returns the log of a container.
///
/// # Errors
/// 400 if the container has not started, or if the previous instance is requested and there is
/// none.
pub(super) fn read(
    call: &Call<'_>,
    pod: &Pod,
    container: &str,
    options: &Options,
) -> Result<Log, ApiError> {
    let annotations = &pod.metadata.annotations;
    let mut log = match annotations.get(LOG) {
        Some(text) => text.to_string(),
        None => call.server.0.settings.log_line.clone(),
    };
    if !log.is_empty() && !log.ends_with('\n') {
        log.push('\n');
    }
    let status = status_of(pod, container);
    let started = instance(&status, pod, container, options.previous)?;
    let text = options.cut(&log, started.as_deref(), call.server.now());
    Ok(Log { text, started })
}

/// Returns the status of a container, or null if the pod's status does not have it.
fn status_of(pod: &Pod, container: &str) -> Value {
    let mut json = pod.to_json();
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let mut all = lists
        .iter()
        .flat_map(|list| match json["status"][list].take() {
            Value::Array(all) => all,
            _ => Vec::new(),
        });
    all.find(|status| status["name"] == container)
        .unwrap_or_default()
}

/// Returns the start time of the instance whose log is requested; `None` if the status does not
/// have it.
fn instance(
    status: &Value,
    pod: &Pod,
    container: &str,
    previous: bool,
) -> Result<Option<String>, ApiError> {
    let started = |state: &Value| {
        let time = [
            &state["running"]["startedAt"],
            &state["terminated"]["startedAt"],
        ];
        time.iter()
            .find_map(|time| time.as_str())
            .map(str::to_owned)
    };
    let (state, last) = (&status["state"], &status["lastState"]);
    let name = &pod.metadata.name;
    let refused = |why: String| Err(errors::bad_request(why));
    if previous {
        return match started(last) {
            None => refused(format!(
                "previous terminated container \"{container}\" in pod \"{name}\" not found"
            )),
            started => Ok(started),
        };
    }
    let waiting = &state["waiting"];
    if waiting.is_null() {
        return Ok(started(state));
    }
    if let Some(started) = started(last) {
        // The container waits for its next instance, so the log is that of the last one.
        return Ok(Some(started));
    }
    let begins = format!("container \"{container}\" in pod \"{name}\" is waiting to start");
    match waiting["reason"].as_str() {
        Some("ErrImagePull") => refused(format!("{begins}: image can't be pulled")),
        Some("ImagePullBackOff") => refused(format!("{begins}: trying and failing to pull image")),
        Some(reason) => refused(format!("{begins}: {reason}")),
        None => refused(begins),
    }
}

/// The body of a followed log: the text, then nothing until the instance of the container ends.
#[derive(Debug)]
pub(super) struct LogBody {
    server: ApiServer,
    text: Option<Bytes>,
    namespace: String,
    pod: (String, Uid),
    container: String,
    started: Option<String>,
    look: Pin<Box<Sleep>>,
}

impl LogBody {
    pub(super) fn new(call: &Call<'_>, pod: &Pod, container: String, log: Log) -> LogBody {
        LogBody {
            server: call.server.clone(),
            text: Some(log.text.into()),
            namespace: pod.metadata.namespace.to_string(),
            pod: (pod.metadata.name.to_string(), pod.metadata.uid.clone()),
            container,
            started: log.started,
            look: Box::pin(tokio::time::sleep(LOOK_EVERY)),
        }
    }

    fn runs(&self) -> bool {
        let (name, uid) = &self.pod;
        let Ok(pod) = self.server.cluster().get::<Pod>(&self.namespace, name) else {
            return false;
        };
        let running = &status_of(&pod, &self.container)["state"]["running"];
        let is_same = running["startedAt"].as_str() == self.started.as_deref();
        pod.metadata.uid == *uid && !running.is_null() && is_same
    }
}

impl Bits for LogBody {
    /// Returns the text of the log once, then `None` when the instance of the container has ended.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<NextPart> {
        if let Some(text) = self.text.take().filter(|text| !text.is_empty()) {
            return Poll::Ready(Ok(Some(text)));
        }
        loop {
            if self.server.is_draining() || !self.runs() {
                return Poll::Ready(Ok(None));
            }
            if self.look.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.look.set(tokio::time::sleep(LOOK_EVERY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: Option<&str> = Some("2026-01-01T00:00:10Z");

    fn cut(query: &str, log: &str) -> String {
        let options = Options::from_query(&Query::parse(Some(query))).expect("options");
        let now = Time::read("2026-01-01T00:01:00Z").expect("a time");
        let wall_ns = now.unix_nanos().expect("the time is set");
        options.cut(
            log,
            STARTED,
            Now {
                mono_ns: 0,
                wall_ns,
            },
        )
    }

    #[test]
    fn options_select_a_part_of_the_log() {
        let log = "one\ntwo\nthree\n";
        for (query, wanted) in [
            ("", log),
            ("tailLines=2", "two\nthree\n"),
            ("tailLines=0", ""),
            ("tailLines=9", log),
            ("limitBytes=5", "one\nt"),
            ("tailLines=2&limitBytes=4", "two\n"),
            ("sinceSeconds=49", ""),
            ("sinceSeconds=50", log),
            ("sinceTime=2026-01-01T00:00:10Z", log),
            ("sinceTime=2026-01-01T00:00:11Z", ""),
            (
                "tailLines=1&timestamps=true",
                "2026-01-01T00:00:10Z three\n",
            ),
        ] {
            assert_eq!(cut(query, log), wanted, "{query}");
        }
        assert_eq!(cut("limitBytes=2", "äö\n"), "ä");
        assert_eq!(cut("limitBytes=1", "äö\n"), "");
    }

    #[test]
    fn invalid_log_options_are_refused() {
        for (query, code, why) in [
            (
                "tailLines=-1",
                422,
                "tailLines: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "limitBytes=0",
                422,
                "limitBytes: Invalid value: 0: must be greater than 0",
            ),
            (
                "sinceSeconds=0",
                422,
                "sinceSeconds: Invalid value: 0: must be greater than 0",
            ),
            (
                "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
                422,
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            ("tailLines=many", 400, "many"),
            ("sinceTime=yesterday", 400, "yesterday"),
        ] {
            let error = Options::from_query(&Query::parse(Some(query))).expect_err(query);
            assert_eq!(error.code, code, "{query}");
            assert!(error.message.contains(why), "{query}: {}", error.message);
        }
    }
}
