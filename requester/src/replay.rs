//! Which calls may be made twice.

use http::Method;

/// Whether a call may be repeated although the provider may have done what it asks: when doing it twice is as good as
/// once (RFC 9110, section 9.2.2), or when the provider knows it again by its idempotency key.
pub(crate) fn is_repeatable(method: &Method, has_key: bool) -> bool {
    has_key
        || matches!(
            *method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
        )
}
