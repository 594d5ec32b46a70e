//! [`Signal`]: what a response said, and when it arrived.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use http::HeaderMap;
use jiff::Timestamp;

use super::json::Json;

/// One response of a provider: all that the reader looks at. Borrowed, so it costs nothing to make.
///
/// The body is parsed when something first asks for it, and once.
///
/// ```
/// use frigg_core::rate_limit::Signal;
/// use http::HeaderMap;
///
/// let headers = HeaderMap::new();
/// let signal = Signal::new(429, &headers, br#"{"error":{"code":"LIMIT"}}"#, "2026-09-28T12:00:00Z".parse()?);
/// assert_eq!(signal.field("error.code").as_deref(), Some("LIMIT"));
/// # Ok::<(), jiff::Error>(())
/// ```
pub struct Signal<'a> {
    status: u16,
    headers: &'a HeaderMap,
    body: &'a [u8],
    received_at: Timestamp,
    route: Option<&'a str>,
    json: OnceLock<Option<Json<'a>>>,
}

impl<'a> Signal<'a> {
    /// A response with this status, received at this moment. `body` may be empty when it was not read.
    pub fn new(status: u16, headers: &'a HeaderMap, body: &'a [u8], received_at: Timestamp) -> Self {
        Signal {
            status,
            headers,
            // Some servers put a byte order mark before their JSON.
            body: body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body),
            received_at,
            route: None,
            json: OnceLock::new(),
        }
    }

    /// Names the path that was called (`/crm/v3/objects/contacts/search`), for providers whose windows differ by
    /// route. Default: none, and only windows without a route apply.
    #[must_use]
    pub fn with_route(mut self, path: &'a str) -> Self {
        self.route = Some(path);
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The response headers.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// The body's bytes, without a byte order mark.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// When the response arrived, by the local clock.
    pub fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// The path that was called, where it is known.
    pub fn route(&self) -> Option<&'a str> {
        self.route
    }

    /// The first value of a header, trimmed; `None` when it is absent, blank or no text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        super::parsers::header(self.headers, name)
    }

    /// The first text, number or truth value at `path` in a JSON body, as text. See [`fields`](Self::fields).
    pub fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        self.fields(path).next()
    }

    /// Every text, number or truth value at `path` in a JSON body, as text, in the body's order.
    ///
    /// A path is the keys from the top, joined by dots: `error.code`. `*` stands for any one key or list index,
    /// a leading `**` for any number of them: `errors.*.extensions.code`, `**.errorCode`.
    ///
    /// Nothing is found in a body that is not JSON, whatever its media type says.
    pub fn fields<'s>(&'s self, path: &str) -> impl Iterator<Item = Cow<'s, str>> {
        self.json()
            .into_iter()
            .flat_map(move |json| json.at(path))
            .filter_map(|scalar| scalar.to_text())
    }

    pub(crate) fn json(&self) -> Option<&Json<'a>> {
        self.json.get_or_init(|| Json::parse(self.body)).as_ref()
    }

    /// The body as text, for bodies that are not JSON: the start of it, cut at a character's edge.
    pub(crate) fn text(&self) -> &'a str {
        const ENOUGH: usize = 4096;
        let start = &self.body[..self.body.len().min(ENOUGH)];
        match std::str::from_utf8(start) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

/// Shows no header values and no body: both may hold secrets.
impl fmt::Debug for Signal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("received_at", &self.received_at)
            .finish_non_exhaustive()
    }
}
