//! `loadgen run --serve`: the API server of a run, for clients that observe the run.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Context, Result};
use podstorm::metrics::text_of;
use podstorm_apiserver::Cluster;
use podstorm_http::{ApiServer, listen};
use podstorm_sim::clock::RealClock;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::background::Background;
use super::bind;
use super::page;
use crate::run::Metrics;

/// The API server of a run. It listens from the start, and serves once the run begins. Dropping
/// it stops the server.
#[derive(Debug)]
pub struct RunServer {
    address: SocketAddr,
    /// The HTML page for browsers.
    page: String,
    /// The runtime and the listener; `None` once the run has begun.
    waiting: Mutex<Option<(Runtime, TcpListener)>>,
    serving: OnceLock<Background>,
}

impl RunServer {
    /// Listens; clients wait until the run of this scenario begins.
    ///
    /// # Errors
    /// The address is in use, or a thread can't be started.
    pub fn start(address: SocketAddr, scenario: &str) -> Result<RunServer> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.context("can't start threads")?;
        let listener = {
            let _entered = runtime.enter();
            bind("--serve", address)?.listen()?
        };
        Ok(RunServer {
            address: listener.local_addr()?,
            page: page::html(Some(scenario)),
            waiting: Mutex::new(Some((runtime, listener))),
            serving: OnceLock::new(),
        })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves this cluster and the metrics of the run from now on; only the first call has an
    /// effect.
    pub fn show(&self, cluster: &Arc<Cluster>, clock: RealClock, metrics: &Metrics) {
        let mut waiting = self
            .waiting
            .lock()
            .expect("nothing panics while the lock is held");
        let Some((runtime, listener)) = waiting.take() else {
            return;
        };
        let metrics = metrics.clone();
        let server = ApiServer::builder(Arc::clone(cluster))
            .clock(Arc::new(move || clock.now()))
            .further_metrics(Arc::new(move || text_of(&metrics.families())));
        let server = server.page(self.page.clone()).build();
        let serving = Background::start("api-server", runtime, move |stopped| {
            listen::serve(server, listener, async { drop(stopped.await) })
        });
        // If the thread can't be started, clients keep waiting.
        if let Ok(serving) = serving {
            let _first = self.serving.set(serving);
        }
    }
}
