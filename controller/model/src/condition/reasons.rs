//! All conditions and their reasons, for their reference and for checks of what sets them.

use super::ConditionStatus;

use ConditionStatus::{False, True, Unknown};

/// A state of a condition that objects may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConditionReason {
    /// Kinds of the objects, separated by commas.
    pub kinds: &'static str,
    /// Type of the condition.
    pub condition: &'static str,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason of the condition.
    pub reason: &'static str,
    /// State that the reason stands for.
    pub meaning: &'static str,
}

const CNC: &str = "ClusterNetworkConnect";
const UDN: &str = "UserDefinedNetwork, ClusterUserDefinedNetwork";
const CUDN: &str = "ClusterUserDefinedNetwork";
const CLAIM: &str = "IPAMClaim";
const SUBNET: &str = "Subnet";
const VPC: &str = "Vpc";
const EIP: &str = "OvnEip";
const RULES: &str = "OvnSnatRule, OvnDnatRule, OvnFip, RouterLBRule";
const BALANCERS: &str = "SwitchLBRule, RouterLBRule";
const VIP: &str = "Vip";
const POOL: &str = "IPPool";

/// All states, by kind and condition.
#[rustfmt::skip] // A table: a state is a line.
pub const CONDITION_REASONS: &[ConditionReason] = &[
    reason(CNC, "Accepted", True, "ResourceAllocationSucceeded", "The connect has its tunnel key, and its networks have their subnets of connectSubnets."),
    reason(CNC, "Accepted", False, "ResourceAllocationFailed", "The connect is wrong, contradicts another connect, or cannot get a key or subnets. The message has all reasons."),
    reason(CNC, "Accepted", False, "DefinitionMissing", "The API server has no definition of NetworkAttachmentDefinitions."),
    reason(CNC, "Connected", True, "AllNetworksConnected", "Each selected network is connected on each node."),
    reason(CNC, "Connected", False, "SomethingSkipped", "A network is not connected on a node. The message has the networks, nodes and reasons."),
    reason(CNC, "Connected", False, super::NO_NETWORKS_SELECTED, "The selectors choose no network."),
    reason(CNC, "Connected", Unknown, "ZonesNotRunning", "Zone controllers do not renew their leases."),
    reason(CNC, "Connected", Unknown, "ZonesSilent", "Zone controllers have not reported yet."),
    reason(CNC, "Connected", Unknown, "ZonesNotUpToDate", "Reports of zone controllers are about an earlier state of the connect."),
    reason(UDN, "NetworkCreated", True, "NetworkAttachmentDefinitionCreated", "The network has its NetworkAttachmentDefinitions."),
    reason(UDN, "NetworkCreated", False, "NetworkAttachmentDefinitionDeleted", "NetworkAttachmentDefinitions of the network are being deleted."),
    reason("UserDefinedNetwork", "NetworkCreated", False, "SyncError", "The NetworkAttachmentDefinition cannot be made. The message has the reason."),
    reason(CUDN, "NetworkCreated", False, "NetworkAttachmentDefinitionSyncError", "A NetworkAttachmentDefinition cannot be made. The message has the reason of each namespace."),
    reason(CUDN, "NetworkCreated", False, "EVPNConfigError", "The fields of EVPN contradict each other."),
    reason(CUDN, "NetworkCreated", False, "VTEPNotFound", "The VTEP of the network does not exist."),
    reason(CUDN, "NetworkCreated", False, "VTEPUnknown", "VTEPs cannot be listed."),
    reason(CUDN, "NetworkCreated", False, "VTEPNotAccepted", "The VTEP of the network is not accepted."),
    reason(UDN, "NetworkAllocationSucceeded", True, "NetworkAllocationSucceeded", "Each node has its subnet of the network."),
    reason(UDN, "NetworkAllocationSucceeded", False, "InternalError", "A node has no subnet of the network. Events name all such nodes."),
    reason(UDN, "NodesSelected", True, "DynamicAllocation", "Nodes have the network, with dynamic allocation."),
    reason(UDN, "NodesSelected", False, "DynamicAllocation", "No node has the network any more, with dynamic allocation."),
    reason(UDN, "PortsAvailable", False, "NoChassisId", "Pods of the network are on nodes without a chassis id, and have no ports."),
    reason(UDN, "PortsAvailable", True, "ChassisIds", "All nodes with pods of the network have a chassis id again."),
    reason(CUDN, "TransportAccepted", True, "NoOverlayTransportAccepted", "The network is advertised, and needs no overlay."),
    reason(CUDN, "TransportAccepted", True, "EVPNTransportAccepted", "The network is advertised by EVPN."),
    reason(CUDN, "TransportAccepted", False, "EVPNConfigError", "The fields of EVPN contradict each other."),
    reason(CUDN, "TransportAccepted", False, "VTEPNotFound", "The VTEP of the network does not exist."),
    reason(CUDN, "TransportAccepted", False, "VTEPUnknown", "VTEPs cannot be listed."),
    reason(CUDN, "TransportAccepted", False, "VTEPNotAccepted", "The VTEP of the network is not accepted."),
    reason(CUDN, "TransportAccepted", False, "RouteAdvertisementsNotEnabled", "The transport needs the feature route-advertisements."),
    reason(CUDN, "TransportAccepted", False, "NoOverlayRouteAdvertisementsIsMissing", "No RouteAdvertisements advertises the pods of the network."),
    reason(CUDN, "TransportAccepted", False, "EVPNRouteAdvertisementsIsMissing", "No RouteAdvertisements advertises the pods of the network."),
    reason(CUDN, "TransportAccepted", False, "NoOverlayRouteAdvertisementsNotAccepted", "The RouteAdvertisements of the network are not accepted."),
    reason(CUDN, "TransportAccepted", False, "EVPNRouteAdvertisementsNotAccepted", "The RouteAdvertisements of the network are not accepted."),
    reason(CUDN, "TransportAccepted", False, "NoOverlayRouteAdvertisementsUnknown", "RouteAdvertisements cannot be listed."),
    reason(CUDN, "TransportAccepted", False, "EVPNRouteAdvertisementsUnknown", "RouteAdvertisements cannot be listed."),
    reason(CLAIM, "IPsAllocated", True, "SuccessfulAllocation", "The claim has its addresses."),
    reason(CLAIM, "IPsAllocated", False, "IPAddressConflict", "A wished address has another owner."),
    reason(CLAIM, "IPsAllocated", False, "MACAddressConflict", "The wished MAC address has another owner."),
    reason(CLAIM, "IPsAllocated", False, "SubnetExhausted", "The subnet has no free address."),
    reason(CLAIM, "IPsAllocated", False, "InternalError", "The addresses cannot be allocated. The message has the reason."),
    reason(SUBNET, "Validated, Ready", True, "SetPrivateLogicalSwitchSuccess", "The private subnet is used."),
    reason(SUBNET, "Validated, Ready", True, "ResetLogicalSwitchAclSuccess", "The subnet is used."),
    reason(SUBNET, "Validated, Ready", False, "ValidateLogicalSwitchFailed", "A field is wrong, or the ranges overlap those of another Subnet."),
    reason(SUBNET, "Validated, Ready", False, "VpcNotFound", "The Vpc does not exist."),
    reason(SUBNET, "Validated, Ready", False, "NamespaceNotInVpc", "A namespace of the Subnet is not among those of its Vpc."),
    reason(SUBNET, "Validated, Ready", False, "ValidateSubnetVlanFailed", "The Vlan does not exist or cannot be used."),
    reason("Subnet, SwitchLBRule, RouterLBRule", "FieldsAccepted", False, "InvalidField", "A field is left out, and everything else is used."),
    reason(VPC, "Ready", True, "RouterPlanned", "The Vpc has its router."),
    reason(VPC, "ExternalConnected", True, "Connected", "The router has a port on each external Subnet."),
    reason(VPC, "ExternalConnected", False, "ExternalSubnetNotFound", "An external Subnet does not exist or cannot be used."),
    reason(VPC, "ExternalConnected", False, "NoGatewayNodes", "No node has the label of gateways."),
    reason(VPC, "ExternalConnected", False, "ChassisMissing", "Gateway nodes have no chassis id."),
    reason(VPC, "ExternalConnected", False, "AddressExhausted", "An external Subnet has no free address for the router."),
    reason(VPC, "RoutesAccepted", True, "Accepted", "All routes and policies are used."),
    reason(VPC, "RoutesAccepted", False, "InvalidRoute", "A route or another field is left out."),
    reason(VPC, "RoutesAccepted", False, "InvalidPolicy", "A policy is left out."),
    reason(EIP, "Ready", True, "AddressAllocated", "The address is allocated."),
    reason(EIP, "Ready", False, "AddressNotAllocated", "There is no address. The message has the reason."),
    reason("OvnSnatRule, OvnDnatRule, OvnFip", "Ready", True, "Translated", "The rule is in effect."),
    reason(BALANCERS, "Ready", True, "Balanced", "The rule is in effect."),
    reason("OvnSnatRule, OvnDnatRule, OvnFip, SwitchLBRule, RouterLBRule", "Ready", False, "InvalidRule", "A field is wrong, or the target does not exist."),
    reason(RULES, "Ready", False, "EipNotFound", "The OvnEip does not exist."),
    reason(RULES, "Ready", False, "EipNotReady", "The OvnEip has no address."),
    reason(RULES, "Ready", False, "VpcNotConnected", "The Vpc has no port on the OvnEip's Subnet."),
    reason(RULES, "Ready", False, "EipOfOtherVpc", "Another Vpc uses the OvnEip."),
    reason(RULES, "Ready", False, "PortInUse", "Another rule has the address and port."),
    reason(BALANCERS, "Ready", False, "VpcNotFound", "The rule has no Vpc, or the Vpc does not exist."),
    reason(BALANCERS, "Ready", False, "DefaultVpc", "The rule is about the default Vpc, which is not built."),
    reason(BALANCERS, "Ready", False, "NoMachine", "An endpoint is no machine of the Vpc."),
    reason(VIP, "Ready", True, "AddressAllocated", "The address is allocated."),
    reason(VIP, "Ready", False, "AddressNotAllocated", "There is no address."),
    reason(VIP, "Ready", False, "VipNotFound", "The Vip does not exist."),
    reason(VIP, "Ready", False, "InvalidVip", "A field is wrong."),
    reason(VIP, "Ready", False, "SubnetNotReady", "The Subnet does not exist or cannot be used."),
    reason(POOL, "Ready", True, "UpdateIPAMSucceeded", "The addresses are reserved for the pool."),
    reason(POOL, "Ready", False, "UpdateIPAMFailed", "The pool cannot be used. The message has the reason."),
];

const fn reason(
    kinds: &'static str,
    condition: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    meaning: &'static str,
) -> ConditionReason {
    ConditionReason { kinds, condition, status, reason, meaning }
}

/// `true` if a condition may have this status for this reason.
///
/// ```
/// use patchbay_model::condition::{ConditionStatus, is_known_reason};
///
/// assert!(is_known_reason("Ready", ConditionStatus::True, "Balanced"));
/// assert!(!is_known_reason("Ready", ConditionStatus::False, "Balanced"));
/// ```
#[must_use]
pub fn is_known_reason(condition: &str, status: ConditionStatus, reason: &str) -> bool {
    CONDITION_REASONS.iter().any(|known| {
        known.condition.split(", ").any(|one| one == condition)
            && known.status == status
            && known.reason == reason
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    /// Beginning of the document.
    const HEAD: &str = "# Conditions

The conditions of objects, with their reasons. The table is made from the code that sets them.
`patchbay explain` names the condition of an object, and what stops it.

| kinds | condition | status | reason | meaning |
| --- | --- | --- | --- | --- |
";

    #[test]
    fn the_document_lists_all_reasons() {
        let mut expected = HEAD.to_owned();
        for one in CONDITION_REASONS {
            let ConditionReason { kinds, condition, status, reason, meaning } = one;
            let status = status.as_str();
            writeln!(expected, "| {kinds} | {condition} | {status} | {reason} | {meaning} |")
                .unwrap();
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/conditions.md");
        if std::fs::read_to_string(&path).unwrap_or_default() != expected {
            // The file beside it takes its place after a review.
            let new = path.with_extension("md.new");
            std::fs::write(&new, expected).unwrap();
            panic!("docs/reference/conditions.md has other reasons; see {}", new.display());
        }
    }

    #[test]
    fn no_state_is_listed_twice() {
        for (place, one) in CONDITION_REASONS.iter().enumerate() {
            let state = |of: &ConditionReason| (of.kinds, of.condition, of.status, of.reason);
            let mut others = CONDITION_REASONS[..place].iter();
            assert!(!others.any(|other| state(other) == state(one)), "{one:?}");
        }
    }
}
