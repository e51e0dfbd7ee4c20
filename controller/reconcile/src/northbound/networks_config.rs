//! The part of a Northbound database on which the rows of networks, and connects, depend.

use patchbay_engine::client::{Config, Remotes};
use patchbay_schemas::nb::{
    Acl, AddressSet, Copp, DhcpOptions, GatewayChassis, LoadBalancer, LoadBalancerGroup,
    LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
    LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup, QoS, StaticMacBinding,
};

use super::{BULK_ROWS, DATABASE};

/// Returns the configuration of a client whose replica has what
/// [`ZoneReconciler`](crate::zone::ZoneReconciler) reads, connects included: all rows of the tables
/// that its controllers write.
pub fn networks_config(remotes: Remotes) -> Config {
    let mut config = Config::new(remotes, DATABASE);
    config.bulk_rows = Some(BULK_ROWS);
    config
        .with_table::<Acl>()
        .with_table::<AddressSet>()
        .with_table::<Copp>()
        .with_table::<DhcpOptions>()
        .with_table::<GatewayChassis>()
        .with_table::<LoadBalancer>()
        .with_table::<LoadBalancerGroup>()
        .with_table::<LogicalRouter>()
        .with_table::<LogicalRouterPolicy>()
        .with_table::<LogicalRouterPort>()
        .with_table::<LogicalRouterStaticRoute>()
        .with_table::<LogicalSwitch>()
        .with_table::<LogicalSwitchPort>()
        .with_table::<Meter>()
        .with_table::<MeterBand>()
        .with_table::<Nat>()
        .with_table::<PortGroup>()
        .with_table::<QoS>()
        .with_table::<StaticMacBinding>()
}
