//! [`CredentialStore`]: where tokens are kept, so that the processes that share a credential share its renewals.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::BoxError;

/// What a token endpoint gives. `Debug` does not show the tokens.
#[derive(Debug, Clone)]
pub struct Token {
    /// The access token.
    pub access: SecretString,
    /// The refresh token, where there is one.
    pub refresh: Option<SecretString>,
    /// When the access token ends, where that is known.
    pub expires_at: Option<Timestamp>,
}

impl Token {
    /// An access token alone.
    pub fn new(access: impl Into<SecretString>) -> Self {
        Token {
            access: access.into(),
            refresh: None,
            expires_at: None,
        }
    }

    /// Sets the refresh token.
    #[must_use]
    pub fn with_refresh(self, refresh: impl Into<SecretString>) -> Self {
        Token {
            refresh: Some(refresh.into()),
            ..self
        }
    }

    /// Sets the end of the access token.
    #[must_use]
    pub fn with_expiry(self, expires_at: Timestamp) -> Self {
        Token {
            expires_at: Some(expires_at),
            ..self
        }
    }

    pub(crate) fn has_access_of(&self, other: &Token) -> bool {
        self.access.expose_secret() == other.access.expose_secret()
    }

    /// Whether both have one refresh token.
    pub(crate) fn has_refresh_of(&self, other: &Token) -> bool {
        match (&self.refresh, &other.refresh) {
            (Some(one), Some(other)) => one.expose_secret() == other.expose_secret(),
            _ => false,
        }
    }

    pub(crate) fn may_outlast(&self, other: &Token) -> bool {
        match (self.expires_at, other.expires_at) {
            (Some(end), Some(other)) => end > other,
            _ => true,
        }
    }
}

/// Keeps the tokens of credentials.
///
/// Two processes that renew one credential at the same time use one refresh token twice, which many providers take for
/// theft. So a store that processes share is read before each renewal, and again after a refusal.
pub trait CredentialStore: Send + Sync {
    /// The tokens of this credential. A failure counts as none.
    fn load<'a>(&'a self, credential: &'a str) -> BoxFuture<'a, Result<Option<Token>, BoxError>>;

    /// Keeps new tokens. A failure is logged; the tokens are used all the same.
    fn save<'a>(&'a self, credential: &'a str, token: &'a Token) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// Keeps tokens in this process: the default, and a fake for tests.
#[derive(Default)]
pub struct MemoryStore {
    tokens: Mutex<HashMap<String, Token>>,
}

impl MemoryStore {
    /// Puts tokens there, as another process would.
    pub fn put(&self, credential: &str, token: Token) {
        self.lock().insert(credential.to_owned(), token);
    }

    /// The tokens of a credential.
    pub fn get(&self, credential: &str) -> Option<Token> {
        self.lock().get(credential).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialStore for MemoryStore {
    fn load<'a>(&'a self, credential: &'a str) -> BoxFuture<'a, Result<Option<Token>, BoxError>> {
        Box::pin(async move { Ok(self.get(credential)) })
    }

    fn save<'a>(&'a self, credential: &'a str, token: &'a Token) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            self.put(credential, token.clone());
            Ok(())
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}
