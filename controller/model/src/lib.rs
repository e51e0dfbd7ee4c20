//! Validated domain types, and the names, ids and addresses that follow from them.
//!
//! Everything here is a value or a pure function. A value is checked once, in its constructor, so
//! that cluster manager and zone controllers pass a [`NodeId`] or a [`TunnelKey`], not a number.
//!
//! ```
//! use patchbay_model::{ConnectRange, ConnectRangeError, NodeId};
//!
//! let range = ConnectRange::try_new(ConnectRange::parse_cidr("192.168.0.0/16")?, 24)?;
//! assert_eq!(range.host_bits(), 8);
//! assert!(NodeId::try_new(-1).is_err());
//! # Ok::<(), ConnectRangeError>(())
//! ```

pub mod abbreviation;
mod address;
mod address_pool;
mod admin_policy;
pub mod arithmetic;
mod attached_network;
mod cni_config;
pub mod condition;
pub mod config_check;
mod connect;
mod connect_range;
mod connect_subnets;
mod egress_firewall;
mod egress_ip;
pub mod external_ids;
mod host_subnets;

mod ids;
mod label_selector;
mod layer2_layout;
mod masquerade;
pub mod names;
mod net_conf;
mod network;
mod network_activity;
mod network_users;
mod networks;
mod node;
mod node_capacity;
mod node_chassis;
mod node_subnet_owners;
pub mod object_kind;
mod object_problem;
mod objects;
pub mod owner;
mod pod;
mod pod_addressing;
mod pod_attachments;
mod pod_networks;
mod policy;
pub mod printable;
mod route_advertisement;
mod service;
mod settings;
mod subnet_pool;
mod subnetting;
mod transit_subnets;
mod tunnel_key;
mod unread_networks;
mod uplink;
pub mod vpc;

pub use address::{
    PointToPoint, PointToPointError, format_address, format_net, gateway_mac, link_local_address,
    mac_address, mac_of_name, point_to_point,
};
pub use address_pool::{AddressError, AddressPool};
pub use admin_policy::{
    AdminAction, AdminPolicy, AdminPolicyKey, AdminPolicyKind, AdminRule, BASELINE_POLICY,
    MAX_ADMIN_PRIORITY, MAX_ADMIN_RULES, PodScope,
};
pub use attached_network::{AttachedNetwork, AttachedNetworks, AttachedTopology, Definition};
pub use cni_config::{CNI_PLUGIN, CNI_VERSION, CniConfig, CniEvpn, CniVrf, UninterpretedValue};
pub use connect::{
    Connect, ConnectError, ConnectInput, ConnectedSubnet, ConnectedVpc, Connectivity,
    ROUTER_TUNNEL_KEY,
};
pub use connect_range::{ConnectRange, ConnectRangeError, ConnectRanges};
pub use connect_subnets::{ConnectSubnetMap, ConnectSubnets, SubnetAnnotationError};
pub use egress_firewall::{
    EGRESS_FIREWALL, EgressFirewall, FirewallAction, FirewallDestination, FirewallPort,
    FirewallRule,
};
pub use egress_ip::{EGRESS_IP_MARK, EgressAssignment, EgressIp};
pub use host_subnets::HostSubnetError;
pub use host_subnets::check_host_subnets;
pub use ids::{Attachment, DatapathKey, IdError, NetworkId, NodeId, OwnerKey, Topology, TunnelKey};
pub use label_selector::{Requirement, Selector};
pub use layer2_layout::Layer2Layout;
pub use masquerade::MasqueradePlace;
pub use net_conf::{NetConf, NetConfError};
pub use network::{IpFamily, Network, NetworkConfig, PodSubnet, Role, Transport, nth_of_family};
pub use network_activity::{NetworkActivity, RenderedNetworks};
pub use network_users::NetworkUsers;
pub use networks::{
    AttachmentDefinition, NETWORK_ID, NETWORK_NAME, NadKey, NadProblem, Networks,
    PRIMARY_NETWORK_LABEL, TUNNEL_KEYS,
};
pub use node::{
    NODE_CHASSIS_ID, NODE_ID, NODE_SUBNETS, NODE_TRANSIT_ADDRESSES, Node, NodeError,
    NodeErrorReason, UnreadableAnnotations, UnreadableSubnets, transit_addresses,
};
pub use node_capacity::{FIRST_NODE_ID, NodeIdCapacity};
pub use node_chassis::NodeChassis;
pub use node_subnet_owners::{NodeSubnetOwners, SubnetRefusal};
pub use object_problem::{FieldProblem, ObjectProblem, ObjectRef};
pub use objects::{NetworkObjects, NodeObject};
pub use pod::{
    AddressRequest, ContainerPort, DEFAULT_NETWORK_SELECTION, NETWORK_SELECTIONS, NetworkSelection,
    OPEN_PORTS, OpenPort, PRIMARY_IPAM_CLAIM, Pod, PodKey, VIRTUAL_MACHINE_NAME, VirtualMachine,
};
pub use pod_attachments::{
    PodAttachment, PodPlace, PrimaryDefinition, attachments, port_name, waits_for_primary_network,
};
pub use pod_networks::{DEFAULT_NETWORK_KEY, POD_NETWORKS, PodNetwork, PodNetworks, PodRoute};
pub use policy::{
    ACL_LOGGING, IpBlock, MULTICAST_ENABLED, POLICY_FOR, PodPeer, Policy, PolicyDirection,
    PolicyKey, PolicyKind, PolicyPeers, PolicyPort, PolicyRule, PortNumbers,
};
pub use route_advertisement::{ROUTE_ADVERTISEMENTS, RouteAdvertisement};
pub use service::{
    ENDPOINT_NETWORK, Endpoint, EndpointPort, EndpointSlice, EndpointState, HEADLESS_LABEL,
    MIRRORED_SERVICE_LABEL, Protocol, SERVICE_PROXY_LABEL, Service, ServiceKey, ServicePort,
    TargetPort, UnknownProtocol,
};
pub use settings::{ClusterSettings, Databases, Feature, GatewayMode, USER_DEFINED_JOIN_SUBNETS};
pub use subnet_pool::SubnetPool;
pub use tunnel_key::{TunnelKeyError, port_tunnel_key};
pub use unread_networks::UnreadNetworks;
pub use uplink::{
    HOST_CIDRS, Uplink, VLAN_IDS, host_addresses, primary_interface, unreadable_annotations,
};
