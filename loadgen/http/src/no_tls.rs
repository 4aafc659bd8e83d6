//! The replacement of `tls` in a build without that feature: there is no HTTP/2, and using TLS is
//! an error. The API is the same, so callers need no conditional compilation.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::connections::Connection;
use crate::server::ApiServer;

/// A connection after the handshake; never constructed.
pub(crate) enum Greeted {}

#[cfg_attr(test, expect(dead_code, reason = "tests use the real module"))]
pub(crate) async fn serve(_: &ApiServer, greeted: Greeted, _: Connection, _: watch::Receiver<()>) {
    match greeted {}
}

/// The error of every use of TLS.
#[derive(Debug, thiserror::Error)]
#[error("this build has no TLS: build it with `--features tls`")]
pub struct TlsError;

/// A server's TLS settings; never constructed.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    #[cfg_attr(test, expect(dead_code, reason = "tests use the real module"))]
    pub(crate) async fn greet(&self, _: TcpStream, _: Duration) -> Option<Greeted> {
        match *self {}
    }
}

/// A certificate authority; never constructed.
#[derive(Debug)]
pub enum Authority {}

impl Authority {
    /// Always fails, because this build has no TLS.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Authority, TlsError> {
        Err(TlsError)
    }

    /// Returns the authority's certificate.
    pub fn certificate(&self) -> String {
        match *self {}
    }

    /// Returns a certificate for a client.
    ///
    /// # Errors
    /// Never, because an authority cannot exist.
    pub fn client(&self, _user: &str, _group: &str) -> Result<Identity, TlsError> {
        match *self {}
    }

    /// Returns a server's settings.
    ///
    /// # Errors
    /// Never, because an authority cannot exist.
    pub fn server(&self, _names: Vec<String>) -> Result<Tls, TlsError> {
        match *self {}
    }
}

/// A certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The certificate's key.
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::Authority;

    #[test]
    fn the_error_names_the_feature_to_build() {
        let told = Authority::new().unwrap_err().to_string();
        assert!(told.ends_with("build it with `--features tls`"), "{told}");
    }
}
