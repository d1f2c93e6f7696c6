//! Classifies IP addresses: public, private, or never allowed.
//!
//! An IPv6 address that embeds an IPv4 address gets the stricter of the two classes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether tasks may connect to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressClass {
    /// Always allowed.
    Public,
    /// Allowed if the network configuration permits it.
    Private(&'static str),
    /// Never allowed.
    Forbidden(&'static str),
}

/// Cloud metadata addresses outside the link-local block.
const METADATA_V4: [Ipv4Addr; 3] = [
    // Alibaba, Azure wire server, Oracle.
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// IPv6 metadata addresses: Amazon, Google, Scaleway.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// Host names of metadata services, blocked whatever they resolve to.
const METADATA_NAMES: [&str; 2] = ["metadata.google.internal", "metadata.goog"];

const METADATA: AddressClass = AddressClass::Forbidden("a link-local or metadata address");
const LOOPBACK: AddressClass = AddressClass::Private("a loopback address");
const PRIVATE: AddressClass = AddressClass::Private("a private address");
const RESERVED: AddressClass = AddressClass::Private("a reserved address");
const TRANSITION: AddressClass = AddressClass::Private("an IPv6 transition address");
const NOT_ONE_HOST: AddressClass = AddressClass::Forbidden("a multicast, broadcast or reserved address");

/// The class of an address.
pub(crate) fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Whether a host name belongs to a metadata service.
pub(crate) fn is_metadata_name(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    METADATA_NAMES.iter().any(|name| host.eq_ignore_ascii_case(name))
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        _ if address.is_link_local() || METADATA_V4.contains(&address) => METADATA,
        (224.., ..) => NOT_ONE_HOST,
        (0 | 127, ..) => LOOPBACK,
        _ if address.is_private() => PRIVATE,
        // Carrier-grade NAT.
        (100, 64..=127, _) => PRIVATE,
        // Protocol assignments, documentation, the 6to4 relay, AS112, benchmarks.
        (192, 0, 0 | 2)
        | (198, 51, 100)
        | (203, 0, 113)
        | (192, 88, 99)
        | (192, 31, 196)
        | (192, 52, 193)
        | (192, 175, 48)
        | (198, 18 | 19, _) => RESERVED,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    let own_class = classify_by_form(address);
    embedded_v4(address)
        .into_iter()
        .map(classify_v4)
        .fold(own_class, AddressClass::max)
}

fn classify_by_form(address: Ipv6Addr) -> AddressClass {
    let segments = address.segments();
    let first = segments[0];
    if METADATA_V6.contains(&address) || (first & 0xffc0) == 0xfe80 {
        return METADATA;
    }
    if address.is_multicast() {
        return NOT_ONE_HOST;
    }
    if address.is_loopback() || address.is_unspecified() {
        return LOOPBACK;
    }
    if (first & 0xfe00) == 0xfc00 || (first & 0xffc0) == 0xfec0 {
        return PRIVATE;
    }
    match segments {
        // NAT64 local-use prefix, Teredo.
        [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => TRANSITION,
        // Discard, benchmarks, ORCHID, documentation, segment routing.
        [0x100, 0, 0, 0, ..]
        | [0x2001, 2, 0, ..]
        | [0x2001, 0x10..=0x3f | 0xdb8, ..]
        | [0x3fff, 0..=0xfff, ..]
        | [0x5f00, ..] => RESERVED,
        // Of the remaining space, only 2000::/3 and the forms that embed an IPv4 address are in use.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            AddressClass::Public
        }
        _ if (first & 0xe000) == 0x2000 => AddressClass::Public,
        _ => RESERVED,
    }
}

/// The v4 addresses inside v4-mapped, v4-compatible, translated, NAT64, 6to4, Teredo and ISATAP forms.
fn embedded_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, .., high, low]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low]
        | [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo holds the server address as it is and the client address inverted.
        [0x2001, 0, a, b, _, _, c, d] => vec![v4(a, b), v4(!c, !d)],
        _ => Vec::new(),
    }
}
