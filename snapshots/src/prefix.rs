//! Addresses and prefixes as users of OVN write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An address with the length of its prefix, `ADDRESS[/LENGTH]` or `ADDRESS/NETMASK`. Displayed it is brought into
/// one form: without the bits of the host, and without the length when that is of the whole address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(IpNet);

impl Prefix {
    /// Reads a prefix; none when the text is none for Open vSwitch, which takes numbers as C's `scanf` does: with
    /// space before them, signs and zeros, and without what is too large for their type.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        prefix(text, Scan::ipv4)
            .or_else(|| prefix(text, Scan::ipv6))
            .map(Self)
    }

    /// The address as written, with the bits of the host.
    pub(crate) fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// How many bits the prefix has.
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

/// As the C library does: it also shows the last 32 bits of an address whose other ones are all zero as IPv4.
fn fmt_ipv6(address: Ipv6Addr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high > 0 => {
            write!(
                f,
                "::{}",
                Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
            )
        }
        _ => write!(f, "{address}"),
    }
}

/// A prefix in its one form; nothing when the text is no prefix.
pub(crate) fn normalised(text: &str) -> String {
    Prefix::parse(text)
        .map(|prefix| prefix.to_string())
        .unwrap_or_default()
}

/// An address, as `read` reads it, alone or with a length or mask of its family.
fn prefix<'a, A: Into<IpAddr>>(
    text: &'a str,
    read: fn(&mut Scan<'a>) -> Option<A>,
) -> Option<IpNet> {
    let mut rest = Scan(text);
    rest.space();
    let address = read(&mut rest)?.into();
    if rest.ended() {
        return Some(address.into());
    }
    rest.literal('/')?;
    let len = match rest.whole(read) {
        Some(mask) => ipnet::ip_mask_to_prefix(mask.into()).ok()?,
        None => rest.whole(Scan::int)?.try_into().ok()?,
    };
    IpNet::new(address, len).ok()
}

/// What is left of a text that is read from its beginning.
#[derive(Clone, Copy)]
struct Scan<'a>(&'a str);

impl Scan<'_> {
    fn ended(self) -> bool {
        self.0.is_empty()
    }

    /// What `read` makes of all that is left; nothing when it leaves something.
    fn whole<T>(mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        read(&mut self).filter(|_| self.ended())
    }

    fn space(&mut self) {
        self.0 = self
            .0
            .trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    }

    fn literal(&mut self, literal: char) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    /// A number, of which only the low 32 bits count.
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
        let value = digits.bytes().fold(0_i32, |value, digit| {
            value.wrapping_mul(10).wrapping_add((digit - b'0').into())
        });
        Some(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }

    /// Four numbers, of each of which only the low 8 bits count.
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
    use super::normalised;

    #[test]
    fn prefixes_have_one_form() {
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
            assert_eq!(normalised(text), normal, "{text}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_nothing() {
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
            assert_eq!(normalised(text), "", "{text}");
        }
    }
}
