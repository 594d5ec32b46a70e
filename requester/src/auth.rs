//! [`Auth`]: how a call shows who it comes from.

use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret as _, SecretString};

use crate::oauth2::OAuth2;

/// A credential, in the form that the provider takes. Secrets are not printed.
#[derive(Clone, Default)]
pub struct Auth(pub(crate) Kind);

#[derive(Clone, Default)]
pub(crate) enum Kind {
    #[default]
    None,
    Header(HeaderName, HeaderValue),
    Query(String, SecretString),
    OAuth2(OAuth2),
    /// Not a header's name or value.
    Invalid(&'static str),
}

impl Auth {
    /// No credential.
    pub fn none() -> Self {
        Auth::default()
    }

    /// A fixed token: `Authorization: Bearer …`.
    pub fn bearer(token: impl Into<SecretString>) -> Self {
        let value = format!("Bearer {}", token.into().expose_secret());
        Self::sensitive(header::AUTHORIZATION, &value)
    }

    /// User and password: `Authorization: Basic …` (RFC 7617).
    pub fn basic(user: &str, password: impl Into<SecretString>) -> Self {
        let pair = format!("{user}:{}", password.into().expose_secret());
        Self::sensitive(
            header::AUTHORIZATION,
            &format!("Basic {}", BASE64_STANDARD.encode(pair)),
        )
    }

    /// An API key in a header: `X-Api-Key`.
    pub fn header(name: &str, key: impl Into<SecretString>) -> Self {
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => Self::sensitive(name, key.into().expose_secret()),
            Err(_) => Auth(Kind::Invalid(
                "the name of the key's header is not a header's name",
            )),
        }
    }

    /// An API key in the query: `?api_token=…`.
    pub fn query(name: &str, key: impl Into<SecretString>) -> Self {
        Auth(Kind::Query(name.to_owned(), key.into()))
    }

    /// Tokens that are got, renewed and shared.
    pub fn oauth2(oauth2: OAuth2) -> Self {
        Auth(Kind::OAuth2(oauth2))
    }

    fn sensitive(name: HeaderName, value: &str) -> Self {
        Auth(match sensitive(value) {
            Some(value) => Kind::Header(name, value),
            None => Kind::Invalid("the credential has a character that no header can carry"),
        })
    }
}

/// A header value that `Debug` does not show.
pub(crate) fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::None => "Auth(none)",
            Kind::Header(..) => "Auth(header)",
            Kind::Query(..) => "Auth(query)",
            Kind::OAuth2(_) => "Auth(OAuth 2)",
            Kind::Invalid(_) => "Auth(invalid)",
        })
    }
}
