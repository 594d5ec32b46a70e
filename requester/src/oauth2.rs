//! [`OAuth2`]: tokens that are got, renewed and shared.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use frigg_core::marker::Permanent;
use frigg_core::rate_limit::Signal;
use frigg_core::scope;
use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use http::{Method, StatusCode};
use jiff::Timestamp;
use oauth2::basic::BasicClient;
use oauth2::{
    AsyncHttpClient, AuthType, ClientId, ClientSecret, HttpRequest, HttpResponse, RefreshToken,
    RequestTokenError, ResourceOwnerPassword, ResourceOwnerUsername, Scope, TokenResponse as _, TokenUrl,
};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::task::AbortHandle;
use tracing::Instrument as _;

use crate::builder::DEFAULT_TIMEOUT;
use crate::credentials::{CredentialStore, MemoryStore, Token};
use crate::error::{FetchError, Kind};
use crate::redacted::RedactedUrl;
use crate::requester::Inner;

/// A token this close to its end is renewed before the call.
const MARGIN: Duration = Duration::from_secs(10);
/// After a refusal the store is read again at these distances: the process that won may not have stored its tokens yet.
const READ_AGAIN: [Duration; 3] = [Duration::ZERO, Duration::from_millis(250), Duration::from_secs(1)];

/// A credential of OAuth 2 (RFC 6749): the grants that need no browser.
///
/// Clones share their tokens and their renewals; one that is set up further has its own. Before a renewal the
/// [`CredentialStore`] is read: tokens that another process stored are adopted instead. A 400 or 401 of the token endpoint
/// ends the credential, after the store was read again; a limit there stays a limit; anything else leaves it as it was.
///
/// A renewal is a task of its own: a caller that ends early, at its deadline say, does not take along a new refresh token
/// that nobody has stored. The calls that need it wait for it no longer than their invocation has left; the task itself
/// ends after twice the requester's [timeout](crate::RequesterBuilder::timeout) at the latest (without one, twice 60 s).
#[derive(Clone)]
pub struct OAuth2 {
    setup: Arc<Setup>,
    state: Arc<Mutex<State>>,
}

#[derive(Clone)]
struct Setup {
    token_url: String,
    client_id: String,
    client_secret: SecretString,
    grant: Grant,
    in_body: bool,
    scopes: Vec<String>,
    params: Vec<(String, String)>,
    store: Arc<dyn CredentialStore>,
    /// Its name in the store. Default: the client id.
    credential: Option<String>,
    start: Option<Token>,
}

#[derive(Clone)]
enum Grant {
    ClientCredentials,
    RefreshToken,
    Password(String, SecretString),
}

#[derive(Default)]
struct State {
    tokens: Tokens,
    /// The last renewal, which may still run.
    renewing: Option<Renewing>,
}

struct Renewing {
    task: AbortHandle,
    result: Shared<BoxFuture<'static, Renewed>>,
}

/// The access token, and how it came.
type Renewed = Result<(SecretString, Renewal), FetchError>;

#[derive(Default)]
struct Tokens {
    current: Option<Token>,
    /// Those before, since the store was last written or had newer ones: it may still have any of them.
    previous: Vec<Token>,
}

impl Tokens {
    /// The access token, unless it ends soon.
    fn fresh(&self, now: Timestamp) -> Option<&SecretString> {
        let token = self.current.as_ref()?;
        let is_fresh = token.expires_at.is_none_or(|end| end > now + MARGIN);
        is_fresh.then_some(&token.access)
    }

    /// Whether stored tokens are another process's, and newer. Where the provider rotates refresh tokens, a new one says
    /// so; where it does not, the access token and its end do.
    fn is_news(&self, token: &Token) -> bool {
        let known = |is_same: fn(&Token, &Token) -> bool| {
            let mut ours = self.previous.iter().chain(&self.current);
            ours.any(|ours| is_same(ours, token))
        };
        match &self.current {
            Some(current) if current.has_refresh_of(token) => {
                !known(Token::has_access_of) && token.may_outlast(current)
            }
            _ if token.refresh.is_some() => !known(Token::has_refresh_of),
            _ => !known(Token::has_access_of),
        }
    }

    /// `shared`: the store has them too.
    fn replace(&mut self, token: Token, shared: bool) {
        if shared {
            self.previous.clear();
        }
        self.previous.extend(self.current.replace(token));
    }
}

impl State {
    fn is_renewing(&self) -> bool {
        self.renewing
            .as_ref()
            .is_some_and(|renewing| !renewing.task.is_finished())
    }
}

/// What came of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    Renewed,
    /// Somebody else had renewed it.
    Adopted,
}

impl OAuth2 {
    /// The application's own tokens (section 4.4).
    pub fn client_credentials(
        token_url: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<SecretString>,
    ) -> Self {
        Self::with_grant(
            token_url.into(),
            client_id.into(),
            client_secret.into(),
            Grant::ClientCredentials,
        )
    }

    /// Tokens that a user gave to the application, renewed with their refresh token (section 6). The first ones come
    /// from the store or from [`with_token`](Self::with_token).
    pub fn refresh_token(
        token_url: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<SecretString>,
    ) -> Self {
        Self::with_grant(
            token_url.into(),
            client_id.into(),
            client_secret.into(),
            Grant::RefreshToken,
        )
    }

    /// Tokens for a user's name and password (section 4.3), asked for anew each time.
    pub fn password(
        token_url: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<SecretString>,
        user: impl Into<String>,
        password: impl Into<SecretString>,
    ) -> Self {
        let grant = Grant::Password(user.into(), password.into());
        Self::with_grant(token_url.into(), client_id.into(), client_secret.into(), grant)
    }

    fn with_grant(token_url: String, client_id: String, client_secret: SecretString, grant: Grant) -> Self {
        let setup = Setup {
            token_url,
            client_id,
            client_secret,
            grant,
            in_body: false,
            scopes: Vec::new(),
            params: Vec::new(),
            store: Arc::new(MemoryStore::default()),
            credential: None,
            start: None,
        };
        OAuth2 {
            setup: Arc::new(setup),
            state: Arc::default(),
        }
    }

    /// The tokens to start with. Default: those in the store.
    #[must_use]
    pub fn with_token(self, token: Token) -> Self {
        self.set(|setup| setup.start = Some(token))
    }

    /// Where the tokens are kept, and under which name. Default: in this process, under the client id. Set a second time,
    /// it is another credential, without the [tokens to start with](Self::with_token) of the first.
    #[must_use]
    pub fn with_store(self, store: Arc<dyn CredentialStore>, credential: impl Into<String>) -> Self {
        self.set(|setup| {
            setup.store = store;
            if setup.credential.replace(credential.into()).is_some() {
                setup.start = None;
            }
        })
    }

    /// Asks for this scope too. Default: none, and the provider's own default holds.
    #[must_use]
    pub fn with_scope(self, scope: impl Into<String>) -> Self {
        self.set(|setup| setup.scopes.push(scope.into()))
    }

    /// Adds a parameter to token requests: `audience`.
    #[must_use]
    pub fn with_param(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|setup| setup.params.push((name.into(), value.into())))
    }

    /// Sends the client's id and secret in the body of token requests. Default: as basic authentication (section 2.3.1).
    #[must_use]
    pub fn with_secret_in_body(self) -> Self {
        self.set(|setup| setup.in_body = true)
    }

    fn set(mut self, set: impl FnOnce(&mut Setup)) -> Self {
        let setup = Arc::make_mut(&mut self.setup);
        set(setup);
        // A clone's tokens may be another tenant's, or of another scope; so may those in a store of its own.
        if setup.credential.is_none() {
            setup.store = Arc::new(MemoryStore::default());
        }
        self.state = Arc::default();
        self.lock().tokens.current = self.setup.start.clone();
        self
    }

    fn credential(&self) -> &str {
        self.setup.credential.as_ref().unwrap_or(&self.setup.client_id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An access token for the next call.
    pub(crate) async fn access(&self, inner: &Arc<Inner>) -> Result<SecretString, FetchError> {
        let renewed = {
            let mut state = self.lock();
            if !state.is_renewing()
                && let Some(token) = state.tokens.fresh(inner.clock.now())
            {
                return Ok(token.clone());
            }
            self.join(&mut state, inner)
        };
        Ok(self.wait(renewed, inner).await?.0)
    }

    /// Renews the credential after a 401 for the token `used`.
    pub(crate) async fn renew(&self, used: &SecretString, inner: &Arc<Inner>) -> Result<Renewal, FetchError> {
        let (renewed, joined) = {
            let mut state = self.lock();
            let current = state.tokens.current.as_ref();
            if current.is_some_and(|token| token.access.expose_secret() != used.expose_secret()) {
                return Ok(Renewal::Adopted);
            }
            let joined = state.is_renewing();
            (self.join(&mut state, inner), joined)
        };
        let (_, renewal) = self.wait(renewed, inner).await?;
        Ok(if joined { Renewal::Adopted } else { renewal })
    }

    /// The result of the renewal that runs, or of a new one.
    fn join(&self, state: &mut State, inner: &Arc<Inner>) -> Shared<BoxFuture<'static, Renewed>> {
        if let Some(renewing) = state.renewing.as_ref().filter(|_| state.is_renewing()) {
            return renewing.result.clone();
        }
        // A store that hangs must not hang all later calls.
        let limit = 2 * inner.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let (this, inner, scope) = (self.clone(), Arc::clone(inner), scope::Scope::current());
        let renewal = async move {
            let renewal = tokio::time::timeout(limit, scope.run(this.renewed(&inner)));
            let late = |_| Err(this.error(Kind::Timeout(limit)));
            renewal.await.unwrap_or_else(late)
        };
        let task = tokio::spawn(renewal.in_current_span());
        // A store that panics.
        let failed = self.error(Kind::Token(None));
        let renewing = state.renewing.insert(Renewing {
            task: task.abort_handle(),
            result: task.map(|ended| ended.unwrap_or(Err(failed))).boxed().shared(),
        });
        renewing.result.clone()
    }

    async fn wait(&self, renewed: Shared<BoxFuture<'static, Renewed>>, inner: &Inner) -> Renewed {
        match scope::Scope::current().time_left(inner.clock.now()) {
            Some(left) if !inner.frigg => tokio::time::timeout(left, renewed)
                .await
                .unwrap_or_else(|_| Err(self.error(Kind::Timeout(left)))),
            _ => renewed.await,
        }
    }

    /// Another process's tokens, or new ones.
    async fn renewed(&self, inner: &Inner) -> Renewed {
        if self.adopt(inner).await
            && let Some(token) = self.lock().tokens.fresh(inner.clock.now())
        {
            return Ok((token.clone(), Renewal::Adopted));
        }
        let renewal = self.obtain(inner).await?;
        match &self.lock().tokens.current {
            Some(token) => Ok((token.access.clone(), renewal)),
            None => Err(self.error(Kind::Token(None))),
        }
    }

    /// Takes the stored tokens when they are others than this process has had.
    async fn adopt(&self, inner: &Inner) -> bool {
        let stored = match self.setup.store.load(self.credential()).await {
            Ok(stored) => stored,
            Err(error) => {
                inner.events.credential_store_failed("load", &*error);
                None
            }
        };
        let tokens = &mut self.lock().tokens;
        match stored.filter(|token| tokens.is_news(token)) {
            Some(token) => {
                tokens.replace(token, true);
                true
            }
            None => false,
        }
    }

    async fn obtain(&self, inner: &Inner) -> Result<Renewal, FetchError> {
        let current = self.lock().tokens.current.clone();
        match self.request(current.as_ref(), inner).await {
            Ok(token) => {
                let saved = self.setup.store.save(self.credential(), &token).await;
                self.lock().tokens.replace(token, saved.is_ok());
                if let Err(error) = saved {
                    inner.events.credential_store_failed("save", &*error);
                }
                Ok(Renewal::Renewed)
            }
            Err(error) if error.is_unauthorized() => {
                for wait in READ_AGAIN {
                    inner.clock.sleep(wait).await;
                    if self.adopt(inner).await {
                        return Ok(Renewal::Adopted);
                    }
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the token endpoint.
    async fn request(&self, current: Option<&Token>, inner: &Inner) -> Result<Token, FetchError> {
        let setup = &*self.setup;
        let url = TokenUrl::new(setup.token_url.clone())
            .map_err(|_| self.error(Kind::Invalid("the token URL is no URL", Permanent::default())))?;
        let auth_type = match setup.in_body {
            true => AuthType::RequestBody,
            false => AuthType::BasicAuth,
        };
        let client = BasicClient::new(ClientId::new(setup.client_id.clone()))
            .set_client_secret(ClientSecret::new(setup.client_secret.expose_secret().to_owned()))
            .set_auth_type(auth_type)
            .set_token_uri(url);
        let endpoint = Endpoint { oauth2: self, inner };
        let scopes = setup.scopes.iter().cloned().map(Scope::new);
        // The three requests are different types with the same methods.
        macro_rules! ask {
            ($request:expr) => {{
                let mut request = $request.add_scopes(scopes);
                for (name, value) in &setup.params {
                    request = request.add_extra_param(name, value);
                }
                request.request_async(&endpoint).await
            }};
        }
        let refresh = current.and_then(|token| token.refresh.as_ref());
        let answer = match (&setup.grant, refresh) {
            (Grant::ClientCredentials, _) => ask!(client.exchange_client_credentials()),
            (Grant::Password(user, password), _) => {
                let user = ResourceOwnerUsername::new(user.clone());
                let password = ResourceOwnerPassword::new(password.expose_secret().to_owned());
                ask!(client.exchange_password(&user, &password))
            }
            (Grant::RefreshToken, Some(refresh)) => {
                let refresh = RefreshToken::new(refresh.expose_secret().to_owned());
                ask!(client.exchange_refresh_token(&refresh))
            }
            (Grant::RefreshToken, None) => {
                let missing = Kind::Invalid("there is no refresh token", Permanent::default());
                return Err(self.error(missing));
            }
        };
        let answer = answer.map_err(|error| match error {
            RequestTokenError::Request(error) => error,
            // Their texts and sources quote the answer, which may hold a token.
            _ => self.error(Kind::Body("the token endpoint's answer is no token".to_owned())),
        })?;
        let now = inner.clock.now();
        Ok(Token {
            access: answer.access_token().secret().as_str().into(),
            // A provider that does not rotate it gives none.
            refresh: answer
                .refresh_token()
                .map(|token| token.secret().as_str().into())
                .or_else(|| refresh.cloned()),
            expires_at: answer.expires_in().and_then(|left| now.checked_add(left).ok()),
        })
    }

    /// Sends one request of the `oauth2` crate. What is no token becomes an error here, with its status and without its
    /// body.
    async fn exchange(&self, request: HttpRequest, inner: &Inner) -> Result<HttpResponse, FetchError> {
        let timeout = inner.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let transport = |error: reqwest::Error| {
            let kind = match error.is_timeout() {
                true => Kind::Timeout(timeout),
                false => Kind::Token(Some(Arc::new(error.without_url()))),
            };
            self.error(kind)
        };
        let mut request = reqwest::Request::try_from(request).map_err(transport)?;
        *request.timeout_mut() = Some(timeout);
        let response = inner.client.execute(request).await.map_err(transport)?;
        let received_at = inner.clock.now();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(transport)?;
        if status.is_success() {
            let mut answer = HttpResponse::new(body.into());
            // The crate takes a 200 only.
            *answer.status_mut() = StatusCode::OK;
            *answer.headers_mut() = headers;
            return Ok(answer);
        }
        let answer = inner
            .policy
            .read(&Signal::new(status.as_u16(), &headers, &body, received_at));
        let kind = match answer.into_error() {
            Some(limited) => Kind::Limited(limited),
            None if matches!(status.as_u16(), 400 | 401) => Kind::Unauthorized(Permanent {
                status: Some(status.as_u16()),
            }),
            None => Kind::Token(None),
        };
        Err(self.error(kind).with_status(status))
    }

    fn error(&self, kind: Kind) -> FetchError {
        let url = Url::parse(&self.setup.token_url)
            .map_or_else(|_| RedactedUrl::unknown(), |url| RedactedUrl::of(&url));
        FetchError::new(kind, Method::POST, url)
    }
}

/// The crate's way to the token endpoint. A closure would do, but its future is not provably `Send`.
struct Endpoint<'a> {
    oauth2: &'a OAuth2,
    inner: &'a Inner,
}

impl<'c> AsyncHttpClient<'c> for Endpoint<'_> {
    type Error = FetchError;
    type Future = BoxFuture<'c, Result<HttpResponse, FetchError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.oauth2.exchange(request, self.inner))
    }
}

impl fmt::Debug for OAuth2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grant = match self.setup.grant {
            Grant::ClientCredentials => "client credentials",
            Grant::RefreshToken => "refresh token",
            Grant::Password(..) => "password",
        };
        write!(f, "OAuth2({grant})")
    }
}
