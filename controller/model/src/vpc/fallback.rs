//! Routes of subnets to their own gateways.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format_net;

use super::DEFAULT_VPC;
use super::router::StaticRoute;
use super::scene::VpcScene;

impl VpcScene {
    /// A route by source from each range of a subnet in a custom VPC to its own gateway. Only the
    /// ovn-northd of Kube-OVN ranks them below the other routes.
    pub fn fallback_routes(&self) -> BTreeMap<Arc<str>, Vec<StaticRoute>> {
        let mut found: BTreeMap<Arc<str>, Vec<StaticRoute>> = BTreeMap::new();
        let names = self.objects.subnets.keys();
        let usable = names.filter_map(|name| self.usable_subnet(name).ok());
        for subnet in usable.filter(|subnet| &*subnet.vpc != DEFAULT_VPC) {
            let routes = subnet.nets.iter().map(|net| StaticRoute {
                is_of_source: true,
                prefix: format_net(net.net),
                next_hop: net.gateway,
                table: subnet.route_table.clone(),
            });
            found.entry(subnet.vpc.clone()).or_default().extend(routes);
        }
        found
    }
}
