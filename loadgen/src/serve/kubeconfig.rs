//! The kubeconfig: the server's address and the client's credentials.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::access::{Login, reached_at};

/// Formats a kubeconfig with one cluster and one context, both named `podstorm`. The user
/// `podstorm` has the token; if there is a certificate, a second user, `podstorm-certificate`,
/// has it. Over plain HTTP, kubectl does not send tokens; other clients do.
pub fn kubeconfig(address: SocketAddr, login: &Login) -> String {
    let address = reached_at(address);
    let server = match &login.authority {
        // Plain HTTP has nothing to verify, but the JavaScript client accepts it only this way.
        None => format!("http://{address}\n    insecure-skip-tls-verify: true"),
        Some(authority) => {
            let authority = BASE64_STANDARD.encode(authority);
            format!("https://{address}\n    certificate-authority-data: {authority}")
        }
    };
    let user = match &login.token {
        None => " {}".to_owned(),
        Some(token) => format!("\n    token: {token}"),
    };
    let other = login.certificate.as_ref().map(|identity| {
        let certificate = BASE64_STANDARD.encode(&identity.certificate);
        let key = BASE64_STANDARD.encode(&identity.key);
        format!(
            "- name: podstorm-certificate\n  user:\n    client-certificate-data: {certificate}\n    \
             client-key-data: {key}\n"
        )
    });
    let other = other.unwrap_or_default();
    format!(
        "\
apiVersion: v1
kind: Config
current-context: podstorm
clusters:
- name: podstorm
  cluster:
    server: {server}
users:
- name: podstorm
  user:{user}
{other}contexts:
- name: podstorm
  context:
    cluster: podstorm
    user: podstorm
"
    )
}
