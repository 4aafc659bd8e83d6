//! The key that signs the service account tokens of a served cluster. The API server uses it, and
//! so does the controller that fills Secrets.

use std::sync::Arc;

use anyhow::{Context, Result};
use podstorm::identity::{SignTokens, TokenOf};
use podstorm_http::TokenKey;
use podstorm_objects::Kind;
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Services;

#[derive(Debug)]
struct Signer(TokenKey);

impl SignTokens for Signer {
    fn sign(&self, of: &TokenOf<'_>) -> Option<String> {
        self.0.sign_for_secret(of.account, of.secret)
    }
}

/// Reports whether one of the controllers that populate namespaces runs and may send such requests.
pub(super) fn is_sent(services: &Services, verb: &str, kind: Kind) -> bool {
    let mut populating = Rows::installed().iter().filter(|row| row.populates);
    populating.any(|row| services.controllers.has(row) && row.may_send(verb, kind, ""))
}

/// Gives the controllers a signing key if the controller that creates tokens runs: `key`, or a new
/// one. Returns the key that the API server must use; `None` if there is none.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn add_signer(
    services: &mut Services,
    key: Option<TokenKey>,
) -> Result<Option<TokenKey>> {
    if !is_sent(services, "update", Kind::SECRET) {
        return Ok(key);
    }
    let key = match key {
        Some(key) => key,
        None => TokenKey::new().context("service account tokens")?,
    };
    services.identity.signer = Some(Arc::new(Signer(key.clone())));
    Ok(Some(key))
}
