//! Arithmetic on addresses and subnets.

use std::net::IpAddr;

use ipnet::IpNet;

/// Address `n` after the first one of a subnet. `None`: it is outside of the subnet.
pub fn nth_address(subnet: IpNet, n: u128) -> Option<IpAddr> {
    let address = match subnet.network() {
        IpAddr::V4(base) => {
            let sum = u128::from(u32::from(base)) + n;
            IpAddr::V4(u32::try_from(sum).ok()?.into())
        }
        IpAddr::V6(base) => IpAddr::V6(u128::from(base).checked_add(n)?.into()),
    };
    subnet.contains(&address).then_some(address)
}

/// True if two subnets have addresses in common.
pub fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_inside_of_their_subnet() {
        let nth = |subnet: &str, n| {
            nth_address(subnet.parse().unwrap(), n).map(|address| address.to_string())
        };
        assert_eq!(nth("10.0.0.0/24", 255).as_deref(), Some("10.0.0.255"));
        assert_eq!(nth("10.0.0.0/24", 256), None);
        assert_eq!(nth("255.255.255.0/24", 256), None);
        assert_eq!(
            nth("fd00::/64", 1 << 63).as_deref(),
            Some("fd00::8000:0:0:0")
        );
        assert_eq!(nth("fd00::/64", u128::MAX), None);
    }
}
