//! A small HTTP server on a thread of its own: `/metrics` and `/healthz`.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::oneshot;

use super::text;
use crate::run::Metrics;

/// How long a client may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// A server that could not be started: its address and why.
#[derive(Debug, thiserror::Error)]
#[error("--metrics-addr {address}: {problem}")]
pub struct ServerError {
    address: SocketAddr,
    problem: String,
}

/// A server of the metrics of one run. It ends when it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    metrics: Arc<OnceLock<Metrics>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at an address; port 0 is one that is free. There are no metrics before
    /// [`MetricsServer::show`].
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the system is out of threads.
    pub fn start(address: SocketAddr) -> Result<MetricsServer, ServerError> {
        let failed = |error: io::Error| ServerError {
            address,
            problem: match error.kind() {
                io::ErrorKind::AddrInUse => "is in use; name another port, or 0 for any".to_owned(),
                io::ErrorKind::AddrNotAvailable => "is no address of this machine".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    "may not be listened at; name a port from 1024 on".to_owned()
                }
                _ => format!("can't be listened at: {error}"),
            },
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let metrics: Arc<OnceLock<Metrics>> = Arc::default();
        let (stop, stopped) = oneshot::channel();
        let shown = Arc::clone(&metrics);
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(listener, shown) => {}
                    }
                });
                // Connections that are open end here.
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        Ok(MetricsServer {
            address: bound,
            metrics,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it serves from now on; the first call counts.
    pub fn show(&self, metrics: &Metrics) {
        let _first = self.metrics.set(metrics.clone());
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _gone_already = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, metrics: Arc<OnceLock<Metrics>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or the client has gone: the next may do better.
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
            // A client that goes away harms nobody.
            let _ended = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer<B>(request: &Request<B>, metrics: Option<&Metrics>) -> Response<Full<Bytes>> {
    let is_known = ["/metrics", "/healthz"].contains(&request.uri().path());
    if is_known && ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        response
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/metrics" => {
            let families = metrics.map(Metrics::families).unwrap_or_default();
            respond(
                StatusCode::OK,
                text::PROMETHEUS,
                text::prometheus(&families),
            )
        }
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text.to_owned())
}

fn respond(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
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
    fn known_paths_are_answered_and_others_are_not_found() {
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
        assert!(
            TcpStream::connect(address).is_err(),
            "nobody listens any more"
        );
    }

    #[test]
    fn a_port_that_is_in_use_is_told() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = MetricsServer::start(server.address()).unwrap_err();
        assert!(error.to_string().contains("is in use"), "{error}");
    }
}
