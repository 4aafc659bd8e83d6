//! The server on which cases are played, and its transports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use podstorm::client::Request as Asked;
use podstorm::driver::run_steps;
use podstorm::namespace::sync;
use podstorm::object::{Namespace, Now, Resource};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::{ApiServer, Credentials, User, listen};
use podstorm_sim::engine::client::{ApiCalls, Client as InProcess};
use tokio::net::{TcpListener, TcpStream};

/// The default credential of the requests.
pub const AUTHORIZATION: &str = "Bearer admintoken";

/// The time at which cases start: 2026-06-01, because the times in requests are before 2026.
const START_NS: i64 = 1_780_272_000_000_000_000;

/// The body of a response on any transport.
pub(super) type Answered = UnsyncBoxBody<Bytes, String>;

/// A fresh server with the users of the recorded server.
#[derive(Debug)]
pub struct Server {
    api: ApiServer,
    /// The time in nanoseconds. It advances only between cases, because the times that a case shows
    /// must not depend on when a second starts.
    clock: Arc<AtomicI64>,
    /// `None` for the in-process transport.
    client: Option<Client>,
}

/// A client that uses one connection for all requests except watches, each of which has a
/// connection of its own.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// Timeouts and delays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// The time to wait for a surplus event after all recorded events.
    pub(super) for_silence: Duration,
    /// The time to wait for a recorded event.
    pub(super) for_event: Duration,
    /// The time to wait for the end of a watch.
    pub(super) for_end: Duration,
    /// The delay between two tries of a request whose response is eventually consistent.
    pub(super) between_tries: Duration,
}

/// Waiting in process takes no real time, and nothing is late.
const IN_PROCESS: Waits = Waits {
    for_silence: Duration::from_millis(350),
    for_event: Duration::from_millis(350),
    for_end: Duration::from_secs(35),
    between_tries: Duration::from_millis(150),
};

/// Over HTTP, an event takes less than a millisecond. The in-process run detects surplus events
/// anyway.
const OVER_HTTP: Waits = Waits {
    for_silence: Duration::from_millis(15),
    for_event: Duration::from_millis(500),
    for_end: Duration::from_secs(5),
    between_tries: Duration::from_millis(10),
};

impl Server {
    /// Creates a server for the in-process transport.
    pub fn in_process() -> Server {
        let user = |name: &str, groups: &[&str]| User {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..User::default()
        };
        let mut credentials = Credentials::default();
        credentials.add_token("admintoken", user("admin", &["system:masters"]));
        credentials.add_token("usertoken", user("jane", &["dev", "ops"]));
        let options = ClusterOptions {
            keeps_past: true,
            // The same as on the recorded server.
            forbids_privileged: true,
            ..ClusterOptions::default()
        };
        let cluster = Arc::new(Cluster::new(options));
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = serde_json::json!({"metadata": {"name": name}});
            let namespace = Namespace::from_json(namespace);
            let created =
                cluster.create(namespace.expect("the namespace is valid"), Now::default());
            created.expect("the cluster is new");
        }
        let clock = Arc::new(AtomicI64::new(START_NS));
        let told = Arc::clone(&clock);
        let api = ApiServer::builder(cluster)
            .credentials(credentials)
            .clock(Arc::new(move || {
                // Relaxed: the time is set only while no request is in flight.
                let ns = told.load(Ordering::Relaxed);
                Now {
                    mono_ns: ns,
                    wall_ns: ns,
                }
            }))
            .build();
        Server {
            api,
            clock,
            client: None,
        }
    }

    /// Starts a server on a port of its own. The server runs as long as the runtime.
    pub(super) async fn listening() -> Result<Server, String> {
        let mut server = Server::in_process();
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        tokio::spawn(listen::serve(
            server.api.clone(),
            listener,
            std::future::pending(),
        ));
        server.client = Some(Client {
            address,
            kept: None,
        });
        Ok(server)
    }

    /// Returns the server, for in-process callers.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Advances the time by one second.
    pub(super) fn tick(&self) {
        self.clock.fetch_add(1_000_000_000, Ordering::Relaxed);
    }

    pub(super) fn waits(&self) -> Waits {
        match self.client {
            Some(_) => OVER_HTTP,
            None => IN_PROCESS,
        }
    }

    /// Runs the controllers of the recorded server once.
    pub(super) fn run_controllers(&self) {
        let (cluster, now) = (self.api.cluster(), self.api.now());
        cluster.collect_garbage(usize::MAX, now);
        let client = InProcess::new(Arc::clone(cluster), None);
        let mut calls = ApiCalls::default();
        for namespace in cluster.list::<Namespace>(None).0 {
            let name = &*namespace.metadata.name;
            let steps = async |calls| sync(name, &calls).await;
            let mut carry = |asked: &Asked, now: Now| client.carry_out(asked, &mut calls, now);
            // Ignore errors: the cases notice remaining objects.
            drop(run_steps(steps, &mut carry, now));
        }
    }

    /// Sends a request. The response may be endless if `is_watch` is set.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        is_watch: bool,
    ) -> Result<Response<Answered>, String> {
        match &mut self.client {
            Some(client) => client.send(request, is_watch).await,
            None => {
                let response = self.api.answer(request).await;
                let response = response.map_err(|lost| lost.to_string())?;
                Ok(response.map(|body| body.map_err(|lost| lost.to_string()).boxed_unsync()))
            }
        }
    }
}

impl Client {
    async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
        is_watch: bool,
    ) -> Result<Response<Answered>, String> {
        let host = HeaderValue::try_from(self.address.to_string());
        let host = host.map_err(|error| error.to_string())?;
        request.headers_mut().insert(http::header::HOST, host);
        let kept = match self.kept.take().filter(|_| !is_watch) {
            // The server may have closed the connection after the last response.
            Some(mut kept) => kept.ready().await.is_ok().then_some(kept),
            None => None,
        };
        let mut connection = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let response = connection.send_request(request).await;
        let response = response.map_err(|error| format!("no response: {error}"))?;
        if !is_watch {
            self.kept = Some(connection);
        }
        Ok(response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| format!("connection failed: {error}"))?;
        // Otherwise, a request would wait until the previous one is acknowledged.
        let _best_effort = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("connection failed: {error}"))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
