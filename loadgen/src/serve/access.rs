//! Access to the API server: accepted credentials, TLS, and the client's login.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use podstorm_http::tls::{Authority, Identity, Tls};
use podstorm_http::{BUILT_IN_HOSTS, Credentials, User, random_token};

/// Addresses in the server's certificate, in addition to the listen address.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];
/// The user in the kubeconfig and its group.
const ADMIN: [&str; 2] = ["kubernetes-admin", "system:masters"];

/// Who may access a server, and how.
#[derive(Debug, Default)]
pub struct Access {
    /// The credentials that the server accepts.
    pub credentials: Credentials,
    /// TLS settings; `None` if the server uses plain HTTP.
    pub tls: Option<Tls>,
    /// The login for the kubeconfig.
    pub login: Login,
}

/// The client's login. All fields are `None` without TLS and authentication.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The certificate of the server's certificate authority; `None` without TLS.
    pub authority: Option<String>,
    /// A token created at startup; `None` without authentication.
    pub token: Option<String>,
    /// A client certificate; `None` without TLS.
    pub certificate: Option<Identity>,
}

impl Access {
    /// Creates the rules for TLS, tokens, or both; with neither, the server serves all clients.
    /// `names` are the server's names for TLS, in addition to its listen address.
    ///
    /// # Errors
    /// A name is not a valid host name, the system has no random numbers, or the build lacks TLS.
    pub fn new(
        listen: IpAddr,
        names: Option<&[String]>,
        tokens: Vec<(String, User)>,
    ) -> Result<Access> {
        let mut access = Access::default();
        if names.is_none() && tokens.is_empty() {
            return Ok(access);
        }
        for (token, user) in tokens {
            access.credentials.add_token(token, user);
        }
        let token = random_token().context("can't create a token")?;
        let [name, group] = ADMIN;
        let admin = User {
            name: name.to_owned(),
            uid: String::new(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        access.credentials.add_token(token.clone(), admin);
        access.login.token = Some(token);
        if let Some(names) = names {
            let authority = Authority::new().context("--tls")?;
            let own = BUILT_IN_HOSTS.into_iter().chain(ADDRESSES);
            let mut all: Vec<String> = own.map(str::to_owned).collect();
            all.push(listen.to_string());
            all.extend(names.iter().cloned());
            all.sort();
            all.dedup();
            let config = authority.server(all);
            access.tls = Some(config.context("--tls-san: can't create a certificate")?);
            let client = authority.client(name, group);
            access.login.certificate = Some(client.context("--tls: can't create a certificate")?);
            access.login.authority = Some(authority.certificate());
        }
        Ok(access)
    }
}

/// Returns the address at which clients on this machine reach a server that listens at
/// `listens_at`.
pub(super) fn reached_at(listens_at: SocketAddr) -> SocketAddr {
    let ip = match listens_at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens_at.port())
}
