//! Masquerade addresses: addresses between OVN and the host, which leave neither.

use std::net::IpAddr;

use ipnet::IpNet;

use super::arithmetic::nth_address;
use super::ids::NetworkId;
use super::network::IpFamily;
use super::settings::ClusterSettings;

/// Places in a masquerade subnet before those of user-defined networks, which have two each.
const RESERVED_PLACES: u128 = 10;

/// Use of a masquerade address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MasqueradePlace {
    /// The host.
    Host,
    /// Node ports of services whose external traffic policy is `Local`, as the host reaches them.
    HostLocalNodePorts,
    /// Next hop of replies to masquerade addresses, which does not exist.
    DummyNextHop,
    /// Source of packets that a load balancer sends back to their source.
    Hairpin,
    /// Gateway routers of a network.
    GatewayRouter(NetworkId),
    /// Management ports of a network.
    ManagementPort(NetworkId),
}

impl MasqueradePlace {
    /// Place in the subnet.
    fn place(self) -> u128 {
        let of_network = |id: NetworkId| RESERVED_PLACES + 2 * u128::from(id.get());
        match self {
            Self::Host => 2,
            Self::HostLocalNodePorts => 3,
            Self::DummyNextHop => 4,
            Self::Hairpin => 5,
            Self::GatewayRouter(id) => of_network(id) - 1,
            Self::ManagementPort(id) => of_network(id),
        }
    }
}

impl ClusterSettings {
    /// The masquerade subnet of a family.
    pub fn masquerade_subnet(&self, family: IpFamily) -> Option<IpNet> {
        let mut subnets = self.masquerade_subnets.iter().copied();
        subnets.find(|subnet| IpFamily::of_net(*subnet) == family)
    }

    /// A masquerade address of a family. `None`: the cluster has no subnet for it.
    pub fn masquerade_address(&self, place: MasqueradePlace, family: IpFamily) -> Option<IpAddr> {
        nth_address(self.masquerade_subnet(family)?, place.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_two_addresses_after_the_reserved_ones() {
        let settings = ClusterSettings::default();
        let network = NetworkId::try_new(2).unwrap();
        let cases = [
            (MasqueradePlace::Host, IpFamily::V4, "169.254.0.2"),
            (MasqueradePlace::Hairpin, IpFamily::V6, "fd69::5"),
            (MasqueradePlace::GatewayRouter(network), IpFamily::V4, "169.254.0.13"),
            (MasqueradePlace::ManagementPort(network), IpFamily::V6, "fd69::e"),
        ];
        for (place, family, address) in cases {
            let found = settings.masquerade_address(place, family);
            assert_eq!(found, address.parse().ok(), "{place:?}");
        }
    }
}
