//! Which redirects are followed, and with which call.
//!
//! The HTTP client follows none by itself: it would make a GET without a body out of a POST that is answered 301 or 302,
//! and what the GET gets would count as the POST's success. Each redirect is a call of its own, and waits for its turn.

use frigg_core::marker::Permanent;
use http::{HeaderMap, Method, StatusCode, header};
use reqwest::Url;

use crate::address::is_same_host;
use crate::redacted::RedactedUrl;
use crate::request::Call;

/// The most redirects of one call.
const MAX_REDIRECTS: u32 = 10;

/// The next call of a redirect.
pub(crate) struct Hop {
    to: Url,
    /// The answer to what was done is there (RFC 9110, section 15.4.4): a GET.
    see_other: bool,
}

/// A redirect that is not followed.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) to: RedactedUrl,
    pub(crate) why: &'static str,
    pub(crate) mark: Permanent,
}

impl Hop {
    /// Where an answer leads. `None`: it is no redirect.
    pub(crate) fn of(call: &Call, status: StatusCode, headers: &HeaderMap) -> Option<Result<Hop, Refused>> {
        let (method, from) = (call.request.method(), call.request.url());
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let location = std::str::from_utf8(headers.get(header::LOCATION)?.as_bytes()).ok()?;
        let to = from.join(location).ok()?;
        let see_other = status == StatusCode::SEE_OTHER && method != Method::HEAD;
        let why = match status.as_u16() {
            // Clients make a GET of it (RFC 9110, sections 15.4.2 and 15.4.3), so nobody can tell what the provider means:
            // that it has done nothing, or where the answer is.
            301 | 302 if !method.is_safe() => {
                "the call would become a GET without its body; send it to that address, if it is not done already"
            }
            // A call carries credentials in headers of any name.
            303 if !method.is_safe() && !is_same_host(from, &to) => {
                "the call was made, but its result is at another host, which may not see its credentials"
            }
            _ if !is_same_host(from, &to) => {
                "another host may not see the call's credentials; make a requester for it"
            }
            _ if call.redirects == MAX_REDIRECTS => "there were ten before it",
            _ => return Some(Ok(Hop { to, see_other })),
        };
        Some(Err(Refused {
            to: RedactedUrl::of(&to),
            why,
            mark: Permanent {
                status: Some(status.as_u16()),
            },
        }))
    }

    /// Makes the next call of it.
    pub(crate) fn follow(mut self, call: &mut Call) {
        // The credentials are the call's own.
        let _ = self.to.set_username("");
        let _ = self.to.set_password(None);
        *call.request.url_mut() = self.to;
        call.redirects += 1;
        if self.see_other {
            *call.request.method_mut() = Method::GET;
            *call.request.body_mut() = None;
            for name in [
                header::CONTENT_TYPE,
                header::CONTENT_ENCODING,
                header::CONTENT_LENGTH,
            ] {
                call.request.headers_mut().remove(name);
            }
            // What may not be done twice is done; to get its result is harmless.
            call.repeatable = true;
        }
    }
}
