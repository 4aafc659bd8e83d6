//! Scripts of pods: the behaviour of their containers, as the annotation `podstorm/script` specifies
//! it.
//!
//! A script is a list of words separated by blanks: `KEY=VALUE`, or `CONTAINER.KEY=VALUE` for one
//! container: `run=30s exit=1,1,0 ready=5s cache.run=never`. Values separated by commas apply to
//! the first, the second, … instance of the container; the last value applies to all later
//! instances.

use std::fmt;

use podstorm_objects::Str;
use smallvec::{SmallVec, smallvec};

/// The annotation with a pod's script.
pub const SCRIPT: &str = "podstorm/script";

const SECOND_NS: i64 = 1_000_000_000;

/// A time after the start of a container, ns; `None` means never.
pub(super) type After = Option<i64>;

/// The values of a word, usually one.
type List<T> = SmallVec<[T; 1]>;

/// The behaviour of a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The behaviour of containers other than init containers and sidecars.
    all: Part,
    /// The behaviour of single containers, by name; overrides `all`.
    own: Vec<(Str, Part)>,
    /// The time at which the node evicts the pod, ns after the pod's start there.
    evicted_ns: After,
}

/// The behaviour of a container. An empty list specifies nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The time at which the container ends by itself.
    run: List<After>,
    /// How the container ends.
    exit: List<Exit>,
    /// The time at which the startup probe begins to pass.
    started: List<After>,
    /// The time at which the readiness probe begins to pass.
    ready: List<After>,
    /// The time at which the readiness probe begins to fail again.
    unready: List<After>,
    /// The time at which the liveness probe reaches its failure threshold.
    unhealthy: List<After>,
    /// Whether each pull of the container's image succeeds.
    pull: List<bool>,
    /// Reports whether the `postStart` hook of the instance succeeds.
    post_start: List<bool>,
    /// Reports whether the `preStop` hook of the instance succeeds.
    pre_stop: List<bool>,
    /// The time that the container takes to stop.
    stop: List<After>,
    /// How the container ends when it is stopped.
    stop_exit: List<Exit>,
}

/// How a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// By itself, with this code.
    Code(u8),
    /// By a signal.
    Signal(u8),
    /// The container exceeds its memory limit.
    OutOfMemory,
}

/// The error for a string that is not a script. The message quotes the invalid word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(String);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

/// The signals that end a process, by name.
const SIGNALS: [(&str, u8); 9] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGABRT", 6),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGSEGV", 11),
    ("SIGTERM", 15),
];

impl Exit {
    /// The end of a container that doesn't stop in time.
    pub(super) const KILLED: Exit = Exit::Signal(9);

    /// Returns the exit code in the status of a container that ended like this.
    pub(super) fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code.into(),
            Exit::Signal(number) => 128 + i32::from(number),
            Exit::OutOfMemory => 137,
        }
    }

    /// Returns the reason in the status of a container that ended like this.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Exit::Code(0) => "Completed",
            Exit::OutOfMemory => "OOMKilled",
            Exit::Code(_) | Exit::Signal(_) => "Error",
        }
    }

    fn parse(text: &str) -> Option<Exit> {
        if text == "OOM" {
            return Some(Exit::OutOfMemory);
        }
        let mut signals = SIGNALS.iter();
        let signal = signals.find(|(name, _)| *name == text);
        let signal = signal.map(|(_, number)| Exit::Signal(*number));
        signal.or_else(|| text.parse().ok().map(Exit::Code))
    }
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// Fails for a word that is not `KEY=VALUE`, an unknown key, and an invalid value.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let mut script = Script::default();
        for word in text.split_whitespace() {
            script.read(word).map_err(|why| {
                let message = format!("script: {why} in {word:?}");
                ScriptError(message)
            })?;
        }
        Ok(script)
    }

    /// Returns a script whose containers end `run_ns` after their start: successfully, or with exit
    /// code 1 each time if `fails`.
    pub(super) fn finishing(run_ns: i64, fails: bool) -> Script {
        let mut script = Script::default();
        script.all.run = smallvec![Some(run_ns)];
        script.all.exit = if fails {
            smallvec![Exit::Code(1)]
        } else {
            List::new()
        };
        script
    }

    fn read(&mut self, word: &str) -> Result<(), String> {
        let (key, values) = word.split_once('=').ok_or("expected KEY=VALUE")?;
        let (container, key) = match key.split_once('.') {
            Some((container, key)) => (Some(container), key),
            None => (None, key),
        };
        if (container, key) == (None, "evicted") {
            let after = parse_duration(values).ok_or("expected a time like 30s or 1m30s")?;
            self.evicted_ns = Some(after);
            return Ok(());
        }
        let part = match container {
            None => &mut self.all,
            Some(name) => self.own_mut(name),
        };
        let after = |text: &str| match text {
            "never" => Some(None),
            text => parse_duration(text).map(Some),
        };
        let succeeds = |text: &str| match text {
            "ok" => Some(true),
            "fail" => Some(false),
            _ => None,
        };
        const AFTER: &str = "expected times like 30s or 1m30s, or never";
        const SUCCESS: &str = "expected ok or fail";
        const EXIT: &str = "expected exit codes from 0 to 255, signals like SIGKILL, or OOM";
        match key {
            "run" => part.run = list(values, after, AFTER)?,
            "started" => part.started = list(values, after, AFTER)?,
            "ready" => part.ready = list(values, after, AFTER)?,
            "unready" => part.unready = list(values, after, AFTER)?,
            "unhealthy" => part.unhealthy = list(values, after, AFTER)?,
            "stop" => part.stop = list(values, after, AFTER)?,
            "exit" => part.exit = list(values, Exit::parse, EXIT)?,
            "stop-exit" => part.stop_exit = list(values, Exit::parse, EXIT)?,
            "pull" => part.pull = list(values, succeeds, SUCCESS)?,
            "post-start" => part.post_start = list(values, succeeds, SUCCESS)?,
            "pre-stop" => part.pre_stop = list(values, succeeds, SUCCESS)?,
            _ => {
                let keys = "expected run, exit, started, ready, unready, unhealthy, pull, post-start, pre-stop, \
                    stop, stop-exit or evicted";
                return Err(keys.to_owned());
            }
        }
        Ok(())
    }

    fn own_mut(&mut self, name: &str) -> &mut Part {
        let mut known = self.own.iter();
        let at = known.position(|(known, _)| &**known == name);
        let at = at.unwrap_or_else(|| {
            self.own.push((name.into(), Part::default()));
            self.own.len() - 1
        });
        &mut self.own[at].1
    }

    /// Returns the time at which the node evicts the pod, ns after the pod's start there.
    pub(super) fn evicted_ns(&self) -> After {
        self.evicted_ns
    }

    /// Returns an error for the first container that the script names and `is_known` rejects.
    pub(super) fn unknown(&self, mut is_known: impl FnMut(&str) -> bool) -> Option<ScriptError> {
        let mut named = self.own.iter();
        let (name, _) = named.find(|(name, _)| !is_known(name))?;
        let message = format!("script: the pod has no container {name:?}");
        Some(ScriptError(message))
    }

    /// Returns the behaviour of a container. Words for all containers do not apply to init
    /// containers and sidecars.
    pub(super) fn part(&self, container: &str, is_regular: bool) -> Part {
        let mut own = self.own.iter();
        let own = own.find(|(name, _)| &**name == container);
        let mut part = own.map_or_else(Part::default, |(_, part)| part.clone());
        if is_regular {
            or(&mut part.run, &self.all.run);
            or(&mut part.exit, &self.all.exit);
            or(&mut part.started, &self.all.started);
            or(&mut part.ready, &self.all.ready);
            or(&mut part.unready, &self.all.unready);
            or(&mut part.unhealthy, &self.all.unhealthy);
            or(&mut part.pull, &self.all.pull);
            or(&mut part.post_start, &self.all.post_start);
            or(&mut part.pre_stop, &self.all.pre_stop);
            or(&mut part.stop, &self.all.stop);
            or(&mut part.stop_exit, &self.all.stop_exit);
        }
        part
    }
}

fn or<T: Copy>(own: &mut List<T>, other: &[T]) {
    if own.is_empty() {
        *own = other.into();
    }
}

impl Part {
    /// Returns the time at which the given instance ends by itself, ns after its start. By default,
    /// an init container and a container whose script specifies `exit` end immediately; others keep
    /// running.
    pub(super) fn run(&self, instance: usize, is_init: bool) -> After {
        let unsaid = (is_init || !self.exit.is_empty()).then_some(0);
        at(&self.run, instance).unwrap_or(unsaid)
    }

    /// Returns how the given instance ends.
    pub(super) fn exit(&self, instance: usize) -> Exit {
        at(&self.exit, instance).unwrap_or(Exit::Code(0))
    }

    /// Returns the time at which the startup probe begins to pass, ns after the start.
    pub(super) fn started(&self, instance: usize) -> After {
        at(&self.started, instance).unwrap_or(Some(0))
    }

    /// Returns the time at which the readiness probe begins to fail again, ns after the start.
    pub(super) fn unready(&self, instance: usize) -> After {
        at(&self.unready, instance).unwrap_or(None)
    }

    /// Returns the time at which the readiness probe begins to pass, ns after the start.
    pub(super) fn ready(&self, instance: usize) -> After {
        at(&self.ready, instance).unwrap_or(Some(0))
    }

    /// Reports whether the script specifies when the container is ready.
    pub(super) fn says_ready(&self) -> bool {
        !(self.started.is_empty() && self.ready.is_empty() && self.unready.is_empty())
    }

    /// Returns the time at which the liveness probe reaches its failure threshold, ns after the
    /// start.
    pub(super) fn unhealthy(&self, instance: usize) -> After {
        at(&self.unhealthy, instance).unwrap_or(None)
    }

    /// Reports whether a pull of the image succeeds after `failures` failed pulls.
    pub(super) fn pulls(&self, failures: usize) -> bool {
        at(&self.pull, failures).unwrap_or(true)
    }

    /// Reports whether the `postStart` hook of the instance succeeds.
    pub(super) fn post_start(&self, instance: usize) -> bool {
        at(&self.post_start, instance).unwrap_or(true)
    }

    /// Reports whether the `preStop` hook of the instance succeeds.
    pub(super) fn pre_stop(&self, instance: usize) -> bool {
        at(&self.pre_stop, instance).unwrap_or(true)
    }

    /// Returns the time that the instance takes to stop, ns; `usual` by default.
    pub(super) fn stop(&self, instance: usize, usual: i64) -> After {
        at(&self.stop, instance).unwrap_or(Some(usual))
    }

    /// Returns how the instance ends when it is stopped; `usual` by default.
    pub(super) fn stop_exit(&self, instance: usize, usual: Exit) -> Exit {
        at(&self.stop_exit, instance).unwrap_or(usual)
    }
}

/// Returns the value for an instance; `None` if there are no values.
fn at<T: Copy>(values: &[T], instance: usize) -> Option<T> {
    values.get(instance).or(values.last()).copied()
}

fn list<T>(
    values: &str,
    read: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<List<T>, String> {
    let values: Option<List<T>> = values.split(',').map(read).collect();
    values.ok_or_else(|| expected.to_owned())
}

/// Parses `1m30s`, `500ms` or `0` as ns.
fn parse_duration(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let mut left = text;
    let mut total: i64 = 0;
    while !left.is_empty() {
        let digits = left.find(|c: char| !c.is_ascii_digit())?;
        let (number, rest) = left.split_at(digits);
        let end = rest.find(|c: char| c.is_ascii_digit());
        let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let unit_ns = match unit {
            "ms" => SECOND_NS / 1000,
            "s" => SECOND_NS,
            "m" => 60 * SECOND_NS,
            "h" => 3600 * SECOND_NS,
            _ => return None,
        };
        let part = number.parse::<i64>().ok()?.checked_mul(unit_ns)?;
        total = total.checked_add(part)?;
        left = rest;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_apply_by_instance_and_the_last_value_repeats() {
        let script = Script::parse("run=1s,1m30s,never exit=1,SIGKILL,OOM ready=never,500ms");
        let part = script.unwrap().part("any", true);
        let runs = [0, 1, 2, 9].map(|instance| part.run(instance, false));
        assert_eq!(runs, [Some(SECOND_NS), Some(90 * SECOND_NS), None, None]);
        let exits = [0, 1, 2, 3].map(|instance| part.exit(instance));
        assert_eq!(exits.map(Exit::code), [1, 137, 137, 137]);
        let reasons = ["Error", "Error", "OOMKilled", "OOMKilled"];
        assert_eq!(exits.map(Exit::reason), reasons);
        assert_eq!(part.ready(0), None);
        assert_eq!(part.ready(7), Some(SECOND_NS / 2));
    }

    #[test]
    fn a_containers_own_words_override_those_for_all() {
        let script = Script::parse("run=5s stop=never i.exit=3 s.run=2s pull=fail,ok").unwrap();
        let (init, sidecar) = (script.part("i", false), script.part("s", false));
        let regular = script.part("c", true);
        assert_eq!((init.run(0, true), init.exit(0).code()), (Some(0), 3));
        assert_eq!(sidecar.run(0, false), Some(2 * SECOND_NS));
        assert_eq!(regular.run(0, false), Some(5 * SECOND_NS));
        assert_eq!(regular.stop(0, 1), None);
        assert_eq!(init.stop(0, 1), Some(1));
        assert!(init.pulls(0) && !regular.pulls(0) && regular.pulls(1));
        assert_eq!(
            script.unknown(|name| name != "s").unwrap().to_string(),
            "script: the pod has no container \"s\""
        );
        assert_eq!(script.unknown(|_| true), None);
    }

    #[test]
    fn an_error_names_the_invalid_word() {
        for (text, expected) in [
            ("run", "script: expected KEY=VALUE in \"run\""),
            (
                "run=5",
                "script: expected times like 30s or 1m30s, or never in \"run=5\"",
            ),
            (
                "run=",
                "script: expected times like 30s or 1m30s, or never in \"run=\"",
            ),
            (
                "run=1s,",
                "script: expected times like 30s or 1m30s, or never in \"run=1s,\"",
            ),
            (
                "run=99999999999h",
                "script: expected times like 30s or 1m30s, or never in \"run=99999999999h\"",
            ),
            (
                "ready=5s c.exit=256",
                "script: expected exit codes from 0 to 255, signals like SIGKILL, or OOM in \"c.exit=256\"",
            ),
            (
                "c.evicted=1s",
                "script: expected run, exit, started, ready, unready, unhealthy, pull, post-start, pre-stop, stop, stop-exit or evicted in \"c.evicted=1s\"",
            ),
            (
                "evicted=never",
                "script: expected a time like 30s or 1m30s in \"evicted=never\"",
            ),
            (
                "pull=never",
                "script: expected ok or fail in \"pull=never\"",
            ),
            (
                "color=red",
                "script: expected run, exit, started, ready, unready, unhealthy, pull, post-start, pre-stop, stop, stop-exit or evicted in \"color=red\"",
            ),
        ] {
            assert_eq!(Script::parse(text).unwrap_err().to_string(), expected);
        }
        assert_eq!(Script::parse(" \n"), Ok(Script::default()));
    }
}
