//! Tests of the network access rules.

use super::*;

fn test_guard(allow_private: bool) -> AddressGuard {
    AddressGuard {
        allow_private,
        ..AddressGuard::default()
    }
}

fn is_allowed(url: &str, allow_private: bool) -> bool {
    let url = Url::parse(url).unwrap();
    test_guard(allow_private).check_url(&url).is_ok()
}

#[test]
fn metadata_addresses_are_blocked_in_every_spelling() {
    for url in [
        "http://169.254.169.254/latest",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
        "http://0251.0376.0251.0376/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[64:ff9b:1::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[2001:0:a9fe:a9fe::]/",
        "http://[2001:0:1:2::5601:5601]/",
        "http://[2606:4700::5efe:a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://[fd20:ce::254]/",
        "http://[fe80::1]/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://192.0.0.192/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://METADATA.google.internal./",
        "http://metadata.goog/",
    ] {
        assert!(!is_allowed(url, true), "{url}");
    }
}

#[test]
fn private_addresses_depend_on_the_configuration() {
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://172.20.0.1/",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://0.1.2.3/",
        "http://198.18.0.1/",
        "http://192.0.2.1/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[fd12::1]/",
        "http://[fec0::1]/",
        "http://[2001:db8::1]/",
        "http://[2001:0:5ef5:79fd::a247:27dd]/",
        "http://[64:ff9b:1::5db8:d822]/",
        "http://[4000::1]/",
    ] {
        assert!(is_allowed(url, true), "{url}");
        assert!(!is_allowed(url, false), "{url}");
    }
    for url in [
        "http://93.184.216.34/",
        "https://[2606:2800:220:1::1]/",
        "http://[::ffff:93.184.216.34]/",
        "http://[64:ff9b::5db8:d822]/",
        "http://[2002:5db8:d822::1]/",
        "http://example.com/",
    ] {
        assert!(is_allowed(url, false), "{url}");
    }
}

#[test]
fn multicast_and_broadcast_addresses_are_always_blocked() {
    for url in [
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://240.0.0.1/",
        "http://[ff02::1]/",
    ] {
        assert!(!is_allowed(url, true), "{url}");
    }
}

#[test]
fn other_schemes_are_rejected() {
    assert!(!is_allowed("file:///etc/passwd", true));
    assert!(!is_allowed("gopher://example.com/", true));
    assert!(!is_allowed("ftp://93.184.216.34/", true));
}

#[test]
fn an_allowlist_entry_allows_only_what_it_names() {
    let guard = AddressGuard {
        allowed_targets: ["10.1.0.0/16", "db.corp:5432", "169.254.0.0/16"]
            .map(|text| text.parse().unwrap())
            .to_vec(),
        ..AddressGuard::default()
    };
    let check =
        |host: &str, address: &str, port| guard.check_address(host, address.parse().unwrap(), Some(port)).is_ok();
    assert!(check("x", "10.1.2.3", 80));
    assert!(!check("x", "10.2.2.3", 80));
    assert!(check("db.corp", "10.2.2.3", 5432));
    assert!(!check("db.corp", "10.2.2.3", 80));
    assert!(
        !check("x", "169.254.169.254", 80),
        "metadata addresses cannot be allowed"
    );
}

#[test]
fn addresses_of_noetl_need_an_allowlist_entry_with_their_port() {
    let own = vec!["127.0.0.1:8082".parse().unwrap(), "0.0.0.0:9000".parse().unwrap()];
    let mut guard = AddressGuard {
        allow_private: true,
        protected_addresses: own,
        allowed_targets: vec!["127.0.0.0/8".parse().unwrap()],
    };
    let refused = |guard: &AddressGuard, url: &str| {
        let error = guard.check_url(&Url::parse(url).unwrap()).err();
        matches!(error, Some(BlockedAddress::EngineAddress { .. }))
    };
    for url in [
        "http://127.0.0.1:8082/api",
        "http://0.0.0.0:8082/",
        "http://[::ffff:127.0.0.1]:8082/",
        "http://2130706433:8082/",
        "http://127.0.0.1:9000/",
        "http://127.9.9.9:9000/",
    ] {
        assert!(refused(&guard, url), "{url}");
    }
    assert!(!refused(&guard, "http://127.0.0.1:8083/"));
    assert!(!refused(&guard, "http://93.184.216.34:9000/"));
    guard.allowed_targets.push("127.0.0.1:8082".parse().unwrap());
    assert!(!refused(&guard, "http://127.0.0.1:8082/api"));
}

#[tokio::test]
async fn a_name_that_resolves_to_a_blocked_address_is_blocked() {
    let resolver = |protected_addresses: Vec<SocketAddr>, allow_private, port| GuardedResolver {
        guard: Arc::new(AddressGuard {
            allow_private,
            protected_addresses,
            ..AddressGuard::default()
        }),
        lookup: Arc::new(SystemLookup),
        port,
    };
    let own = vec!["127.0.0.1:8082".parse().unwrap()];
    for resolver in [resolver(Vec::new(), false, None), resolver(own, true, Some(8082))] {
        let resolving = resolver.resolve("localhost".parse().unwrap());
        let error = resolving.await.err().unwrap();
        assert!(error.downcast_ref::<BlockedAddress>().is_some(), "{error}");
    }
}
