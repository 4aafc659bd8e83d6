//! Who may ask the API server, and what a client needs to be let in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use podstorm_http::tls::{Authority, Identity, Tls};
use podstorm_http::{BUILT_IN_HOSTS, Credentials, User, random_token};

/// Addresses of the server that its certificate has beside the one that it listens at.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];
/// The user that the kubeconfig stands for, and its group.
const ADMIN: [&str; 2] = ["kubernetes-admin", "system:masters"];

/// Who may ask the server, and how it speaks.
#[derive(Debug, Default)]
pub struct Access {
    /// The clients that the server serves.
    pub credentials: Credentials,
    /// Present where it speaks TLS.
    pub tls: Option<Tls>,
    /// What the kubeconfig holds.
    pub login: Login,
}

/// What a client needs to be let in; nothing where everybody is.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The authority's certificate, where the server speaks TLS.
    pub authority: Option<String>,
    /// A token made at start.
    pub token: Option<String>,
    /// A client's certificate, where the server speaks TLS.
    pub certificate: Option<Identity>,
}

impl Access {
    /// With TLS, or with tokens, or both; everybody is served where there is neither. `names` are
    /// those of the server for TLS, beside the address that it listens at.
    ///
    /// # Errors
    /// A name that can't be one of a host; no random numbers; a build without TLS.
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
        let token = random_token().context("can't make a token")?;
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
            access.tls = Some(config.context("--tls-san: can't make a certificate")?);
            let client = authority.client(name, group);
            access.login.certificate = Some(client.context("--tls: can't make a certificate")?);
            access.login.authority = Some(authority.certificate());
        }
        Ok(access)
    }
}

/// Where clients on this machine find a server that listens there.
pub(super) fn reached_at(listens_at: SocketAddr) -> SocketAddr {
    let ip = match listens_at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens_at.port())
}
