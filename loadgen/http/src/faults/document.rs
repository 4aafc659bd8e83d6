//! Faults as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::fault::{invalid, invalid_code, one_of_codes};
use super::{ArmedFault, Effect, Fault, InvalidFault, Refusal, Verb};
use crate::time::ADVANCE_MAX_SECONDS;

/// The members of a fault, as messages list them.
const MEMBERS: &str = "verbs, resource, namespace, name, userAgent, after, times, effect, code, \
                       retryAfterSeconds, seconds";

/// Formats a fault as JSON. Empty members are omitted.
pub(crate) fn write(armed: &ArmedFault) -> Value {
    let ArmedFault {
        id,
        fault,
        passed,
        struck,
    } = armed;
    let mut out = json!({"id": id.0, "effect": fault.effect.name()});
    if !fault.verbs.is_empty() {
        let verbs: Vec<&str> = fault.verbs.iter().map(|verb| verb.name()).collect();
        out["verbs"] = json!(verbs);
    }
    let texts = [
        ("resource", &fault.resource),
        ("namespace", &fault.namespace),
        ("name", &fault.name),
        ("userAgent", &fault.user_agent),
    ];
    for (member, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        out[member] = json!(text);
    }
    if let Some(refusal) = fault.effect.refusal() {
        out["code"] = json!(refusal.code);
        if let Some(seconds) = refusal.retry_after_seconds {
            out["retryAfterSeconds"] = json!(seconds);
        }
    }
    if let Some(time) = fault.effect.duration() {
        out["seconds"] = json!(time.as_secs_f64());
    }
    out["after"] = json!(fault.after);
    out["times"] = match fault.times {
        Fault::ALWAYS => json!("always"),
        times => json!(times),
    };
    out["passed"] = json!(passed);
    out["struck"] = json!(struck);
    out
}

/// Reads a fault from JSON.
///
/// # Errors
/// Names the first member that is invalid, unknown, or meaningless for the effect.
pub(crate) fn read(text: &[u8]) -> Result<Fault, InvalidFault> {
    let document: Value =
        serde_json::from_slice(text).map_err(|error| invalid("body", error.to_string()))?;
    let Value::Object(members) = document else {
        let why = "must be an object such as {\"effect\": \"lose-answer\", \"verbs\": [\"patch\"]}";
        return Err(invalid("body", why));
    };
    let mut members = Members(members);
    let effect = members.effect()?;
    let fault = Fault {
        verbs: members.verbs()?,
        resource: members.text("resource")?,
        namespace: members.text("namespace")?,
        name: members.text("name")?,
        user_agent: members.text("userAgent")?,
        after: members.number("after")?.unwrap_or(0),
        times: members.times()?,
        effect,
    };
    if let Some(member) = members.0.keys().next() {
        let why = match MEMBERS.split(", ").any(|known| known == member) {
            true => format!("does not apply to the effect {}", effect.name()),
            false => format!("is unknown; the members are {MEMBERS}"),
        };
        return Err(invalid(member, why));
    }
    fault.check()?;
    Ok(fault)
}

/// The members of a document that have not been read yet.
struct Members(Map<String, Value>);

impl Members {
    fn text(&mut self, member: &str) -> Result<String, InvalidFault> {
        match self.0.remove(member) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(invalid(member, format!("{other} is not a string"))),
        }
    }

    fn number(&mut self, member: &str) -> Result<Option<u64>, InvalidFault> {
        let Some(value) = self.0.remove(member) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(invalid(
                member,
                format!("{value} is not a non-negative integer"),
            )),
        }
    }

    fn times(&mut self) -> Result<u64, InvalidFault> {
        if self.0.get("times").is_some_and(|times| times == "always") {
            self.0.remove("times");
            return Ok(Fault::ALWAYS);
        }
        Ok(self.number("times")?.unwrap_or(1))
    }

    fn verbs(&mut self) -> Result<Vec<Verb>, InvalidFault> {
        let names = || Verb::ALL.map(Verb::name).join(", ");
        let verbs = match self.0.remove("verbs") {
            None => return Ok(Vec::new()),
            Some(Value::Array(verbs)) => verbs,
            Some(other) => {
                let why = format!("{other} is not a list; its values can be {}", names());
                return Err(invalid("verbs", why));
            }
        };
        let verb = |text: &Value| {
            let known = Verb::ALL.into_iter().find(|verb| verb.name() == text);
            known.ok_or_else(|| invalid("verbs", format!("{text} is not one of {}", names())))
        };
        verbs.iter().map(verb).collect()
    }

    fn code(&mut self) -> Result<Option<Refusal>, InvalidFault> {
        let Some(code) = self.number("code")? else {
            return Ok(None);
        };
        let seconds = self.number("retryAfterSeconds")?;
        let seconds = seconds.map(u32::try_from).transpose();
        Ok(Some(Refusal {
            // `Fault::check` rejects all other invalid codes.
            code: u16::try_from(code).map_err(|_| invalid_code(code))?,
            retry_after_seconds: seconds
                .map_err(|_| invalid("retryAfterSeconds", "must be below 4294967296"))?,
        }))
    }

    fn seconds(&mut self) -> Result<Option<Duration>, InvalidFault> {
        let Some(value) = self.0.remove("seconds") else {
            return Ok(None);
        };
        let seconds = value.as_f64();
        let seconds = seconds.filter(|seconds| (0.0..=ADVANCE_MAX_SECONDS).contains(seconds));
        match seconds {
            Some(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
            None => {
                let why = format!("{value} is not a number from 0 to {ADVANCE_MAX_SECONDS}");
                Err(invalid("seconds", why))
            }
        }
    }

    fn effect(&mut self) -> Result<Effect, InvalidFault> {
        let names = || Effect::NAMES.join(", ");
        let needed = |member: &str, why: &str| invalid(member, format!("is missing: {why}"));
        let effect = self.0.remove("effect");
        let effect = effect.ok_or_else(|| needed("effect", &format!("one of {}", names())))?;
        Ok(match effect.as_str().unwrap_or_default() {
            "refuse" => {
                let code = self.code()?;
                Effect::Refuse(code.ok_or_else(|| needed("code", &one_of_codes()))?)
            }
            "lose-request" => Effect::LoseRequest,
            "lose-answer" => Effect::LoseAnswer(self.code()?),
            "delay-answer" => {
                let time = self.seconds()?;
                let why = "the delay of the answer, by the cluster's clock";
                Effect::DelayAnswer(time.ok_or_else(|| needed("seconds", why))?)
            }
            "hold-events" => Effect::HoldEvents(self.seconds()?),
            "end-watch" => Effect::EndWatch,
            "cut-watch" => Effect::CutWatch,
            "expire-watch" => Effect::ExpireWatch,
            _ => {
                let why = format!("{effect} is not one of {}", names());
                return Err(invalid("effect", why));
            }
        })
    }
}
