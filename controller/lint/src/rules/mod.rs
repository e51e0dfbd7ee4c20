//! The table of rules, with one function for each.

mod addresses;
mod attachments;
mod balancers;
mod dns;
mod gateways;
mod live;
mod metallb;
mod nat;
mod objects;
mod peerings;
mod policy_routes;
mod references;
mod routes;
mod rows;
mod tenancy;
mod values;
mod vlans;

use crate::Severity::{self, Error, Note, Warning};
use crate::cluster::Cluster;
use crate::report::Report;

/// Rules after whose violation all objects look ready while nothing flows. No annotation silences
/// them.
const NEVER_SILENCED: [&str; 7] = ["V1", "G1", "G2", "G3", "G4", "N2", "M1"];

/// Origin of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// Documentation of platforms on Kube-OVN.
    Documentation,
    /// Behaviour of Kube-OVN or OVN, found by tests or reported as a bug.
    Behaviour,
}

/// A rule.
pub struct Rule {
    /// Id: a letter for the family, and a number.
    pub id: &'static str,
    /// Severity of the rule's findings.
    pub severity: Severity,
    /// Origin.
    pub source: Source,
    /// Condition under which the rule finds something.
    pub condition: &'static str,
    check: fn(&Cluster<'_>, &mut Report),
}

impl Rule {
    const fn new(
        id: &'static str,
        severity: Severity,
        source: Source,
        condition: &'static str,
        check: fn(&Cluster<'_>, &mut Report),
    ) -> Self {
        Self { id, severity, source, condition, check }
    }

    /// `true` if an annotation of the object silences the rule.
    pub fn can_be_silenced(&self) -> bool {
        !NEVER_SILENCED.contains(&self.id)
    }

    pub(crate) fn check(&self, cluster: &Cluster<'_>, report: &mut Report) {
        (self.check)(cluster, report);
    }
}

use Source::{Behaviour, Documentation};

/// All rules, by family.
pub static RULES: &[Rule] = &[
    Rule::new("O1", Error, Behaviour, "an object that an API server refuses", objects::refused),
    Rule::new(
        "V1",
        Error,
        Documentation,
        "a VLAN id other than 0 on an interface that is a VLAN device",
        vlans::double_tag,
    ),
    Rule::new(
        "V2",
        Warning,
        Documentation,
        "VLAN id 0, and no interface is a VLAN device",
        vlans::missing_tag,
    ),
    Rule::new(
        "V3",
        Error,
        Behaviour,
        "interfaces of one ProviderNetwork of which some are VLAN devices",
        vlans::mixed_interfaces,
    ),
    Rule::new("V4", Error, Behaviour, "one VLAN id twice in a ProviderNetwork", vlans::repeated_id),
    Rule::new(
        "V5",
        Error,
        Behaviour,
        "a reference to a ProviderNetwork or Vlan that does not exist",
        vlans::dangling_reference,
    ),
    Rule::new(
        "V6",
        Error,
        Behaviour,
        "a name of a ProviderNetwork with more than 12 characters",
        vlans::long_name,
    ),
    Rule::new(
        "V7",
        Warning,
        Behaviour,
        "excludeNodes beside nodeSelector",
        vlans::ignored_exclusion,
    ),
    Rule::new(
        "V8",
        Error,
        Documentation,
        "a gateway node without the ProviderNetwork of an external subnet",
        vlans::gateway_without_bridge,
    ),
    Rule::new("V9", Error, Behaviour, "a VLAN id outside of 0 to 4095", vlans::impossible_id),
    Rule::new(
        "G1",
        Error,
        Documentation,
        "enableExternal without the external subnet",
        gateways::missing_external,
    ),
    Rule::new(
        "G2",
        Error,
        Documentation,
        "an external subnet that cannot serve enableExternal",
        gateways::unsuitable_external,
    ),
    Rule::new(
        "G3",
        Error,
        Documentation,
        "enableExternal without a gateway node",
        gateways::no_gateway_node,
    ),
    Rule::new(
        "G4",
        Error,
        Documentation,
        "gateway labels that a restart of Kube-OVN's controller removes",
        gateways::label_stripper,
    ),
    Rule::new(
        "G5",
        Warning,
        Documentation,
        "a manifest of the default VPC with more than extraExternalSubnets",
        gateways::default_vpc_fields,
    ),
    Rule::new(
        "G6",
        Error,
        Behaviour,
        "a gateway node without a chassis",
        gateways::gateway_without_chassis,
    ),
    Rule::new("G7", Warning, Behaviour, "a single gateway node", gateways::single_gateway),
    Rule::new(
        "G8",
        Warning,
        Behaviour,
        "gateway chassis of a VPC that are not those of the labels",
        rows::former_gateways,
    ),
    Rule::new(
        "G9",
        Note,
        Behaviour,
        "gatewayType of an underlay subnet without logicalGateway",
        gateways::ignored_gateway_type,
    ),
    Rule::new(
        "G10",
        Note,
        Documentation,
        "an external subnet without reserved addresses",
        gateways::no_reserved_address,
    ),
    Rule::new(
        "G11",
        Note,
        Behaviour,
        "an external VPC on fewer than three nodes",
        gateways::no_third_chassis,
    ),
    Rule::new(
        "N1",
        Error,
        Documentation,
        "a subnet without its attachment definition, or the reverse",
        attachments::unmatched_provider,
    ),
    Rule::new(
        "N2",
        Error,
        Documentation,
        "an attachment definition with another provider than its name",
        attachments::wrong_provider,
    ),
    Rule::new("N3", Error, Behaviour, "one provider of two subnets", attachments::shared_provider),
    Rule::new(
        "N4",
        Error,
        Behaviour,
        "a provider that Kube-OVN does not read as its own",
        attachments::unreadable_provider,
    ),
    Rule::new(
        "N5",
        Error,
        Behaviour,
        "a configuration of an attachment definition that cannot be used",
        attachments::unusable_config,
    ),
    Rule::new(
        "N6",
        Error,
        Behaviour,
        "an attachment definition in a namespace that is not of the VPC",
        attachments::foreign_definition,
    ),
    Rule::new(
        "N7",
        Warning,
        Behaviour,
        "a subnet with the provider ovn where Kube-OVN is not the primary CNI",
        attachments::unreachable_subnet,
    ),
    Rule::new(
        "N8",
        Error,
        Behaviour,
        "an IP family that a pod cannot have",
        addresses::wrong_family,
    ),
    Rule::new(
        "N9",
        Error,
        Behaviour,
        "a static address that cannot be used, or that is wanted twice",
        addresses::unusable_wish,
    ),
    Rule::new(
        "N10",
        Error,
        Behaviour,
        "a VpcNatGateway whose outside has no attachment definition",
        attachments::missing_outside,
    ),
    Rule::new(
        "N11",
        Error,
        Behaviour,
        "a Vip or IPPool in a subnet that does not exist",
        references::missing_subnet,
    ),
    Rule::new(
        "N12",
        Error,
        Behaviour,
        "a pod that names a Vip that it cannot have",
        references::missing_virtual_ip,
    ),
    Rule::new(
        "N13",
        Error,
        Behaviour,
        "an address of two IPPools",
        references::shared_pool_address,
    ),
    Rule::new(
        "T1",
        Error,
        Documentation,
        "a subnet of a VPC whose name does not begin with tenant and cluster",
        tenancy::subnet_names,
    ),
    Rule::new(
        "T2",
        Warning,
        Behaviour,
        "an object of a VPC whose name does not begin with the tenant",
        tenancy::tenant_prefixes,
    ),
    Rule::new(
        "T3",
        Error,
        Documentation,
        "a namespace that is not of the VPC, or of two VPCs",
        tenancy::foreign_namespace,
    ),
    Rule::new(
        "T4",
        Error,
        Behaviour,
        "a pod in a VPC that does not list its namespace",
        tenancy::foreign_pod,
    ),
    Rule::new(
        "T5",
        Warning,
        Documentation,
        "an external VPC without a policy that drops packets to the external range",
        tenancy::no_wall,
    ),
    Rule::new(
        "T6",
        Error,
        Behaviour,
        "one name of two ports, or of a VPC and a subnet",
        peerings::colliding_names,
    ),
    Rule::new(
        "T7",
        Error,
        Behaviour,
        "a NAT rule with an external address of another VPC",
        nat::foreign_eip,
    ),
    Rule::new(
        "T8",
        Error,
        Behaviour,
        "subnets of one VPC with common addresses",
        tenancy::overlapping_subnets,
    ),
    Rule::new(
        "T9",
        Warning,
        Behaviour,
        "a route through a peer to a peer of the peer",
        peerings::through_a_peer,
    ),
    Rule::new(
        "T10",
        Warning,
        Behaviour,
        "a private subnet of an external VPC",
        tenancy::private_subnet,
    ),
    Rule::new(
        "T11",
        Warning,
        Behaviour,
        "a policy before the one that drops packets to the external range",
        tenancy::opened_wall,
    ),
    Rule::new(
        "T12",
        Error,
        Behaviour,
        "a port whose security groups all do not exist",
        tenancy::missing_groups,
    ),
    Rule::new("T13", Note, Behaviour, "a SecurityGroup that no port has", references::unused_group),
    Rule::new(
        "T14",
        Error,
        Behaviour,
        "a rule about a SecurityGroup that does not exist",
        references::missing_remote_group,
    ),
    Rule::new(
        "P1",
        Error,
        Behaviour,
        "a next hop that is in no network of the router",
        routes::unreachable_next_hop,
    ),
    Rule::new(
        "P2",
        Warning,
        Documentation,
        "enableExternal without a default route",
        routes::no_default_route,
    ),
    Rule::new(
        "P3",
        Warning,
        Behaviour,
        "a default route into the external subnet, but not to its gateway",
        routes::other_gateway,
    ),
    Rule::new(
        "P4",
        Warning,
        Behaviour,
        "one route with several next hops",
        routes::several_next_hops,
    ),
    Rule::new(
        "P5",
        Error,
        Behaviour,
        "a policy that Kube-OVN or OVN refuses",
        policy_routes::invalid_policy,
    ),
    Rule::new("P6", Error, Behaviour, "a match that OVN refuses", policy_routes::invalid_match),
    Rule::new(
        "P7",
        Warning,
        Behaviour,
        "a policy with a priority of the platform",
        policy_routes::reserved_priority,
    ),
    Rule::new(
        "P8",
        Warning,
        Behaviour,
        "a policy with next hops for packets without a route",
        policy_routes::unrouted_policy,
    ),
    Rule::new(
        "P9",
        Warning,
        Behaviour,
        "a source route before a route by destination",
        routes::source_before_destination,
    ),
    Rule::new(
        "P10",
        Error,
        Behaviour,
        "a peering that the other side does not match",
        peerings::one_sided,
    ),
    Rule::new(
        "P11",
        Note,
        Behaviour,
        "an external VPC whose machines the provider network reaches",
        peerings::open_nat,
    ),
    Rule::new(
        "P12",
        Warning,
        Behaviour,
        "several next hops, between which connections of one client change",
        routes::changing_next_hop,
    ),
    Rule::new(
        "P13",
        Error,
        Behaviour,
        "source routes with common addresses, where ovn-northd is Kube-OVN's",
        routes::tied_source_routes,
    ),
    Rule::new(
        "P14",
        Warning,
        Behaviour,
        "a next hop whose own packets come back to it",
        policy_routes::looped_next_hop,
    ),
    Rule::new("A1", Error, Behaviour, "two SNAT rules for one row", nat::equal_snat),
    Rule::new(
        "A2",
        Error,
        Behaviour,
        "a NAT rule in a VPC without a port on the external subnet",
        nat::unconnected_rule,
    ),
    Rule::new(
        "A3",
        Error,
        Behaviour,
        "a port or address with two DNAT rules or floating addresses",
        nat::taken_port,
    ),
    Rule::new(
        "A4",
        Error,
        Behaviour,
        "a wished external address that cannot be used",
        nat::unusable_eip,
    ),
    Rule::new(
        "A5",
        Error,
        Documentation,
        "a NAT rule whose external address does not exist",
        nat::missing_eip,
    ),
    Rule::new(
        "A6",
        Warning,
        Behaviour,
        "a subnet of an external VPC without a SNAT rule",
        nat::no_snat,
    ),
    Rule::new(
        "A7",
        Error,
        Behaviour,
        "two SNAT rules with one source and external addresses of one subnet",
        nat::ambiguous_snat,
    ),
    Rule::new(
        "B1",
        Error,
        Behaviour,
        "one address and port of two load balancers of a VPC",
        balancers::claimed_twice,
    ),
    Rule::new(
        "B2",
        Warning,
        Behaviour,
        "one address and port with health checks in two VPCs",
        balancers::shared_health_check,
    ),
    Rule::new(
        "B3",
        Warning,
        Behaviour,
        "a port of an external address for two protocols",
        balancers::equal_numbers,
    ),
    Rule::new(
        "B4",
        Warning,
        Behaviour,
        "a RouterLBRule in a VPC with other load balancers",
        balancers::opened_balancers,
    ),
    Rule::new(
        "B5",
        Error,
        Behaviour,
        "a load balancer in a VPC that does not exist",
        references::balancer_without_vpc,
    ),
    Rule::new(
        "B6",
        Error,
        Behaviour,
        "a rule with two ports of one name or number",
        references::equal_ports,
    ),
    Rule::new(
        "M1",
        Error,
        Documentation,
        "a pool of MetalLB on a provider network",
        metallb::pool_on_provider_network,
    ),
    Rule::new(
        "M2",
        Error,
        Documentation,
        "an announcement of MetalLB on an interface of a provider network",
        metallb::announced_on_provider_nic,
    ),
    Rule::new(
        "M3",
        Warning,
        Behaviour,
        "a pool that is never announced, or that overlaps another one",
        metallb::unused_pool,
    ),
    Rule::new(
        "M4",
        Warning,
        Behaviour,
        "a pool that is in no network of the nodes",
        metallb::unanswered_pool,
    ),
    Rule::new("M5", Error, Behaviour, "a pool with an address that is in use", metallb::taken_pool),
    Rule::new(
        "M6",
        Warning,
        Behaviour,
        "a pool without a peer of BGP, or announced in two ways",
        metallb::unsent_pool,
    ),
    Rule::new(
        "C1",
        Error,
        Documentation,
        "a required chart value that is missing",
        values::required_values,
    ),
    Rule::new(
        "C2",
        Error,
        Documentation,
        "svcCidr that is not the range of the API server",
        values::other_service_range,
    ),
    Rule::new(
        "C3",
        Error,
        Behaviour,
        "ranges of the cluster with common addresses",
        values::overlapping_ranges,
    ),
    Rule::new(
        "C4",
        Warning,
        Behaviour,
        "a subnet of a VPC in the range of services",
        values::subnet_in_service_range,
    ),
    Rule::new(
        "C5",
        Error,
        Behaviour,
        "podGateway or joinCidr that does not fit",
        values::unfit_values,
    ),
    Rule::new(
        "C6",
        Warning,
        Behaviour,
        "tunnels on the interface of a ProviderNetwork",
        values::tunnel_on_provider_nic,
    ),
    Rule::new("C7", Warning, Behaviour, "tunnels of the type vxlan", values::vxlan),
    Rule::new(
        "C8",
        Error,
        Behaviour,
        "a node without the interface of tunnels",
        values::missing_nic,
    ),
    Rule::new(
        "C9",
        Error,
        Behaviour,
        "joinCidr that is not the range of the subnet join",
        values::other_join_range,
    ),
    Rule::new(
        "F1",
        Warning,
        Behaviour,
        "Flannel beside Kube-OVN as primary CNI",
        values::two_primary_networks,
    ),
    Rule::new(
        "F2",
        Error,
        Behaviour,
        "host-gw with nodes in several networks",
        values::host_gateways,
    ),
    Rule::new(
        "F3",
        Error,
        Behaviour,
        "a network of Flannel other than podCidr",
        values::other_flannel_network,
    ),
    Rule::new(
        "D1",
        Error,
        Behaviour,
        "a name server that machines do not reach",
        dns::unreachable_server,
    ),
    Rule::new("D2", Note, Behaviour, "DHCP without a name server", dns::no_server),
    Rule::new("D3", Error, Behaviour, "a VpcDns that never becomes active", dns::inactive_server),
    Rule::new(
        "D4",
        Error,
        Behaviour,
        "a VpcDns where Kube-OVN is not the primary CNI",
        dns::unattached_server,
    ),
    Rule::new(
        "D5",
        Warning,
        Behaviour,
        "a name in the DNS of an address that clients do not reach",
        dns::unreachable_name,
    ),
    Rule::new(
        "K1",
        Error,
        Behaviour,
        "rows that Kube-OVN's controller deletes when it starts",
        rows::doomed_rows,
    ),
    Rule::new(
        "K2",
        Error,
        Behaviour,
        "load balancers that Kube-OVN's controller deletes when it starts",
        rows::doomed_balancers,
    ),
    Rule::new(
        "K3",
        Warning,
        Behaviour,
        "a policy that Kube-OVN's controller deletes",
        rows::doomed_policies,
    ),
    Rule::new("K4", Error, Behaviour, "rows of two controllers", rows::two_controllers),
    Rule::new(
        "R1",
        Error,
        Behaviour,
        "a source route to a subnet's own gateway",
        rows::own_gateway_route,
    ),
    Rule::new(
        "R2",
        Warning,
        Behaviour,
        "a row without its rule, or a rule without its row",
        rows::unmatched_rows,
    ),
    Rule::new(
        "R3",
        Error,
        Behaviour,
        "an external address or NAT rule whose deletion was forgotten",
        live::forgotten_deletion,
    ),
    Rule::new(
        "R4",
        Warning,
        Behaviour,
        "a Vlan that Kube-OVN does not look at again",
        live::stuck_vlan,
    ),
    Rule::new(
        "R5",
        Warning,
        Behaviour,
        "a change of a NAT rule that its row does not have",
        live::ignored_change,
    ),
];
