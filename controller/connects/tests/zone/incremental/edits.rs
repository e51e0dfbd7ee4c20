//! Edits of connect rows by another client.

use patchbay_schemas::nb::{
    AddressSet, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalSwitch,
};
use proptest::prelude::*;

use crate::world::World;

/// Edit of a connect row by another client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    Port,
    PortOwner,
    PortNetwork,
    Route,
    RouteTwice,
    RouteAway,
    Policy,
    Router,
    RouterOwner,
    RouterAway,
    PortsAway,
    PortsMoved,
    Acls,
    AddressSet,
    AddressSetOwner,
    Group,
}

pub(super) fn edit() -> impl Strategy<Value = Edit> {
    prop::sample::select(vec![
        Edit::Port,
        Edit::PortOwner,
        Edit::PortNetwork,
        Edit::Route,
        Edit::RouteTwice,
        Edit::RouteAway,
        Edit::Policy,
        Edit::Router,
        Edit::RouterOwner,
        Edit::RouterAway,
        Edit::PortsAway,
        Edit::PortsMoved,
        Edit::Acls,
        Edit::AddressSet,
        Edit::AddressSetOwner,
        Edit::Group,
    ])
}

pub(super) fn edit_row(world: &mut World, place: usize, what: Edit) {
    match what {
        Edit::Port => world.edit_nth::<LogicalRouterPort>(place, |port| port.mac.push('0')),
        Edit::PortOwner => {
            world.edit_nth::<LogicalRouterPort>(place, |port| port.external_ids.clear());
        }
        Edit::PortNetwork => world.edit_nth::<LogicalRouterPort>(place, |port| {
            port.external_ids.insert("network-id".to_owned(), "77".to_owned());
        }),
        Edit::Route => world.edit_nth::<LogicalRouterStaticRoute>(place, |route| {
            "192.0.2.1".clone_into(&mut route.nexthop);
            route.external_ids.insert("node-id".to_owned(), "x".to_owned());
        }),
        Edit::RouteTwice => {
            let routes = world.rows::<LogicalRouterStaticRoute>();
            let is_there = world.names::<LogicalRouter>().contains(&"connect_router_c".to_owned());
            if !routes.is_empty() && is_there {
                let route = routes[place % routes.len()].clone();
                world.insert_held::<LogicalRouter, _>(
                    "connect_router_c",
                    &route,
                    |router, route| {
                        router.static_routes.insert(route);
                    },
                );
            }
        }
        Edit::RouteAway => world.edit_nth::<LogicalRouter>(place, |router| {
            router.static_routes.pop_first();
        }),
        Edit::Policy => world.edit_nth::<LogicalRouterPolicy>(place, |policy| {
            policy.priority = 1;
            policy.external_ids.insert("k8s.ovn.org/id".to_owned(), "x".to_owned());
        }),
        Edit::Router => world.edit_nth::<LogicalRouter>(place, |router| {
            router.options.insert("requested-tnl-key".to_owned(), "9".to_owned());
        }),
        Edit::RouterOwner => {
            world.edit_nth::<LogicalRouter>(place, |router| router.external_ids.clear());
        }
        Edit::RouterAway => {
            if world.names::<LogicalRouter>().contains(&"connect_router_c".to_owned()) {
                world.delete::<LogicalRouter>("connect_router_c");
            }
        }
        Edit::PortsAway => world.edit_nth::<LogicalRouter>(place, |router| {
            router.ports.clear();
            router.policies.clear();
        }),
        Edit::PortsMoved => {
            let routers = world.names::<LogicalRouter>();
            if routers.len() > 1 {
                let from = &routers[place % routers.len()];
                let to = &routers[(place + 1) % routers.len()];
                world.move_ports(from, to);
            }
        }
        Edit::Acls => world.edit_nth::<LogicalSwitch>(place, |switch| {
            switch.acls.pop_first();
        }),
        Edit::AddressSet => world.edit_nth::<AddressSet>(place, |set| {
            set.addresses.insert("192.0.2.0/24".to_owned());
            set.addresses.pop_first();
        }),
        Edit::AddressSetOwner => {
            world.edit_nth::<AddressSet>(place, |set| set.external_ids.clear());
        }
        Edit::Group => world.edit_nth::<LogicalSwitch>(place, |switch| {
            switch.load_balancer_group.clear();
        }),
    }
}
