//! External ids: how the rows of a connect are recognised in the Northbound database.

use std::collections::BTreeMap;
use std::fmt;

use patchbay_schemas::datum::Map;

use super::ids::{Attachment, NetworkId};
use super::network::IpFamily;

/// Value of [`key::OWNER_CONTROLLER`] on every row of a connect.
pub const OWNER_CONTROLLER: &str = "ovnkube-network-connect-controller";
/// Value of [`key::OWNER_TYPE`] on every row of a connect.
pub const OWNER_TYPE: &str = "ClusterNetworkConnect";

/// Keys of the external ids.
pub mod key {
    /// Identity of a row: owner controller, owner type and the values of the row's kind, joined by `:`.
    pub const ID: &str = "k8s.ovn.org/id";
    /// Which controller owns the row.
    pub const OWNER_CONTROLLER: &str = "k8s.ovn.org/owner-controller";
    /// For which kind of object the row exists.
    pub const OWNER_TYPE: &str = "k8s.ovn.org/owner-type";
    /// Name of the object the row exists for: the connect's name.
    pub const NAME: &str = "k8s.ovn.org/name";
    /// Id of the connected network.
    pub const NETWORK_ID: &str = "network-id";
    /// Id of the node, `0` for a layer2 network.
    pub const NODE_ID: &str = "node-id";
    /// The router on which the row is.
    pub const ROUTER_NAME: &str = "router-name";
    /// Network from which a policy takes traffic.
    pub const SOURCE_NETWORK_ID: &str = "source-network-id";
    /// Network to which a policy sends traffic.
    pub const DESTINATION_NETWORK_ID: &str = "destination-network-id";
    /// `v4` or `v6`.
    pub const IP_FAMILY: &str = "ip-family";
    /// What an ACL is for.
    pub const TYPE: &str = "type";
}

/// The `external_ids` column of one row.
pub type ExternalIds = BTreeMap<String, String>;

/// What an ACL of a service-only connect is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum AclKind {
    /// Lets traffic to cluster IPs reach the load balancers.
    PassService,
    /// Lets traffic inside this network pass.
    PassSameNetwork(NetworkId),
    /// Drops what goes to a pod of a connected network directly.
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

/// A row that a connect owns, by what distinguishes it from the connect's other rows of its table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum OwnedRow<'a> {
    /// The connect router. It has no [`key::ID`]: it is found by name.
    Router,
    /// A port, on the connect router or on a network router.
    RouterPort {
        /// The connected network.
        network: NetworkId,
        /// Where the network is attached.
        attachment: Attachment,
        /// The router that has the port.
        router: &'a str,
    },
    /// A policy on the router of `source`.
    RouterPolicy {
        /// Network that the traffic comes from.
        source: NetworkId,
        /// Network that the traffic goes to.
        destination: NetworkId,
        /// Family of the traffic.
        family: IpFamily,
        /// The router that has the policy.
        router: &'a str,
    },
    /// A route on the connect router.
    StaticRoute {
        /// The network behind the route.
        network: NetworkId,
        /// Where the network is attached.
        attachment: Attachment,
        /// Family of the traffic.
        family: IpFamily,
    },
    /// An ACL of a service-only connect.
    Acl(AclKind),
    /// The pod subnets of all connected networks, of one family.
    AddressSet(IpFamily),
}

impl OwnedRow<'_> {
    /// The values that make up the identity after the connect's name, with their keys, in the order of the identity.
    fn values(&self) -> Vec<(&'static str, String)> {
        match *self {
            Self::Router => Vec::new(),
            Self::RouterPort {
                network,
                attachment,
                router,
            } => vec![
                (key::NETWORK_ID, network.to_string()),
                (key::NODE_ID, attachment.index().to_string()),
                (key::ROUTER_NAME, router.to_owned()),
            ],
            Self::RouterPolicy {
                source,
                destination,
                family,
                router,
            } => vec![
                (key::SOURCE_NETWORK_ID, source.to_string()),
                (key::DESTINATION_NETWORK_ID, destination.to_string()),
                (key::IP_FAMILY, family.to_string()),
                (key::ROUTER_NAME, router.to_owned()),
            ],
            Self::StaticRoute {
                network,
                attachment,
                family,
            } => vec![
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
    pub fn external_ids(&self, connect: &str) -> ExternalIds {
        let values = self.values();
        let id = identity(connect, &values).map(|id| (key::ID, id));
        let shared = [
            (key::OWNER_CONTROLLER, OWNER_CONTROLLER.to_owned()),
            (key::OWNER_TYPE, OWNER_TYPE.to_owned()),
            (key::NAME, connect.to_owned()),
        ];
        let all = values.into_iter().chain(shared).chain(id);
        all.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// The external ids of rows that differ only in where a network is attached: of its ports on one router, or of its routes
/// of one family. What they have in common is put together once, and shared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttachedRows {
    /// Those of one of the rows.
    like: Map,
    /// The identity before and after the id of the node.
    head: String,
    tail: String,
}

impl AttachedRows {
    /// The ports of a network on a router.
    pub fn ports(connect: &str, network: NetworkId, router: &str) -> Self {
        let row = OwnedRow::RouterPort {
            network,
            attachment: Attachment::Layer2,
            router,
        };
        Self::like(row, connect, network, router)
    }

    /// The routes to a network, of one family.
    pub fn routes(connect: &str, network: NetworkId, family: IpFamily) -> Self {
        let row = OwnedRow::StaticRoute {
            network,
            attachment: Attachment::Layer2,
            family,
        };
        Self::like(row, connect, network, &family.to_string())
    }

    /// `last` is what the identity ends with.
    fn like(row: OwnedRow<'_>, connect: &str, network: NetworkId, last: &str) -> Self {
        let like = row.external_ids(connect).into_iter();
        Self {
            like: like
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            head: format!("{OWNER_CONTROLLER}:{OWNER_TYPE}:{connect}:{network}:"),
            tail: format!(":{last}"),
        }
    }

    /// All external ids of the row of an attachment.
    pub fn external_ids(&self, attachment: Attachment) -> Map {
        let mut digits = itoa::Buffer::new();
        let node = digits.format(attachment.index());
        self.like.map_values(|key, value| match key.as_str() {
            Some(key::ID) => [&self.head, node, &self.tail].concat().into(),
            Some(key::NODE_ID) => (&*node).into(),
            _ => value.clone(),
        })
    }
}

/// What distinguishes a row from all others of its table; a row without values of its own has a name instead.
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

/// The name of an address set (or of another row named by hash), from the value of its [`key::ID`].
pub fn hashed_name(id: &str) -> String {
    // FNV-1a, 64 bits.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("a{hash}")
}

/// The name of the connect's address set of one family.
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
            (
                OwnedRow::Acl(AclKind::PassSameNetwork(network(5))),
                ":pass-same-network-5",
            ),
            (OwnedRow::AddressSet(IpFamily::V4), ":v4"),
        ];
        for (row, tail) in cases {
            assert_eq!(row.id("blue-green-connect"), Some(format!("{owner}{tail}")));
        }
        assert_eq!(OwnedRow::Router.id("blue-green-connect"), None);
    }

    #[test]
    fn a_port_has_its_values_and_its_owner() {
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
    fn attached_rows_have_the_external_ids_of_their_kind() {
        let node = Attachment::Layer3(NodeId::try_new(4711).unwrap());
        for attachment in [Attachment::Layer2, node] {
            let (network, router, family) = (network(17), "connect_router_mix", IpFamily::V6);
            let ports = AttachedRows::ports("mix", network, router);
            let routes = AttachedRows::routes("mix", network, family);
            let port = OwnedRow::RouterPort {
                network,
                attachment,
                router,
            };
            let route = OwnedRow::StaticRoute {
                network,
                attachment,
                family,
            };
            for (rows, row) in [(ports, port), (routes, route)] {
                let expected = row.external_ids("mix").into_iter();
                let expected: Map = expected.map(|(k, v)| (k.into(), v.into())).collect();
                assert_eq!(rows.external_ids(attachment), expected);
            }
        }
    }

    #[test]
    fn address_set_names_are_hashes_of_the_identity() {
        let cases = [
            (
                "frontend-backend-services",
                IpFamily::V4,
                "a551875203058569840",
            ),
            (
                "frontend-backend-services",
                IpFamily::V6,
                "a551877402081826262",
            ),
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
