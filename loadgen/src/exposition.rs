//! `--metrics-addr`: serves the metrics of a run to Prometheus over HTTP while the run lasts, from
//! a small server on its own thread, with `/metrics` and `/healthz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use podstorm::metrics::text_of;
use tokio::net::TcpListener;

use crate::run::Metrics;
use crate::serve::background::Background;
use crate::serve::bind;

/// The `Content-Type` of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The time within which a client must send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// A server for the metrics of one run. Dropping it stops it.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    metrics: Arc<OnceLock<Metrics>>,
    _serving: Background,
}

impl MetricsServer {
    /// Listens at an address; port 0 selects a free port. The server has no metrics until
    /// [`MetricsServer::show`] is called.
    ///
    /// # Errors
    /// The address is in use or does not belong to this machine, or a thread can't be started.
    pub fn start(address: SocketAddr) -> Result<MetricsServer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("can't start threads")?;
        let listener = {
            let _entered = runtime.enter();
            bind("--metrics-addr", address)?.listen()?
        };
        let address = listener.local_addr()?;
        let metrics: Arc<OnceLock<Metrics>> = Arc::default();
        let shown = Arc::clone(&metrics);
        let serving = Background::start("metrics", runtime, move |stopped| async move {
            tokio::select! {
                _ = stopped => {}
                () = accept(listener, shown) => {}
            }
        });
        Ok(MetricsServer {
            address,
            metrics,
            _serving: serving.context("can't start threads")?,
        })
    }

    /// Returns the address at which the server listens, with the port that the system selected.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves these metrics from now on; only the first call has an effect.
    pub fn show(&self, metrics: &Metrics) {
        let _first = self.metrics.set(metrics.clone());
    }
}

async fn accept(listener: TcpListener, metrics: Arc<OnceLock<Metrics>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptors are left, or the client has disconnected: the next attempt may
            // succeed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(&request, metrics.get());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN);
            // Ignore the error: a client that disconnects does not affect the others.
            let _ended = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer<B>(request: &Request<B>, metrics: Option<&Metrics>) -> Response<Full<Bytes>> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, kind, text) = match request.uri().path() {
        "/metrics" | "/healthz" if !is_read => (
            StatusCode::METHOD_NOT_ALLOWED,
            PLAIN,
            "only GET\n".to_owned(),
        ),
        "/healthz" => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/metrics" => {
            let families = metrics.map(Metrics::families).unwrap_or_default();
            (StatusCode::OK, PROMETHEUS, text_of(&families))
        }
        _ => {
            let text = "there are /metrics and /healthz\n".to_owned();
            (StatusCode::NOT_FOUND, PLAIN, text)
        }
    };
    let mut response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response = response.header(ALLOW, "GET, HEAD");
    }
    let response = response.body(Full::new(Bytes::from(text)));
    response.expect("the headers of the response are valid")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        let text = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn known_paths_are_served_and_others_are_not_found() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address();
        assert_ne!(address.port(), 0);
        for (request, status) in [
            ("GET /healthz", "200 OK"),
            ("HEAD /healthz", "200 OK"),
            ("GET /metrics", "200 OK"),
            ("GET /", "404 Not Found"),
            ("POST /metrics", "405 Method Not Allowed"),
        ] {
            let answer = ask(address, request);
            let expected = format!("HTTP/1.1 {status}\r\n");
            assert!(answer.starts_with(&expected), "{request}: {answer}");
        }
        drop(server);
        let again = TcpStream::connect(address);
        assert!(again.is_err(), "the server no longer listens");
    }
}
