//! Sequences of requests and their responses, recorded from a Kubernetes 1.36.2 API server.
//!
//! Each file is played twice, each time against a fresh server: once in process, where time passes
//! only when nothing else happens, and once over HTTP/1.1 on a real connection.

mod answer;
mod compare;
mod events;
mod large;
mod order;
mod play;
mod request;
mod sent;
mod server;
mod shapes;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::differences::Differences;
use super::limit::run_all;

pub use sent::keep_texts;
pub use server::{AUTHORIZATION, Server};
pub use shapes::fits;

/// The outcomes of one case on both transports.
#[derive(Clone, Debug)]
pub struct Played {
    /// The outcome in process.
    pub in_process: Result<(), Differences>,
    /// The outcome over HTTP/1.1.
    pub over_http: Result<(), Differences>,
}

impl Played {
    /// Combines the outcomes. The differences name the transport if the outcomes differ on only
    /// one.
    ///
    /// # Errors
    /// Returns the differences if the case differs on a transport.
    pub fn outcome(self) -> Result<(), Differences> {
        match (self.in_process, self.over_http) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(differences), Ok(())) => Err(differences.about("in process only")),
            (Ok(()), Err(differences)) => Err(differences.about("over HTTP only")),
            // The same differences on both transports, except for UIDs and times.
            (Err(differences), Err(_)) => Err(differences),
        }
    }
}

/// Plays all cases of a file on both transports, with a time limit for each case. Returns the
/// outcomes in the order of the cases.
#[must_use]
pub fn play_all(cases: &Arc<Vec<Value>>, limit: Duration) -> Vec<Played> {
    let (in_process, over_http) = std::thread::scope(|scope| {
        let over_http = scope.spawn(|| play_in_one_way(false, cases, limit));
        let in_process = play_in_one_way(true, cases, limit);
        (
            in_process,
            over_http.join().expect("panics of cases are caught"),
        )
    });
    let pairs = in_process.into_iter().zip(over_http);
    pairs
        .map(|(in_process, over_http)| Played {
            in_process,
            over_http,
        })
        .collect()
}

fn runtime(is_paused: bool) -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(is_paused)
        .build()
        .expect("a runtime with one thread starts")
}

/// Plays the cases one after the other on one server. A case that hangs blocks its server, so the
/// next case gets a fresh server.
fn play_in_one_way(
    in_process: bool,
    cases: &Arc<Vec<Value>>,
    limit: Duration,
) -> Vec<Result<(), Differences>> {
    // These cases were recorded before any other case defined a kind.
    let is_early = |case: &Value| matches!(case["category"].as_str(), Some("discovery" | "paths"));
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by_key(|at| !is_early(&cases[*at]));
    let order = Arc::new(order);
    let (to_play, in_order) = (Arc::clone(cases), Arc::clone(&order));
    let played = run_all(cases.len(), 1, limit, move || {
        let (cases, order) = (Arc::clone(&to_play), Arc::clone(&in_order));
        let runtime = runtime(in_process);
        let mut server = match in_process {
            true => Ok(Server::in_process()),
            false => runtime.block_on(Server::listening()),
        };
        move |at, place: &_| {
            let server = server
                .as_mut()
                .map_err(|error| Differences::from(&**error))?;
            let playing = play::play(server, &cases[order[at]], place);
            super::runner::catching(|| runtime.block_on(playing))
        }
    });
    let mut outcomes = vec![Ok(()); cases.len()];
    for (at, outcome) in order.iter().zip(played) {
        outcomes[*at] = outcome.unwrap_or_else(|hung| Err(hung.into()));
    }
    outcomes
}
