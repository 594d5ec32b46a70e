//! TODO
use super::Provider;

pub(super) const PROVIDERS: &[Provider] = &[];
