//! Reading a provider's "not now".

mod error;

pub use error::{Limit, LimitKind, RateLimited, Reason, Source, Window};
