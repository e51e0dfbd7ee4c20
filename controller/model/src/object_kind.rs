//! Kinds of the objects to which rows belong. Rows, manifests and the state folder identify an
//! object by its kind and name.

/// Connect: kind of `ClusterNetworkConnect`.
pub const CONNECT: &str = "ClusterNetworkConnect";
/// Network, by the prefix of its rows' names without the last `_`.
pub const NETWORK: &str = "network";
/// Network, by its id. Rows of connects show nothing else.
pub const NETWORK_ID: &str = "network with id";
/// Node.
pub const NODE: &str = "Node";
/// Node, by its id. Rows of connects show nothing else.
pub const NODE_ID: &str = "Node with id";
/// Namespace.
pub const NAMESPACE: &str = "Namespace";
/// Pod.
pub const POD: &str = "Pod";
/// Virtual machine, whose pods share addresses.
pub const VIRTUAL_MACHINE: &str = "VirtualMachine";
/// Service.
pub const SERVICE: &str = "Service";
/// `NetworkPolicy`. Rows of `MultiNetworkPolicies` do not differ from those of this kind.
pub const NETWORK_POLICY: &str = "NetworkPolicy";
/// Firewall of a namespace.
pub const EGRESS_FIREWALL: &str = "EgressFirewall";
/// Feature of the cluster that is switched on, by the name of its flag.
pub const FEATURE: &str = "feature";
/// Egress IP.
pub const EGRESS_IP: &str = "EgressIP";
/// Definition of a network, to which pods are attached.
pub const ATTACHMENT_DEFINITION: &str = "NetworkAttachmentDefinition";
/// Endpoints of a service.
pub const ENDPOINT_SLICE: &str = "EndpointSlice";
/// Policy of secondary networks.
pub const MULTI_NETWORK_POLICY: &str = "MultiNetworkPolicy";
/// Policy of an administrator, before those of namespaces.
pub const ADMIN_NETWORK_POLICY: &str = "AdminNetworkPolicy";
/// Policy of an administrator, after those of namespaces.
pub const BASELINE_ADMIN_NETWORK_POLICY: &str = "BaselineAdminNetworkPolicy";
