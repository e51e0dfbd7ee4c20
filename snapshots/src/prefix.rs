//! Addresses and prefixes as users of OVN write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// An address with the length of its prefix, `ADDRESS[/LENGTH]` or `ADDRESS/NETMASK`. Displayed it is brought into
/// one form: without the bits of the host, and without the length when that is of the whole address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(IpNet);

impl Prefix {
    /// Reads a prefix; none when the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let address = IpAddr::from_str(address).ok()?;
        let len = match mask {
            None => IpNet::from(address).prefix_len(),
            Some(mask) => match mask.parse() {
                Ok(len) => len,
                Err(_) => ipnet::ip_mask_to_prefix(mask.parse().ok()?).ok()?,
            },
        };
        IpNet::new(address, len).ok().map(Self)
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
            "10.0.0.0/",
            "fd00::/129",
        ] {
            assert_eq!(normalised(text), "", "{text}");
        }
    }
}
