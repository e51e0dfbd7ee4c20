//! Arithmetic on addresses and subnets.

use std::net::IpAddr;

use ipnet::IpNet;

/// Limit of the candidates of [`subnet_beside`], as in OVN-Kubernetes' search for transit subnets.
const MAX_CANDIDATES: usize = 10;

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

/// `true` if two subnets have addresses in common.
pub fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// The first subnet of the length of `first`, from `first` on, that overlaps with no other one.
///
/// `overlapping` returns a subnet that overlaps with the candidate. The next candidate lies behind
/// the wider one of both. `None`: ten candidates overlap, or the address space ends before.
///
/// # Errors
/// Those of `overlapping`.
pub fn subnet_beside<E>(
    first: IpNet,
    mut overlapping: impl FnMut(IpNet) -> Result<Option<IpNet>, E>,
) -> Result<Option<IpNet>, E> {
    let mut candidate = first;
    for _ in 0..MAX_CANDIDATES {
        let Some(other) = overlapping(candidate)? else {
            return Ok(Some(candidate));
        };
        let wider = if other.prefix_len() < candidate.prefix_len() { other } else { candidate };
        let Some(next) = next_subnet(wider, first.prefix_len()) else {
            return Ok(None);
        };
        candidate = next;
    }
    Ok(None)
}

/// The subnet of this prefix length directly behind `subnet`. `None`: the address space ends there.
fn next_subnet(subnet: IpNet, prefix: u8) -> Option<IpNet> {
    let next = match subnet.broadcast() {
        IpAddr::V4(last) => IpAddr::V4(u32::from(last).checked_add(1)?.into()),
        IpAddr::V6(last) => IpAddr::V6(u128::from(last).checked_add(1)?.into()),
    };
    IpNet::new(next, prefix).ok()
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
        assert_eq!(nth("fd00::/64", 1 << 63).as_deref(), Some("fd00::8000:0:0:0"));
        assert_eq!(nth("fd00::/64", u128::MAX), None);
    }

    #[test]
    fn the_next_subnet_begins_behind_the_last_address() {
        let next = |subnet: &str, prefix| {
            let next = next_subnet(subnet.parse().unwrap(), prefix);
            next.map(|subnet| subnet.to_string())
        };
        assert_eq!(next("100.88.0.0/14", 16).as_deref(), Some("100.92.0.0/16"));
        assert_eq!(next("fd97::/64", 64).as_deref(), Some("fd97:0:0:1::/64"));
        assert_eq!(next("255.255.0.0/16", 16), None);
    }
}
