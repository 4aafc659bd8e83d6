//! Plays one recorded case.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use serde_json::Value;

use super::super::differences::Differences;
use super::super::limit::Place;
use super::answer::Answer;
use super::compare::Symbols;
use super::order;
use super::server::{Answered, Server};

/// The maximum number of tries for a request whose response is eventually consistent.
const REPEATS: u32 = 20;

/// The known members of a case, of a step and of a response. An unknown member is an error, because
/// the player would not understand it.
const CASE: &str = "category description free managedFields namespace rvOrder steps unstable";
const STEP: &str = "body bodyBytes bodyFrom bodyText ended eventually events free headers lines \
                    method note path response watch";
const ANSWER: &str = "body bodyBinary bodyText headers status";

/// A case that is being played.
#[derive(Default)]
pub(super) struct Case {
    pub(super) symbols: Symbols,
    /// The bodies of the responses so far, by the number of the step.
    pub(super) bodies: BTreeMap<usize, Value>,
    pub(super) watches: BTreeMap<String, Watched>,
}

/// An open watch.
pub(super) struct Watched {
    pub(super) body: Answered,
    /// Whether the events of the initial state have been compared.
    pub(super) is_past_start: bool,
}

/// Plays all steps of a case, even after a difference.
///
/// # Errors
/// Returns the differences, if there are any.
pub(super) async fn play(
    server: &mut Server,
    case: &Value,
    place: &Place,
) -> Result<(), Differences> {
    only_known(case, CASE, "case")?;
    server.tick();
    let mut playing = Case::default();
    playing.symbols.without_managed_fields = case["managedFields"] == "dropped";
    if let Some(namespace) = case["namespace"].as_str() {
        let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        let step =
            serde_json::json!({"method": "POST", "path": "/api/v1/namespaces", "body": body});
        let answer = playing.send(server, &step).await?;
        if answer.status() != 201 {
            let problem = format!("the namespace was not created: {}", answer.status());
            return Err(problem.into());
        }
        // Read to the end, so that the connection becomes free again.
        answer.into_body().collect().await?;
    }
    let steps = case["steps"].as_array().ok_or("no steps")?;
    let mut all = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let name = format!("step {number}");
        place.reach(format!("{name} ({})", title(step)));
        if let Err(differences) = playing.step(server, number, step).await {
            all.extend_from_slice(differences.about(&name).all());
        }
    }
    if all.is_empty() {
        order::check(&playing.symbols, case)?;
    }
    Differences::none_of(all)
}

/// Describes a step in a few words.
fn title(step: &Value) -> String {
    let text = |member: &str| step[member].as_str();
    match text("events") {
        Some(watch) => format!("events of {watch}"),
        None => {
            let (method, path) = (text("method").unwrap_or("GET"), text("path"));
            format!("{method} {}", path.unwrap_or_default())
        }
    }
}

fn only_known(value: &Value, known: &str, what: &str) -> Result<(), String> {
    let mut members = value.as_object().into_iter().flatten();
    match members.find(|(name, _)| !known.split(' ').any(|it| it == *name)) {
        Some((name, _)) => Err(format!("{what}: unknown field {name:?}")),
        None => Ok(()),
    }
}

impl Case {
    async fn step(
        &mut self,
        server: &mut Server,
        number: usize,
        step: &Value,
    ) -> Result<(), Differences> {
        only_known(step, STEP, "step")?;
        only_known(&step["response"], ANSWER, "response")?;
        if let Some(name) = step["events"].as_str() {
            return self.events(server, name, step).await;
        }
        let eventually = step["eventually"] == true;
        let mut left = if eventually { REPEATS } else { 1 };
        loop {
            left -= 1;
            let response = self.send(server, step).await?;
            if let Some(name) = step["watch"].as_str()
                && response.status() == 200
            {
                let watched = Watched {
                    body: response.into_body(),
                    is_past_start: false,
                };
                self.watches.insert(name.to_owned(), watched);
                return Ok(());
            }
            let (head, body) = response.into_parts();
            let answer = Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.collect().await?.to_bytes(),
            };
            if let Ok(value) = serde_json::from_slice(&answer.body) {
                self.bodies.insert(number, value);
            }
            // Undo the bindings from a response that came too early.
            let before = self.symbols.clone();
            match self.compare(step, &answer) {
                Err(_) if left > 0 => {
                    self.symbols = before;
                    server.run_controllers();
                    tokio::time::sleep(server.waits().between_tries).await;
                }
                compared => return compared,
            }
        }
    }
}
