//! The key by which a served cluster signs the tokens of service accounts, for its API server and for the controller
//! that fills Secrets.

use std::sync::Arc;

use anyhow::{Context, Result};
use podstorm::controller::ControllerType as _;
use podstorm::identity::{SignTokens, TokenOf};
use podstorm::service_account::ServiceAccountTokens;
use podstorm_http::TokenKey;
use podstorm_sim::services::Services;

#[derive(Debug)]
struct Signer(TokenKey);

impl SignTokens for Signer {
    fn sign(&self, of: &TokenOf<'_>) -> Option<String> {
        self.0.sign_for_secret(of.account, of.secret)
    }
}

/// Gives the controllers a key to sign tokens with, if the one that does runs. The API server needs the same one.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn add_signer(services: &mut Services) -> Result<Option<TokenKey>> {
    if !services.controllers.has(ServiceAccountTokens::ROW) {
        return Ok(None);
    }
    let key = TokenKey::new().context("tokens of service accounts")?;
    services.identity.signer = Some(Arc::new(Signer(key.clone())));
    Ok(Some(key))
}
