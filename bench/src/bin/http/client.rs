//! A client that sends many requests at little cost: HTTP/1.1 over persistent connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::server::Server;
use crate::table::thousands;

/// A request that the client sends.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) media: &'static str,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn get(path: impl Into<String>) -> Asked {
        Asked {
            method: "GET",
            path: path.into(),
            media: "application/json",
            body: Bytes::new(),
        }
    }

    pub(crate) fn post(path: &str, body: impl Into<Bytes>) -> Asked {
        Asked {
            method: "POST",
            path: path.to_owned(),
            media: "application/json",
            body: body.into(),
        }
    }
}

/// A persistent connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    token: Option<&'static str>,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        let sender = match &server.tls {
            None => over(stream).await?,
            Some(tls) => over(tls.connect(server.address.ip().into(), stream).await?).await?,
        };
        let token = server.token;
        Ok(Connection { sender, token })
    }

    /// Sends a request and returns the answer with any status.
    pub(crate) async fn ask(&mut self, asked: &Asked) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(asked.method)
            .uri(&asked.path)
            .header("host", "127.0.0.1")
            .header("accept", "application/json")
            .header("content-type", asked.media);
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(asked.body.clone()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request that must succeed, and returns the body of its answer.
    pub(crate) async fn send(&mut self, asked: &Asked) -> anyhow::Result<Incoming> {
        let response = self.ask(asked).await?;
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await?.to_bytes();
            let text = String::from_utf8_lossy(&body);
            anyhow::bail!("{} {}: {status}: {text}", asked.method, asked.path);
        }
        Ok(response.into_body())
    }

    /// Sends a request that must succeed, and returns the whole body of its answer.
    pub(crate) async fn whole(&mut self, asked: &Asked) -> anyhow::Result<Bytes> {
        Ok(self.send(asked).await?.collect().await?.to_bytes())
    }
}

/// Sets HTTP up on a stream. A separate task drives the connection.
async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Waits until the server answers. Returns the time since the server was started.
pub(crate) async fn first_answer(server: &Server) -> anyhow::Result<Duration> {
    while server.began.elapsed() < Duration::from_secs(60) {
        if let Ok(mut connection) = Connection::open(server).await
            && connection.whole(&Asked::get("/readyz")).await.is_ok()
        {
            let ready = server.began.elapsed();
            namespace(&mut connection).await?;
            return Ok(ready);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    anyhow::bail!("the server at {} does not become ready", server.address)
}

/// Waits until the namespace of the created objects exists: kube-apiserver reports that it is ready
/// before it has created the namespace.
async fn namespace(connection: &mut Connection) -> anyhow::Result<()> {
    let asked = Asked::get("/api/v1/namespaces/default");
    for _ in 0..60_000 {
        if connection.whole(&asked).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    anyhow::bail!("the server did not create the namespace `default`")
}

/// The resources that a number of requests took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) requests: u64,
    pub(crate) wall: Duration,
    /// The CPU times of the server and of its store.
    pub(crate) cpu: [Duration; 2],
}

impl Taken {
    /// Formats the rate and the CPU time per request.
    pub(crate) fn text(&self, server: &Server) -> String {
        let requests = self.requests as f64;
        let micros = |cpu: Duration| thousands(cpu.as_secs_f64() * 1e6 / requests);
        let store = match server.store {
            Some(_) => format!(" + {} etcd", micros(self.cpu[1])),
            None => String::new(),
        };
        let rate = thousands(requests / self.wall.as_secs_f64());
        format!("{rate}/s; {}{store} µs CPU", micros(self.cpu[0]))
    }
}

/// Sends numbered requests, concurrently over this many connections.
pub(crate) async fn load(
    server: &Server,
    connections: usize,
    requests: u64,
    ask: impl Fn(u64) -> Asked,
) -> anyhow::Result<Taken> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(server).await?);
    }
    let next = AtomicU64::new(0);
    let (next, ask) = (&next, &ask);
    let (before, began) = (server.cpu(), Instant::now());
    let each = open.into_iter().map(|mut connection| async move {
        loop {
            // Relaxed: the number only has to be unique.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= requests {
                return anyhow::Ok(());
            }
            connection.whole(&ask(number)).await?;
        }
    });
    futures::future::try_join_all(each).await?;
    let (wall, after) = (began.elapsed(), server.cpu());
    Ok(Taken {
        requests,
        wall,
        cpu: [after[0] - before[0], after[1] - before[1]],
    })
}

/// An open watch that counts its events.
#[derive(Debug)]
pub(crate) struct Watch(Incoming);

impl Watch {
    pub(crate) async fn open(server: &Server, path: &str) -> anyhow::Result<Watch> {
        let mut connection = Connection::open(server).await?;
        let body = connection.send(&Asked::get(path)).await?;
        Ok(Watch(body))
    }

    /// Reads until this many objects have been added. Returns the number of events received so far.
    pub(crate) async fn added(&mut self, wanted: u64) -> anyhow::Result<u64> {
        let mark = memchr::memmem::Finder::new(br#"{"type":"ADDED""#);
        let (mut added, mut events, mut rest) = (0, 0, Vec::new());
        while added < wanted {
            let frame = self.0.frame().await.context("the watch has ended")??;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            // Search only whole lines, because a chunk may end in the middle of the searched text.
            let Some(last) = memchr::memrchr(b'\n', data) else {
                rest.extend_from_slice(data);
                continue;
            };
            rest.extend_from_slice(&data[..=last]);
            added += mark.find_iter(&rest).count() as u64;
            events += memchr::memchr_iter(b'\n', &rest).count() as u64;
            rest.clear();
            rest.extend_from_slice(&data[last + 1..]);
        }
        Ok(events)
    }
}
