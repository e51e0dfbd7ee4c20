//! External ids, by which rows of a ClusterNetworkConnect are recognised in the Northbound
//! database.

use std::collections::BTreeMap;
use std::fmt;

use patchbay_schemas::datum::Map;

use super::ids::{Attachment, NetworkId};
use super::network::IpFamily;

/// Value of [`key::OWNER_CONTROLLER`] in every row of a ClusterNetworkConnect.
pub const OWNER_CONTROLLER: &str = "ovnkube-network-connect-controller";
/// Value of [`key::OWNER_TYPE`] in every row of a ClusterNetworkConnect.
pub const OWNER_TYPE: &str = "ClusterNetworkConnect";

/// Keys of the external ids.
pub mod key {
    /// Identity of a row: owner controller, owner type, connect and the values of the row's kind,
    /// joined by `:`.
    pub const ID: &str = "k8s.ovn.org/id";
    /// Controller that owns the row.
    pub const OWNER_CONTROLLER: &str = "k8s.ovn.org/owner-controller";
    /// Kind of the object for which the row exists.
    pub const OWNER_TYPE: &str = "k8s.ovn.org/owner-type";
    /// Name of the object for which the row exists: the ClusterNetworkConnect.
    pub const NAME: &str = "k8s.ovn.org/name";
    /// Id of the connected network.
    pub const NETWORK_ID: &str = "network-id";
    /// Id of the node, `0` for a layer2 network.
    pub const NODE_ID: &str = "node-id";
    /// Router that has the port or policy.
    pub const ROUTER_NAME: &str = "router-name";
    /// Id of the network where the traffic of a policy comes from.
    pub const SOURCE_NETWORK_ID: &str = "source-network-id";
    /// Id of the network where the traffic of a policy goes to.
    pub const DESTINATION_NETWORK_ID: &str = "destination-network-id";
    /// `v4` or `v6`.
    pub const IP_FAMILY: &str = "ip-family";
    /// Subnet of a row, with `.` in place of each `:`.
    pub const CIDR: &str = "k8s.ovn.org/cidr";
    /// Purpose of an ACL.
    pub const TYPE: &str = "type";
    /// Name of the network of a row.
    pub const NETWORK: &str = "k8s.ovn.org/network";
    /// Topology of the network of a row.
    pub const TOPOLOGY: &str = "k8s.ovn.org/topology";
    /// `primary` or `secondary`: role of the network of a row.
    pub const ROLE: &str = "k8s.ovn.org/role";
    /// Kind of the object of a load balancer: `Service`.
    pub const KIND: &str = "k8s.ovn.org/kind";
    /// Namespace and name of the object of a load balancer.
    pub const OWNER: &str = "k8s.ovn.org/owner";
}

/// Purpose of an ACL of a service-only connect.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum AclKind {
    /// Allows traffic to cluster IPs, which load balancers process.
    PassService,
    /// Allows traffic inside this network.
    PassSameNetwork(NetworkId),
    /// Drops traffic that goes directly to a pod of a connected network.
    DropPod,
}

impl fmt::Display for AclKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PassService => formatter.write_str("pass-service"),
            Self::PassSameNetwork(id) => write!(formatter, "pass-same-network-{id}"),
            Self::DropPod => formatter.write_str("drop-pod"),
        }
    }
}

/// Row of a connect, by the values that distinguish it from the connect's other rows in its table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum OwnedRow<'a> {
    /// The connect router. It has no [`key::ID`], because it is found by name.
    Router,
    /// Port on the connect router or on a network router.
    RouterPort {
        /// The connected network.
        network: NetworkId,
        /// Attachment of the network.
        attachment: Attachment,
        /// Name of the router that has the port.
        router: &'a str,
    },
    /// Policy on the router of `source`.
    RouterPolicy {
        /// Network where the traffic comes from.
        source: NetworkId,
        /// Network where the traffic goes to.
        destination: NetworkId,
        /// Family of the traffic.
        family: IpFamily,
        /// Name of the router that has the policy.
        router: &'a str,
    },
    /// Route on the connect router.
    StaticRoute {
        /// Network that the route leads to.
        network: NetworkId,
        /// Attachment of the network.
        attachment: Attachment,
        /// Family of the traffic.
        family: IpFamily,
    },
    /// ACL of a service-only connect.
    Acl(AclKind),
    /// Address set with the pod subnets of one family of all connected networks.
    AddressSet(IpFamily),
}

impl OwnedRow<'_> {
    /// Values after the connect's name in the identity, with their keys, in that order.
    fn values(&self) -> Vec<(&'static str, String)> {
        match *self {
            Self::Router => Vec::new(),
            Self::RouterPort { network, attachment, router } => vec![
                (key::NETWORK_ID, network.to_string()),
                (key::NODE_ID, attachment.index().to_string()),
                (key::ROUTER_NAME, router.to_owned()),
            ],
            Self::RouterPolicy { source, destination, family, router } => vec![
                (key::SOURCE_NETWORK_ID, source.to_string()),
                (key::DESTINATION_NETWORK_ID, destination.to_string()),
                (key::IP_FAMILY, family.to_string()),
                (key::ROUTER_NAME, router.to_owned()),
            ],
            Self::StaticRoute { network, attachment, family } => vec![
                (key::NETWORK_ID, network.to_string()),
                (key::NODE_ID, attachment.index().to_string()),
                (key::IP_FAMILY, family.to_string()),
            ],
            Self::Acl(kind) => vec![(key::TYPE, kind.to_string())],
            Self::AddressSet(family) => vec![(key::IP_FAMILY, family.to_string())],
        }
    }

    /// The value of [`key::ID`] for this row of the connect; `None` for the connect router.
    pub fn id(&self, connect: &str) -> Option<String> {
        identity(connect, &self.values())
    }

    /// All external ids of this row of the connect.
    pub fn external_ids(&self, connect: &str) -> BTreeMap<String, String> {
        let values = self.values();
        let id = identity(connect, &values).map(|id| (key::ID, id));
        let shared = [
            (key::OWNER_CONTROLLER, OWNER_CONTROLLER.to_owned()),
            (key::OWNER_TYPE, OWNER_TYPE.to_owned()),
            (key::NAME, connect.to_owned()),
        ];
        values
            .into_iter()
            .chain(shared)
            .chain(id)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// External ids of rows that differ only in the attachment of a network: its ports on one router,
/// or its routes of one family.
///
/// The common parts are built once and shared, because a zone has such rows for each node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttachmentExternalIds {
    /// External ids of one of the rows.
    template: Map,
    /// Identity before the id of the node.
    id_prefix: String,
    /// Identity after the id of the node.
    id_suffix: String,
}

impl AttachmentExternalIds {
    /// External ids of a network's ports on a router.
    pub fn ports(connect: &str, network: NetworkId, router: &str) -> Self {
        let row = OwnedRow::RouterPort { network, attachment: Attachment::Layer2, router };
        Self::from_row(row, connect, network, router)
    }

    /// External ids of the routes of one family to a network.
    pub fn routes(connect: &str, network: NetworkId, family: IpFamily) -> Self {
        let row = OwnedRow::StaticRoute { network, attachment: Attachment::Layer2, family };
        Self::from_row(row, connect, network, &family.to_string())
    }

    /// `last` is the last value of the identity.
    fn from_row(row: OwnedRow<'_>, connect: &str, network: NetworkId, last: &str) -> Self {
        Self {
            template: row
                .external_ids(connect)
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            id_prefix: format!("{OWNER_CONTROLLER}:{OWNER_TYPE}:{connect}:{network}:"),
            id_suffix: format!(":{last}"),
        }
    }

    /// All external ids of the row of an attachment.
    pub fn external_ids(&self, attachment: Attachment) -> Map {
        let mut digits = itoa::Buffer::new();
        let node = digits.format(attachment.index());
        self.template.map_values(|key, value| match key.as_str() {
            Some(key::ID) => [&self.id_prefix, node, &self.id_suffix].concat().into(),
            Some(key::NODE_ID) => (&*node).into(),
            _ => value.clone(),
        })
    }
}

/// Identity of a row in its table. `None`: the row has no values and is found by name.
fn identity(connect: &str, values: &[(&str, String)]) -> Option<String> {
    if values.is_empty() {
        return None;
    }
    let mut id = String::with_capacity(160);
    id.extend([OWNER_CONTROLLER, ":", OWNER_TYPE, ":", connect]);
    for (_, value) in values {
        id.extend([":", value]);
    }
    Some(id)
}

/// Name of an address set, or of another row that is named by hash, from the value of its
/// [`key::ID`].
pub fn hashed_name(id: &str) -> String {
    // FNV-1a, 64 bits.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("a{hash}")
}

/// Value of [`key::ID`] of the address set with the addresses of all nodes' hosts.
pub fn node_addresses_id(family: IpFamily) -> String {
    format!("default-network-controller:ClusterNodeIPs:node-ips:{family}")
}

/// Value of [`key::ID`] of the address set with services of the default network that networks
/// reach.
pub fn reachable_services_id(family: IpFamily) -> String {
    format!("udn-enabled-svc:UDNEnabledService:udn-enabled-svc-cluster-ips:{family}")
}

/// Name of the connect's address set of one family.
pub fn address_set_name(connect: &str, family: IpFamily) -> String {
    let id = format!("{OWNER_CONTROLLER}:{OWNER_TYPE}:{connect}:{family}");
    hashed_name(&id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;

    fn network(id: i64) -> NetworkId {
        NetworkId::try_new(id).unwrap()
    }

    #[test]
    fn identities_join_the_values_of_their_kind() {
        let owner = "ovnkube-network-connect-controller:ClusterNetworkConnect:blue-green-connect";
        let attachment = Attachment::Layer3(NodeId::try_new(3).unwrap());
        let cases = [
            (
                OwnedRow::RouterPort {
                    network: network(1),
                    attachment,
                    router: "connect_router_blue-green-connect",
                },
                ":1:3:connect_router_blue-green-connect",
            ),
            (
                OwnedRow::RouterPolicy {
                    source: network(1),
                    destination: network(2),
                    family: IpFamily::V4,
                    router: "cluster_udn_blue.network_ovn_cluster_router",
                },
                ":1:2:v4:cluster_udn_blue.network_ovn_cluster_router",
            ),
            (
                OwnedRow::StaticRoute {
                    network: network(3),
                    attachment: Attachment::Layer2,
                    family: IpFamily::V6,
                },
                ":3:0:v6",
            ),
            (OwnedRow::Acl(AclKind::PassSameNetwork(network(5))), ":pass-same-network-5"),
            (OwnedRow::AddressSet(IpFamily::V4), ":v4"),
        ];
        for (row, tail) in cases {
            assert_eq!(row.id("blue-green-connect"), Some(format!("{owner}{tail}")));
        }
        assert_eq!(OwnedRow::Router.id("blue-green-connect"), None);
    }

    #[test]
    fn the_external_ids_of_a_port_are_its_values_and_its_owner() {
        let row = OwnedRow::RouterPort {
            network: network(3),
            attachment: Attachment::Layer2,
            router: "r",
        };
        let ids = row.external_ids("mix");
        let expected = [
            (key::DESTINATION_NETWORK_ID, None),
            (key::NAME, Some("mix")),
            (key::NETWORK_ID, Some("3")),
            (key::NODE_ID, Some("0")),
            (key::ROUTER_NAME, Some("r")),
            (key::OWNER_TYPE, Some("ClusterNetworkConnect")),
        ];
        for (key, value) in expected {
            assert_eq!(ids.get(key).map(String::as_str), value, "{key}");
        }
        assert_eq!(ids.len(), 7);
        assert_eq!(OwnedRow::Router.external_ids("mix").len(), 3);
    }

    #[test]
    fn external_ids_of_attachments_equal_those_of_rows() {
        let node = Attachment::Layer3(NodeId::try_new(4711).unwrap());
        for attachment in [Attachment::Layer2, node] {
            let (network, router, family) = (network(17), "connect_router_mix", IpFamily::V6);
            let ports = AttachmentExternalIds::ports("mix", network, router);
            let routes = AttachmentExternalIds::routes("mix", network, family);
            let port = OwnedRow::RouterPort { network, attachment, router };
            let route = OwnedRow::StaticRoute { network, attachment, family };
            for (rows, row) in [(ports, port), (routes, route)] {
                let expected: Map = row
                    .external_ids("mix")
                    .into_iter()
                    .map(|(k, v)| (k.into(), v.into()))
                    .collect();
                assert_eq!(rows.external_ids(attachment), expected);
            }
        }
    }

    #[test]
    fn address_set_names_are_hashes_of_the_identity() {
        let cases = [
            ("frontend-backend-services", IpFamily::V4, "a551875203058569840"),
            ("frontend-backend-services", IpFamily::V6, "a551877402081826262"),
            ("svc-only", IpFamily::V4, "a14344994683080520293"),
            ("svc-only", IpFamily::V6, "a14344992484057263871"),
        ];
        for (connect, family, name) in cases {
            assert_eq!(address_set_name(connect, family), name);
            let id = OwnedRow::AddressSet(family).id(connect).unwrap();
            assert_eq!(hashed_name(&id), name);
        }
    }
}
