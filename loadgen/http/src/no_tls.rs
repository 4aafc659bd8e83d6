//! The counterpart of `tls` in a build without that feature: no HTTP/2, and a request for TLS is an error. It has the
//! same shape, so that no caller asks which of them it has.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::ApiServer;
use crate::connections::Connection;

/// A connection after the handshake: there is none.
pub(crate) enum Greeted {}

#[cfg_attr(test, expect(dead_code, reason = "tests listen with the other"))]
pub(crate) async fn serve(_: &ApiServer, greeted: Greeted, _: Connection, _: watch::Receiver<()>) {
    match greeted {}
}

/// There is none.
#[derive(Debug, thiserror::Error)]
#[error("this build has no TLS: build it with `--features tls`")]
pub struct TlsError;

/// How a server speaks TLS: not here.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    #[cfg_attr(test, expect(dead_code, reason = "tests listen with the other"))]
    pub(crate) async fn greet(&self, _: TcpStream, _: Duration) -> Option<Greeted> {
        match *self {}
    }
}

/// A certificate authority: none can be made.
#[derive(Debug)]
pub enum Authority {}

impl Authority {
    /// None.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Authority, TlsError> {
        Err(TlsError)
    }

    /// Its certificate.
    pub fn certificate(&self) -> String {
        match *self {}
    }

    /// A certificate for a client.
    ///
    /// # Errors
    /// None: there is no authority.
    pub fn client(&self, _user: &str, _group: &str) -> Result<Identity, TlsError> {
        match *self {}
    }

    /// What a server shows.
    ///
    /// # Errors
    /// None: there is no authority.
    pub fn server(&self, _names: Vec<String>) -> Result<Tls, TlsError> {
        match *self {}
    }
}

/// A certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::Authority;

    #[test]
    fn who_asks_for_it_is_told_what_to_build() {
        let told = Authority::new().unwrap_err().to_string();
        assert!(told.ends_with("build it with `--features tls`"), "{told}");
    }
}
