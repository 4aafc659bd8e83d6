//! The server that cases are played against, and how requests reach it.

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

/// The credential that is sent unless a step says otherwise.
pub const AUTHORIZATION: &str = "Bearer admintoken";

/// When cases begin: 2026-06-01, as times of requests are before 2026.
const START_NS: i64 = 1_780_272_000_000_000_000;

/// The body of an answer, from wherever it comes.
pub(super) type Answered = UnsyncBoxBody<Bytes, String>;

/// A fresh server with the users of the recorded one.
#[derive(Debug)]
pub struct Server {
    api: ApiServer,
    /// What the time is, ns: it passes between cases only, for what a case shows of its times must not depend on
    /// where a second begins.
    clock: Arc<AtomicI64>,
    /// `None` in process.
    client: Option<Client>,
}

/// A client that keeps one connection for all requests but watches, which have one each.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// How long things are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For one more event where all that were recorded have come.
    pub(super) for_silence: Duration,
    /// For an event that was recorded.
    pub(super) for_event: Duration,
    /// For the end of a watch.
    pub(super) for_end: Duration,
    /// Between two tries of a request whose answer comes eventually.
    pub(super) between_tries: Duration,
}

/// In process waiting takes no time, and nothing is late.
const IN_PROCESS: Waits = Waits {
    for_silence: Duration::from_millis(350),
    for_event: Duration::from_millis(350),
    for_end: Duration::from_secs(35),
    between_tries: Duration::from_millis(150),
};

/// An event comes within a millisecond; what comes too much is seen in process in any case.
const OVER_HTTP: Waits = Waits {
    for_silence: Duration::from_millis(15),
    for_event: Duration::from_millis(500),
    for_end: Duration::from_secs(5),
    between_tries: Duration::from_millis(10),
};

impl Server {
    /// A server that is called.
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
            // As the recorded server was started.
            forbids_privileged: true,
            ..ClusterOptions::default()
        };
        let cluster = Arc::new(Cluster::new(options));
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = serde_json::json!({"metadata": {"name": name}});
            let namespace = Namespace::from_json(namespace);
            let created = cluster.create(namespace.expect("it is one"), Now::default());
            created.expect("the cluster is new");
        }
        let clock = Arc::new(AtomicI64::new(START_NS));
        let told = Arc::clone(&clock);
        let api = ApiServer::builder(cluster)
            .credentials(credentials)
            .clock(Arc::new(move || {
                // Relaxed: it is set when no request is under way.
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

    /// A server that listens at a port of its own, for as long as the runtime lives.
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

    /// The server itself, for callers in process.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// A second passes.
    pub(super) fn tick(&self) {
        self.clock.fetch_add(1_000_000_000, Ordering::Relaxed);
    }

    pub(super) fn waits(&self) -> Waits {
        match self.client {
            Some(_) => OVER_HTTP,
            None => IN_PROCESS,
        }
    }

    /// What the controllers do that ran beside the recorded server, once.
    pub(super) fn run_controllers(&self) {
        let (cluster, now) = (self.api.cluster(), self.api.now());
        cluster.collect_garbage(usize::MAX, now);
        let client = InProcess::new(Arc::clone(cluster), None);
        let mut calls = ApiCalls::default();
        for namespace in cluster.list::<Namespace>(None).0 {
            let name = &*namespace.metadata.name;
            let steps = async |calls| sync(name, &calls).await;
            let mut carry = |asked: &Asked, now: Now| client.carry_out(asked, &mut calls, now);
            // What stays is for the cases to see.
            drop(run_steps(steps, &mut carry, now));
        }
    }

    /// Sends a request; `is_watch` where its answer may have no end.
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
            // The server may have closed it after the last answer.
            Some(mut kept) => kept.ready().await.is_ok().then_some(kept),
            None => None,
        };
        let mut connection = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let response = connection.send_request(request).await;
        let response = response.map_err(|error| format!("no answer: {error}"))?;
        if !is_watch {
            self.kept = Some(connection);
        }
        Ok(response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| format!("no connection: {error}"))?;
        // A request should not wait for the acknowledgement of the one before.
        let _best_effort = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("no connection: {error}"))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
