//! Addresses and prefixes in the notation of OVN's users.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An address with a prefix length: `ADDRESS[/LENGTH]` or `ADDRESS/NETMASK`.
///
/// Its displayed form is canonical: the host bits are zero, and the length of a whole address is
/// omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(IpNet);

impl Prefix {
    /// Parses a prefix as Open vSwitch does; `None` if Open vSwitch refuses the text.
    ///
    /// Open vSwitch parses numbers with C's `scanf`: they may have leading white space, signs and
    /// zeros, and wrap around at the size of their type.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        parse_net(text, Scanner::ipv4).or_else(|| parse_net(text, Scanner::ipv6)).map(Self)
    }

    /// Address as written, with its host bits.
    pub(crate) fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// Length of the prefix in bits.
    pub(crate) fn len(self) -> u8 {
        self.0.prefix_len()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.network() {
            IpAddr::V4(address) => write!(f, "{address}")?,
            IpAddr::V6(address) => fmt_ipv6(address, f)?,
        }
        if self.0.prefix_len() < self.0.max_prefix_len() {
            write!(f, "/{}", self.0.prefix_len())?;
        }
        Ok(())
    }
}

/// Formats an IPv6 address as the C library does: if only the last 32 bits are not zero, they have
/// IPv4 notation.
fn fmt_ipv6(address: Ipv6Addr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high > 0 => {
            write!(f, "::{}", Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => write!(f, "{address}"),
    }
}

/// Canonical form of a prefix; empty if the text is not a prefix.
pub(crate) fn normalize_prefix(text: &str) -> String {
    Prefix::parse(text).map(|prefix| prefix.to_string()).unwrap_or_default()
}

/// Parses an address with `read`, alone or with a length or mask of the same family.
fn parse_net<'a, A: Into<IpAddr>>(
    text: &'a str,
    read: fn(&mut Scanner<'a>) -> Option<A>,
) -> Option<IpNet> {
    let mut rest = Scanner(text);
    rest.space();
    let address = read(&mut rest)?.into();
    if rest.is_at_end() {
        return Some(address.into());
    }
    rest.literal('/')?;
    let len = match rest.read_whole(read) {
        Some(mask) => ipnet::ip_mask_to_prefix(mask.into()).ok()?,
        None => rest.read_whole(Scanner::int)?.try_into().ok()?,
    };
    IpNet::new(address, len).ok()
}

/// Unread rest of a text.
#[derive(Clone, Copy)]
struct Scanner<'a>(&'a str);

impl Scanner<'_> {
    fn is_at_end(self) -> bool {
        self.0.is_empty()
    }

    /// Result of `read` if it reads the whole rest.
    fn read_whole<T>(mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        read(&mut self).filter(|_| self.is_at_end())
    }

    /// Skips white space.
    fn space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    }

    fn literal(&mut self, literal: char) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    /// Reads an integer modulo 2^32.
    fn int(&mut self) -> Option<i32> {
        self.space();
        let negative = self.0.starts_with('-');
        let digits = self.0.strip_prefix(['-', '+']).unwrap_or(self.0);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &digits[..digits.len() - rest.len()];
        if digits.is_empty() {
            return None;
        }
        self.0 = rest;
        let value = digits
            .bytes()
            .fold(0_i32, |value, digit| value.wrapping_mul(10).wrapping_add((digit - b'0').into()));
        Some(if negative { value.wrapping_neg() } else { value })
    }

    /// Reads an IPv4 address. Each of its four numbers counts modulo 256.
    fn ipv4(&mut self) -> Option<Ipv4Addr> {
        let mut octets = [0; 4];
        for (place, octet) in octets.iter_mut().enumerate() {
            if place > 0 {
                self.literal('.')?;
            }
            *octet = self.int()?.to_le_bytes()[0];
        }
        Some(octets.into())
    }

    /// Reads an IPv6 address.
    fn ipv6(&mut self) -> Option<Ipv6Addr> {
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
        let rest = self.0.trim_start_matches(is_part);
        let address = self.0[..self.0.len() - rest.len()].parse().ok()?;
        self.0 = rest;
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::normalize_prefix;

    #[test]
    fn prefixes_have_one_canonical_form() {
        for (text, normal) in [
            ("10.0.0.7/24", "10.0.0.0/24"),
            ("10.0.0.7/255.255.0.0", "10.0.0.0/16"),
            ("10.0.0.7/32", "10.0.0.7"),
            ("10.0.0.7", "10.0.0.7"),
            ("1.2.3.4/0", "0.0.0.0/0"),
            (" 10. +1.010.300/024", "10.1.10.0/24"),
            ("10.0.0.7/4294967304", "10.0.0.0/8"),
            ("10.0.0.7/511.256.0.0", "10.0.0.0/8"),
            (" fd00::1/ 064", "fd00::/64"),
            ("FD00:0:0:1::5/64", "fd00:0:0:1::/64"),
            ("fd00::1/ffff:ffff::", "fd00::/32"),
            ("fd00::1/128", "fd00::1"),
            ("::/0", "::/0"),
            ("::1", "::1"),
            ("::102:304", "::1.2.3.4"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ] {
            assert_eq!(normalize_prefix(text), normal, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_prefix_has_no_canonical_form() {
        for text in [
            "",
            "lrp0",
            "discard",
            "10.0.0",
            "10.0.0.0/33",
            "10.0.0.0/255.0.255.0",
            "10.0.0.0/-8",
            "10.0.0.0 /8",
            "10.0.0.0/8 ",
            "10.0.0.0/0x8",
            "fd00::1%eth0",
            "10.0.0.0/",
            "fd00::/129",
        ] {
            assert_eq!(normalize_prefix(text), "", "{text}");
        }
    }
}
