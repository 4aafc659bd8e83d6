//! Comparison of a watch's events with the recorded ones.

use http_body_util::BodyExt;
use serde_json::Value;

use super::super::differences::Differences;
use super::answer::name_of;
use super::play::Case;
use super::server::Server;

impl Case {
    /// Compares the events that a watch has delivered with the recorded ones.
    pub(super) async fn events(
        &mut self,
        server: &Server,
        name: &str,
        step: &Value,
    ) -> Result<(), Differences> {
        let is_free = |line: &Value| {
            step["free"] == "the BOOKMARK may be missing or there" && line["type"] == "BOOKMARK"
        };
        let recorded = step["lines"].as_array().cloned().unwrap_or_default();
        let recorded: Vec<Value> = recorded.into_iter().filter(|line| !is_free(line)).collect();
        let ends = step["ended"] == true;
        let mut watched = self.watches.remove(name).ok_or("the watch is not open")?;
        let mut text = Vec::new();
        let ended = loop {
            let has_come = text.iter().filter(|byte| **byte == b'\n').count();
            let waits = server.waits();
            let wait = match has_come >= recorded.len() {
                _ if ends => waits.for_end,
                true => waits.for_silence,
                false => waits.for_event,
            };
            match tokio::time::timeout(wait, watched.body.frame()).await {
                Ok(Some(Ok(frame))) => text.extend(frame.into_data().unwrap_or_default()),
                Ok(_) => break true,
                Err(_) => break false,
            }
        };
        let is_start = !watched.is_past_start;
        if !ended {
            watched.is_past_start = true;
            self.watches.insert(name.to_owned(), watched);
        }
        if ended != ends {
            return Err(format!("ended: {ended}, recorded {ends}").into());
        }
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let lines: Result<Vec<Value>, _> = lines.map(serde_json::from_slice).collect();
        let mut lines = lines.map_err(|error| error.to_string())?;
        lines.retain(|line| !is_free(line));
        if recorded.len() != lines.len() {
            let (came, wanted, lines) = (lines.len(), recorded.len(), Value::from(lines));
            return Err(format!("{came} events, recorded {wanted}: {lines}").into());
        }
        let before = self.symbols.clone();
        match self.compare_events(&recorded, &lines) {
            Err(_) if is_start => {
                // The objects of an initial state may come in any order.
                self.symbols = before;
                self.compare_events(&start_by_name(&recorded), &start_by_name(&lines))
            }
            compared => compared,
        }
    }

    fn compare_events(&mut self, recorded: &[Value], lines: &[Value]) -> Result<(), Differences> {
        let mut all = Vec::new();
        for (recorded, found) in recorded.iter().zip(lines) {
            if recorded["type"] != found["type"] {
                all.push(format!("recorded {recorded}, found {found}"));
                continue;
            }
            let at = format!("{} event", recorded["type"]);
            let (object, found) = (&recorded["object"], &found["object"]);
            // Upstream adds empty members to the object of a bookmark.
            let members: &[&str] = match recorded["type"] == "BOOKMARK" {
                true => &["kind", "apiVersion", "metadata"],
                false => &[],
            };
            for member in members {
                let (object, found) = (&object[member], &found[member]);
                self.symbols.differences(&at, object, found, &mut all);
            }
            if members.is_empty() {
                self.symbols.differences(&at, object, found, &mut all);
            }
        }
        Differences::none_of(all)
    }
}

/// Sorts the leading `ADDED` events by object name.
fn start_by_name(lines: &[Value]) -> Vec<Value> {
    let mut lines = lines.to_vec();
    let end = lines
        .iter()
        .take_while(|line| line["type"] == "ADDED")
        .count();
    lines[..end].sort_by_key(|line| name_of(&line["object"]));
    lines
}
