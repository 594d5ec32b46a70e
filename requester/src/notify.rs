//! [`Notify`]: who is told when a provider refuses.

use frigg_core::rate_limit::{Limit, Link, Policy, Reason};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::error::BoxError;

/// Hears of what a person may have to know: a limit that is not waited for in process, a credential that has died.
///
/// It is awaited before the error is returned. Its own failure is logged, and changes nothing.
pub trait Notify: Send + Sync {
    /// Tells it.
    fn notify<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// What is told.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Frigg's `RATE_LIMITED`: a [`RateLimited`](frigg_core::rate_limit::RateLimited) with a time is about to be returned.
    RateLimited(Announcement),
    /// Frigg's `INVALID_AUTH`: the credential is not accepted and could not be renewed.
    InvalidAuth {
        /// The provider's short name.
        module: String,
        /// 401, or the token endpoint's 400 or 401.
        status: u16,
    },
}

/// The facts of a refusal that a person may be shown.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Announcement {
    /// The provider's short name.
    pub module: String,
    /// Which limit.
    pub reason: Reason,
    /// Not before this moment.
    pub retry_at: Timestamp,
    /// The provider's name for the limit.
    pub policy: Option<String>,
    /// HTTP status of the refusal. `None`: the call was not made, the requester held it back.
    pub status: Option<u16>,
    /// Pages that explain this kind of limit.
    pub links: Vec<Link>,
}

impl Announcement {
    /// `None` for a limit without a time: there is nothing to tell.
    pub(crate) fn of(limit: &Limit, policy: &Policy, module: &str) -> Option<Self> {
        Some(Announcement {
            module: limit.module.as_deref().unwrap_or(module).to_owned(),
            reason: limit.reason,
            retry_at: limit.retry_at?,
            policy: limit.policy.clone(),
            status: limit.status,
            links: policy
                .links()
                .iter()
                .filter(|link| link.reason == limit.reason)
                .copied()
                .collect(),
        })
    }
}
