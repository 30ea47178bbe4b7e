//! Recognises addresses outside the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not one of the public internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonPublic {
    Loopback,
    Private,
    Shared,
    LinkLocal,
    Metadata,
    Multicast,
    Unspecified,
    Reserved,
}

impl NonPublic {
    /// Whether only an address opens it, never a name: no name of a real host resolves to it, and
    /// some of these give credentials to any caller.
    pub(super) fn needs_address(self) -> bool {
        !matches!(self, Self::Loopback | Self::Private | Self::Shared)
    }
}

impl fmt::Display for NonPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "an address shared by a carrier's customers",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "an address of a cloud's metadata",
            Self::Multicast => "a multicast address",
            Self::Unspecified => "an unspecified address",
            Self::Reserved => "a reserved address",
        })
    }
}

/// The IPv4 address that an IPv6 address means: mapped, behind NAT64 or behind 6to4.
pub(super) fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let (high, low) = match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => (high, low),
        _ => return address,
    };
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into()
}

/// Why `address` is not one of the public internet; `None` if it is one.
pub(super) fn non_public(address: IpAddr) -> Option<NonPublic> {
    match embedded(address) {
        IpAddr::V4(v4) => non_public_v4(v4),
        IpAddr::V6(v6) => non_public_v6(v6),
    }
}

/// By IANA's registry of special-purpose addresses, and where clouds answer.
fn non_public_v4(v4: Ipv4Addr) -> Option<NonPublic> {
    Some(match v4.octets() {
        [169, 254, 169, 254] | [169, 254, 170, 2 | 23] => NonPublic::Metadata,
        [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192] => NonPublic::Metadata,
        [0, ..] => NonPublic::Unspecified,
        [127, ..] => NonPublic::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => NonPublic::Private,
        [100, 64..=127, ..] => NonPublic::Shared,
        [169, 254, ..] => NonPublic::LinkLocal,
        [224..=239, ..] => NonPublic::Multicast,
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => NonPublic::Reserved,
        [198, 51, 100, _] | [203, 0, 113, _] | [240..=255, ..] => NonPublic::Reserved,
        _ => return None,
    })
}

fn non_public_v6(v6: Ipv6Addr) -> Option<NonPublic> {
    Some(match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => NonPublic::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => NonPublic::Loopback,
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            NonPublic::Metadata
        }
        [0xfc00..=0xfdff, ..] => NonPublic::Private,
        [0xfe80..=0xfebf, ..] => NonPublic::LinkLocal,
        [0xff00..=0xffff, ..] => NonPublic::Multicast,
        // Protocol assignments, Teredo among them, and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => NonPublic::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        _ => NonPublic::Reserved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last address of each range, and their neighbours outside.
    #[test]
    fn inner_addresses_are_known() {
        use NonPublic as I;
        for (text, expected) in [
            ("0.0.0.0", Some(I::Unspecified)),
            ("0.255.255.255", Some(I::Unspecified)),
            ("1.0.0.0", None),
            ("10.0.0.0", Some(I::Private)),
            ("10.255.255.255", Some(I::Private)),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(I::Shared)),
            ("100.127.255.255", Some(I::Shared)),
            ("100.100.100.200", Some(I::Metadata)),
            ("100.128.0.0", None),
            ("127.0.0.1", Some(I::Loopback)),
            ("127.255.255.255", Some(I::Loopback)),
            ("168.63.129.16", Some(I::Metadata)),
            ("169.253.255.255", None),
            ("169.254.0.0", Some(I::LinkLocal)),
            ("169.254.169.254", Some(I::Metadata)),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(I::Private)),
            ("172.31.255.255", Some(I::Private)),
            ("172.32.0.0", None),
            ("192.0.0.1", Some(I::Reserved)),
            ("192.0.2.1", Some(I::Reserved)),
            ("192.167.255.255", None),
            ("192.168.0.0", Some(I::Private)),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.18.0.0", Some(I::Reserved)),
            ("198.19.255.255", Some(I::Reserved)),
            ("198.20.0.0", None),
            ("198.51.100.1", Some(I::Reserved)),
            ("203.0.113.1", Some(I::Reserved)),
            ("223.255.255.255", None),
            ("224.0.0.1", Some(I::Multicast)),
            ("239.255.255.255", Some(I::Multicast)),
            ("240.0.0.0", Some(I::Reserved)),
            ("255.255.255.255", Some(I::Reserved)),
            ("8.8.8.8", None),
            ("::", Some(I::Unspecified)),
            ("::1", Some(I::Loopback)),
            ("::7f00:1", Some(I::Reserved)),
            ("::ffff:127.0.0.1", Some(I::Loopback)),
            ("::ffff:169.254.169.254", Some(I::Metadata)),
            ("::ffff:8.8.8.8", None),
            ("64:ff9b::10.0.0.1", Some(I::Private)),
            ("64:ff9b::a9fe:a9fe", Some(I::Metadata)),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b:1::8.8.8.8", Some(I::Reserved)),
            ("2002:7f00:1::", Some(I::Loopback)),
            ("2002:808:808::1", None),
            ("2001::1", Some(I::Reserved)),
            ("2001:db8::1", Some(I::Reserved)),
            ("2001:4860:4860::8888", None),
            ("2606:4700::1", None),
            ("3fff::1", Some(I::Reserved)),
            ("4000::1", Some(I::Reserved)),
            ("fc00::1", Some(I::Private)),
            ("fdff::1", Some(I::Private)),
            ("fd00:ec2::254", Some(I::Metadata)),
            ("fe80::1", Some(I::LinkLocal)),
            ("febf::1", Some(I::LinkLocal)),
            ("fec0::1", Some(I::Reserved)),
            ("ff02::1", Some(I::Multicast)),
        ] {
            assert_eq!(non_public(text.parse().unwrap()), expected, "{text}");
        }
    }
}
