//! Where calls may go: which host is the same, which addresses are called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The same scheme, host and port; or the step from http to https.
pub(crate) fn is_same_host(one: &Url, other: &Url) -> bool {
    let upgraded = one.scheme() == "http" && other.scheme() == "https";
    one.host() == other.host()
        && (one.origin() == other.origin() || upgraded && other.port().is_none() && one.port().is_none())
}

/// Looks names up and keeps public addresses only, so that no name leads into the network around the function.
#[derive(Debug)]
pub(crate) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            match found.iter().all(|address| is_public(address.ip())) {
                true => Ok(Box::new(found.into_iter()) as Addrs),
                false => Err(PrivateAddress.into()),
            }
        })
    }
}

/// The address is private, loopback, link-local or reserved.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to an address that is not public")]
pub(crate) struct PrivateAddress;

/// Whether the host of a URL is a literal address that is not public.
pub(crate) fn is_private_literal(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
    ip.is_ok_and(|ip: IpAddr| !is_public(ip))
}

/// Whether an address is one of the public internet: none of the special-purpose ranges of RFC 6890 and its registries.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let reserved = match (a, b, c) {
        (0, ..) | (240.., ..) => true,
        // Carrier-grade NAT, IETF protocols, 6to4 relays, benchmarks.
        (100, 64..128, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..20, _) => true,
        _ => false,
    };
    !(reserved
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    if let Some(inside) = ip.to_ipv4_mapped() {
        return is_public_v4(inside);
    }
    // Global unicast, less documentation, Teredo and other protocol assignments, 6to4 and NAT64 (which wrap an IPv4).
    match segments {
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => false,
        [0x2000..0x4000, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_told_from_public_ones() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "104.18.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for (url, private) in [
            ("http://127.0.0.1:80/", true),
            ("http://2130706433/", true),
            ("http://0x7f.1/", true),
            ("http://[::1]/", true),
            ("https://1.1.1.1/", false),
            ("https://api.example.com/", false),
        ] {
            assert_eq!(is_private_literal(&url.parse().unwrap()), private, "{url}");
        }
    }

    #[test]
    fn a_host_is_the_same_with_its_port_or_over_tls() {
        let same = |one: &str, other: &str| is_same_host(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(same("https://a.example/x", "https://a.example:443/y"));
        assert!(same("http://a.example/", "https://a.example/"));
        assert!(!same("https://a.example/", "http://a.example/"));
        assert!(!same("https://a.example/", "https://a.example:8443/"));
        assert!(!same("https://a.example/", "https://b.a.example/"));
    }
}
