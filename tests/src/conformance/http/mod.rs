//! Sequences of requests and their answers, recorded from a Kubernetes 1.36.2 API server.
//!
//! Each file is played twice, each time against one fresh server: in process, where time passes only when
//! nothing else happens, and over HTTP/1.1 on a real connection.

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

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

pub use sent::keep_texts;
pub use server::{AUTHORIZATION, Server};
pub use shapes::fits;

/// How one case ended in each way of playing it.
#[derive(Clone, Debug)]
pub struct Played {
    /// In process.
    pub in_process: Result<(), String>,
    /// Over HTTP/1.1.
    pub over_http: Result<(), String>,
}

impl Played {
    /// What differs, and how it was played.
    ///
    /// # Errors
    /// When it differs in either way.
    pub fn outcome(&self) -> Result<(), String> {
        match (&self.in_process, &self.over_http) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(difference), Ok(())) => Err(format!("in process alone: {difference}")),
            (Ok(()), Err(difference)) => Err(format!("over HTTP alone: {difference}")),
            // The same, but for uids and times.
            (Err(difference), Err(_)) => Err(difference.clone()),
        }
    }
}

/// Plays all cases of a file, in the order of the cases.
#[must_use]
pub fn play_all(cases: &[Value]) -> Vec<Played> {
    let (in_process, over_http) = std::thread::scope(|scope| {
        let over_http = scope.spawn(|| {
            let runtime = runtime(false);
            let server = runtime.block_on(Server::listening());
            play_on(&runtime, server, cases)
        });
        let in_process = play_on(&runtime(true), Ok(Server::in_process()), cases);
        (in_process, over_http.join().expect("its panics are caught"))
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
        .expect("a runtime of one thread")
}

fn play_on(
    runtime: &Runtime,
    server: Result<Server, String>,
    cases: &[Value],
) -> Vec<Result<(), String>> {
    let mut server = match server {
        Ok(server) => server,
        Err(error) => return vec![Err(error); cases.len()],
    };
    let mut outcomes = vec![Ok(()); cases.len()];
    // These were recorded before any case had defined a kind.
    let is_early = |case: &Value| matches!(case["category"].as_str(), Some("discovery" | "paths"));
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by_key(|at| !is_early(&cases[*at]));
    for at in order {
        let playing = play::play(&mut server, &cases[at]);
        outcomes[at] = super::runner::catching(|| runtime.block_on(playing));
    }
    outcomes
}
