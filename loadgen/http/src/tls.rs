//! TLS and HTTP/2: a certificate authority that is created at startup, its certificates, the
//! handshake, and the user in a client certificate.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connected::{Observed, drive, service};
use crate::connections::Connection;
use crate::credentials::User;
use crate::server::ApiServer;
use crate::token_keys::der;

/// The maximum number of concurrent streams on an HTTP/2 connection.
const STREAMS_MAX: u32 = 1000;
/// The answer to a client that does not use TLS.
const NOT_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n\
    This server speaks HTTPS: the address must begin with https://\n";

/// The error for a certificate or a key that could not be generated, e.g. for an invalid name.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl From<rcgen::Error> for TlsError {
    fn from(error: rcgen::Error) -> TlsError {
        TlsError(error.to_string())
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError(error.to_string())
    }
}

/// A connection after the handshake, with the user in the client certificate, if there is one.
pub(crate) struct Greeted {
    stream: TlsStream<TcpStream>,
    user: Option<Arc<User>>,
}

/// Serves a connection until it ends, over HTTP/1.1 or HTTP/2 as the client has chosen.
pub(crate) async fn serve(
    server: &ApiServer,
    greeted: Greeted,
    connection: Connection,
    stops: watch::Receiver<()>,
) {
    let connection = Arc::new(connection);
    let stream = TokioIo::new(Observed::new(greeted.stream, connection.activity()));
    let mut http = auto::Builder::new(TokioExecutor::new());
    // The connection's own deadlines cover all of its states.
    http.http1().header_read_timeout(None);
    let [ask_every, answer_within] = connection.limits().ping;
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ask_every)
        .keep_alive_timeout(answer_within)
        .max_concurrent_streams(STREAMS_MAX);
    let http = http.serve_connection(stream, service(server, greeted.user, &connection));
    drive(http, &connection, stops).await;
}

/// A server's TLS settings: its certificate and the trusted client CAs.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Completes the handshake, and reads the user from the client certificate. `None` if the
    /// client does not use TLS, takes too long, or has a certificate that is from another authority
    /// or has no name.
    pub(crate) async fn greet(&self, mut stream: TcpStream, within: Duration) -> Option<Greeted> {
        /// The first byte of a TLS handshake.
        const HANDSHAKE: u8 = 22;
        let shaken = tokio::time::timeout(within, async {
            let mut first = [0];
            if stream.peek(&mut first).await.ok()? > 0 && first[0].is_ascii_uppercase() {
                // Not a handshake, but possibly the beginning of an HTTP request.
                let _best_effort = stream.write_all(NOT_TLS).await;
                return None;
            }
            match first[0] {
                HANDSHAKE => self.0.accept(stream).await.ok(),
                _ => None,
            }
        });
        let stream = shaken.await.ok()??;
        let certificates = stream.get_ref().1.peer_certificates();
        let user = match certificates.and_then(<[_]>::first) {
            // A certificate without a name is rejected as well.
            Some(certificate) => Some(Arc::new(user_of(certificate)?)),
            None => None,
        };
        Some(Greeted { stream, user })
    }
}

/// A new certificate authority. Its key never leaves the process.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// A certificate and its key, both in PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, in PEM.
    pub certificate: String,
    /// The certificate's key, as PKCS #8 in PEM.
    pub key: String,
}

opaque_debug!(Tls, Authority, Identity);

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// Fails if the system cannot provide random numbers.
    pub fn new() -> Result<Authority, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = named("podstorm");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        let certificate = params.self_signed(&key)?.into();
        Ok(Authority {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// Returns the authority's certificate in PEM, with which clients verify the server.
    pub fn certificate(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// Issues a certificate for a client. The user is its common name, and the group its
    /// organization.
    ///
    /// # Errors
    /// The same as [`Authority::new`].
    pub fn client(&self, user: &str, group: &str) -> Result<Identity, TlsError> {
        let mut params = named(user);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        let (certificate, key) = self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Identity {
            certificate: pem("CERTIFICATE", &certificate),
            key: pem("PRIVATE KEY", key.secret_pkcs8_der()),
        })
    }

    /// Returns the settings of a server with these names and addresses. It offers HTTP/2 and
    /// HTTP/1.1, and requests a client certificate, which is optional.
    ///
    /// # Errors
    /// Fails if a name is not a valid host name.
    pub fn server(&self, names: Vec<String>) -> Result<Tls, TlsError> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named("podstorm-apiserver").distinguished_name;
        let (certificate, key) = self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let clients = clients.allow_unauthenticated().build();
        let clients = clients.map_err(|error| TlsError(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate], key.into())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config).into()))
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), TlsError> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.into();
        Ok((certificate, PrivatePkcs8KeyDer::from(key.serialize_der())))
    }
}

/// Returns the parameters of a certificate with a common name. The certificate effectively never
/// expires, because it need only outlive the process.
fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn pem(label: &str, bytes: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(bytes);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// Returns the user of a client certificate, from the common name and the organizations. `None` if
/// the certificate has no common name.
fn user_of(certificate: &[u8]) -> Option<User> {
    const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    const ORGANISATION: &[u8] = &[0x55, 4, 10];
    let mut certificate = der::Reader(certificate).sequence()?.sequence()?;
    let _version = certificate.read(der::context(0));
    // Skip the serial number, signature algorithm, issuer and validity; the subject follows.
    for _ in 0..4 {
        certificate.any()?;
    }
    let mut subject = certificate.sequence()?;
    let mut user = User::default();
    while !subject.0.is_empty() {
        let mut set = der::Reader(subject.any()?.1);
        while !set.0.is_empty() {
            let mut pair = set.sequence()?;
            let name = pair.read(der::OBJECT)?;
            let (_, value) = pair.any()?;
            let value = String::from_utf8_lossy(value).into_owned();
            match name {
                COMMON_NAME => user.name = value,
                ORGANISATION => user.groups.push(value),
                _ => {}
            }
        }
    }
    (!user.name.is_empty()).then(|| user.authenticated())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(pem: &str) -> Vec<u8> {
        let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        BASE64_STANDARD.decode(lines).unwrap()
    }

    #[test]
    fn a_certificate_names_its_user_and_group() {
        let authority = Authority::new().unwrap();
        let client = authority.client("jane", "dev").unwrap();
        let bytes = der(&client.certificate);
        let user = user_of(&bytes).unwrap();
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
        for end in 0..bytes.len() {
            // A truncated certificate yields another user or `None`, but never a panic.
            let _none_or_less = user_of(&bytes[..end]);
        }
        assert!(authority.server(vec!["no host".to_owned()]).is_ok());
        assert!(authority.server(vec!["n\u{f6}".to_owned()]).is_err());
    }
}
