//! What may be asked: schemes, hosts, addresses. Nothing is looked up here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use super::error::OriginError;
use crate::settings::OriginSettings;

/// Whether everybody else would be asked, or only this machine or its links.
pub(super) fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_local_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_local_v4(address),
            None => {
                address.is_loopback()
                    || address.is_unspecified()
                    || address.is_multicast()
                    || address.is_unicast_link_local()
            }
        },
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        // "This network": Linux takes all of it for this machine.
        || address.octets()[0] == 0
}

/// An IPv4 address in the clothes of an IPv6 one: mapped, compatible, or behind NAT64 or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return Some(mapped);
    }
    let segments = address.segments();
    let last = |at: usize| {
        let [a, b] = segments[at].to_be_bytes();
        let [c, d] = segments[at + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(last(6)),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) != (0, 0) && (high, low) != (0, 1) => Some(last(6)),
        [0x2002, ..] => Some(last(1)),
        _ => None,
    }
}

/// `example.com`, `*.example.com` (not `example.com` itself), each with a port or without.
fn matches(pattern: &str, host: &str, port: Option<u16>) -> bool {
    let (name, wanted) = match pattern.rsplit_once(':') {
        // An IPv6 address has colons, too.
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => match digits.parse::<u16>() {
            Ok(wanted) => (name, Some(wanted)),
            Err(_) => return false,
        },
        _ => (pattern, None),
    };
    if wanted.is_some() && wanted != port {
        return false;
    }
    let (name, host) = (name.trim_matches(['[', ']']), host.trim_matches(['[', ']']));
    let (name, host) = (name.to_ascii_lowercase(), host.trim_end_matches('.').to_ascii_lowercase());
    match name.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => host == name,
    }
}

fn any(patterns: &[String], url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    patterns.iter().any(|pattern| matches(pattern, host, url.port_or_known_default()))
}

/// With a port where it is not the usual one.
pub(super) fn host_of(url: &Url) -> String {
    oci::address::host_of(url)
}

/// For people: what follows a `?` may be a secret.
pub(super) fn shown(url: &Url) -> String {
    let text = format!("{}://{}{}", url.scheme(), host_of(url), url.path());
    text.chars().take(300).collect()
}

pub(super) fn is_private_allowed(settings: &OriginSettings, url: &Url) -> bool {
    any(&settings.allow_private_hosts, url)
}

pub(super) fn check_scheme(settings: &OriginSettings, scheme: &str) -> Result<(), OriginError> {
    if settings.schemes.iter().any(|allowed| allowed == scheme) {
        Ok(())
    } else {
        Err(OriginError::Scheme { scheme: scheme.to_owned() })
    }
}

/// Whether this may be asked, as far as its text tells. What its name stands for is checked where it is looked up.
pub(super) fn check(settings: &OriginSettings, url: &Url) -> Result<(), OriginError> {
    let address = |why: &str| OriginError::Address { text: shown(url), why: why.to_owned() };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(address("it is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(address("a password in an address is seen by everybody who sees the image"));
    }
    let host = url.host_str().ok_or_else(|| address("it names no host"))?;
    if !settings.hosts.is_empty() && !any(&settings.hosts, url) {
        return Err(OriginError::Host { host: host_of(url) });
    }
    // However it was written, `Url` spells an address in its usual form.
    let literal: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    match literal {
        Some(address) if is_local(address) && !is_private_allowed(settings, url) => {
            Err(OriginError::Local { host: host_of(url), address })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(hosts: &[&str], private: &[&str]) -> OriginSettings {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        OriginSettings {
            hosts: owned(hosts),
            allow_private_hosts: owned(private),
            ..OriginSettings::default()
        }
    }

    #[test]
    fn addresses_of_this_machine_and_its_links_are_refused_in_every_spelling() {
        for host in [
            "127.0.0.1",
            "127.9.9.9",
            "2130706433",
            "0x7f.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "[::1]",
            "[::]",
            "[fe80::1]",
            "[ff02::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[::127.0.0.1]",
        ] {
            let url = Url::parse(&format!("http://{host}/x")).unwrap();
            let refused = check(&settings(&[], &[]), &url);
            assert!(matches!(refused, Err(OriginError::Local { .. })), "{host}: {refused:?}");
        }
        for host in ["192.0.2.1", "10.0.0.1", "[2001:db8::1]", "example.com"] {
            let url = Url::parse(&format!("http://{host}/x")).unwrap();
            assert!(check(&settings(&[], &[]), &url).is_ok(), "{host}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_asked_if_the_configuration_names_it_with_this_port() {
        let at = |port: u16| Url::parse(&format!("http://127.0.0.1:{port}/x")).unwrap();
        assert!(check(&settings(&[], &["127.0.0.1:8080"]), &at(8080)).is_ok());
        assert!(check(&settings(&[], &["127.0.0.1:8080"]), &at(8081)).is_err());
        assert!(check(&settings(&[], &["127.0.0.1"]), &at(8081)).is_ok());
        let v6 = Url::parse("http://[::1]:8080/x").unwrap();
        assert!(check(&settings(&[], &["[::1]:8080"]), &v6).is_ok());
        assert!(check(&settings(&[], &["::1"]), &v6).is_ok());
    }

    #[test]
    fn only_listed_hosts_are_asked_and_a_star_stands_for_what_is_below() {
        let list = settings(&["example.com", "*.example.org", "files.example.net:8443"], &[]);
        for good in [
            "https://example.com/a",
            "https://EXAMPLE.com./a",
            "http://a.example.org",
            "http://a.b.example.org",
            "https://files.example.net:8443/x",
        ] {
            assert!(check(&list, &Url::parse(good).unwrap()).is_ok(), "{good}");
        }
        for bad in [
            "https://example.com.evil.net/a",
            "https://notexample.com",
            "http://example.org",
            "http://badexample.org",
            "https://files.example.net/x",
            "http://192.0.2.1",
        ] {
            let refused = check(&list, &Url::parse(bad).unwrap());
            assert!(matches!(refused, Err(OriginError::Host { .. })), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn passwords_in_addresses_are_refused_and_queries_are_not_shown() {
        let url = Url::parse("https://user:hush@example.com/a?token=hush").unwrap();
        let refused = check(&settings(&[], &[]), &url).unwrap_err();
        assert!(!refused.to_string().contains("hush"), "{refused}");
    }
}
