//! Which hosts may be called.

use url::Url;

/// Exact names, and `*.example.com` for every name below one (not for itself).
#[derive(Debug, Clone)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// Reads a list with commas.
    ///
    /// # Errors
    /// When it is empty, or a name is none: a scheme, a port, a path, or a star elsewhere than in front.
    pub(crate) fn parse(list: &str) -> Result<Hosts, String> {
        let hosts: Vec<String> = list
            .split(',')
            .map(|host| host.trim().to_ascii_lowercase())
            .filter(|host| !host.is_empty())
            .collect();
        if hosts.is_empty() {
            return Err(
                "FRIGG_HTTP_ALLOWED_HOSTS is not set: name the hosts that may be called, for example \
                        api.example.com, *.example.org"
                    .to_owned(),
            );
        }
        for host in &hosts {
            let name = host.strip_prefix("*.").unwrap_or(host);
            let address = name.starts_with('[') && name.ends_with(']');
            if !address && (name.is_empty() || name.contains(['*', '/', ':', '@', ' '])) {
                return Err(format!(
                    "FRIGG_HTTP_ALLOWED_HOSTS has {host:?}, which is no host name"
                ));
            }
        }
        Ok(Hosts(hosts))
    }

    /// Whether a URL's host is among them.
    pub(crate) fn allow(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        self.0.iter().any(|allowed| matches(allowed, host))
    }
}

/// Whether a host is the one that is named, or below the domain that is.
pub(crate) fn matches(pattern: &str, host: &str) -> bool {
    // A name may end with the root's dot.
    let host = host.trim_end_matches('.');
    match pattern.strip_prefix("*.") {
        Some(domain) => host
            .strip_suffix(domain)
            .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
        None => host == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exact_or_below_a_domain() {
        let hosts = Hosts::parse("api.example.com, *.Example.org ,127.0.0.1").unwrap();
        for (url, allowed) in [
            ("https://api.example.com/x", true),
            ("https://API.example.com./x", true),
            ("https://api.example.com:8443/", true),
            ("https://example.com/", false),
            ("https://evil-api.example.com/", false),
            ("https://api.example.com.evil.net/", false),
            ("https://eu.example.org/", true),
            ("https://a.b.example.org/", true),
            ("https://example.org/", false),
            ("https://evilexample.org/", false),
            ("http://127.0.0.1:9000/", true),
            ("http://127.0.0.2/", false),
            ("https://api.example.com@evil.net/", false),
        ] {
            assert_eq!(hosts.allow(&url.parse().unwrap()), allowed, "{url}");
        }
        for bad in ["", " , ", "https://a.b", "a.b:443", "*", "a.*.b", "a b", "u@h"] {
            assert!(Hosts::parse(bad).is_err(), "{bad:?}");
        }
    }
}
