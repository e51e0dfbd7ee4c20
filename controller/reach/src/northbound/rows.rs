//! Typed rows of the tables that decide on packets.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{
    Acl, AddressSet, Bfd, ChassisTemplateVar, DhcpOptions, Dns, ForwardingGroup, GatewayChassis,
    HaChassis, HaChassisGroup, LoadBalancer, LoadBalancerGroup, LoadBalancerHealthCheck,
    LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
    LogicalSwitchPort, LogicalSwitchPortHealthCheck, Nat, NbGlobal, NetworkFunction,
    NetworkFunctionGroup, PortGroup, QoS, StaticMacBinding,
};
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use super::note::{Notes, RowRef};
use crate::address::Mac;

/// MAC address in place of the one that ovn-northd chooses where `svc_monitor_mac` has none.
const CHOSEN_MAC: Mac = Mac::new([0x02, 0, 0, 0, 0, 0xfe]);

/// Rows of a table by their UUIDs, in the order of the UUIDs.
#[derive(Debug)]
pub(super) struct Rows<T> {
    sorted: Vec<(Uuid, T)>,
    places: HashMap<Uuid, usize, RandomState>,
}

impl<T: TableRow> Rows<T> {
    fn read(snapshot: &Snapshot, notes: &mut Notes) -> Self {
        let table = snapshot.typed::<T>();
        let mut sorted = Vec::with_capacity(table.len());
        for row in table.rows() {
            match table.read(row) {
                Ok(typed) => sorted.push((row.uuid, typed)),
                Err(error) => notes.add(RowRef::new::<T>(row.uuid), error.to_string()),
            }
        }
        sorted.sort_unstable_by_key(|(uuid, _)| *uuid);
        let places = sorted.iter().enumerate().map(|(place, (uuid, _))| (*uuid, place)).collect();
        Self { sorted, places }
    }

    /// The row that a reference names. `None`: a replica lacks it.
    pub(super) fn get(&self, reference: Ref<T>) -> Option<&T> {
        let place = self.places.get(&reference.uuid)?;
        Some(&self.sorted[*place].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Uuid, T)> {
        self.sorted.iter()
    }

    /// The rows that references name, without those that a replica lacks.
    pub(super) fn of<'a>(
        &'a self,
        references: impl IntoIterator<Item = &'a Ref<T>>,
    ) -> impl Iterator<Item = (Uuid, &'a T)> {
        references.into_iter().filter_map(|reference| Some((reference.uuid, self.get(*reference)?)))
    }
}

/// Rows of all tables that decide on packets.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) acls: Rows<Acl>,
    pub(super) address_sets: Rows<AddressSet>,
    pub(super) bfd: Rows<Bfd>,
    pub(super) dhcp_options: Rows<DhcpOptions>,
    pub(super) dns: Rows<Dns>,
    pub(super) forwarding_groups: Rows<ForwardingGroup>,
    pub(super) functions: Rows<NetworkFunction>,
    pub(super) function_groups: Rows<NetworkFunctionGroup>,
    pub(super) gateway_chassis: Rows<GatewayChassis>,
    pub(super) ha_chassis: Rows<HaChassis>,
    pub(super) ha_chassis_groups: Rows<HaChassisGroup>,
    pub(super) health_checks: Rows<LoadBalancerHealthCheck>,
    pub(super) load_balancers: Rows<LoadBalancer>,
    pub(super) load_balancer_groups: Rows<LoadBalancerGroup>,
    pub(super) nats: Rows<Nat>,
    pub(super) policies: Rows<LogicalRouterPolicy>,
    pub(super) port_checks: Rows<LogicalSwitchPortHealthCheck>,
    pub(super) port_groups: Rows<PortGroup>,
    pub(super) qos: Rows<QoS>,
    pub(super) router_ports: Rows<LogicalRouterPort>,
    pub(super) routers: Rows<LogicalRouter>,
    pub(super) static_mac_bindings: Rows<StaticMacBinding>,
    pub(super) static_routes: Rows<LogicalRouterStaticRoute>,
    pub(super) switch_ports: Rows<LogicalSwitchPort>,
    pub(super) switches: Rows<LogicalSwitch>,
    template_variables: Rows<ChassisTemplateVar>,
    globals: Rows<NbGlobal>,
}

impl Tables {
    pub(super) fn read(snapshot: &Snapshot, notes: &mut Notes) -> Self {
        Self {
            acls: Rows::read(snapshot, notes),
            address_sets: Rows::read(snapshot, notes),
            bfd: Rows::read(snapshot, notes),
            dhcp_options: Rows::read(snapshot, notes),
            dns: Rows::read(snapshot, notes),
            forwarding_groups: Rows::read(snapshot, notes),
            functions: Rows::read(snapshot, notes),
            function_groups: Rows::read(snapshot, notes),
            gateway_chassis: Rows::read(snapshot, notes),
            ha_chassis: Rows::read(snapshot, notes),
            ha_chassis_groups: Rows::read(snapshot, notes),
            health_checks: Rows::read(snapshot, notes),
            load_balancers: Rows::read(snapshot, notes),
            load_balancer_groups: Rows::read(snapshot, notes),
            nats: Rows::read(snapshot, notes),
            policies: Rows::read(snapshot, notes),
            port_checks: Rows::read(snapshot, notes),
            port_groups: Rows::read(snapshot, notes),
            qos: Rows::read(snapshot, notes),
            router_ports: Rows::read(snapshot, notes),
            routers: Rows::read(snapshot, notes),
            static_mac_bindings: Rows::read(snapshot, notes),
            static_routes: Rows::read(snapshot, notes),
            switch_ports: Rows::read(snapshot, notes),
            switches: Rows::read(snapshot, notes),
            template_variables: Rows::read(snapshot, notes),
            globals: Rows::read(snapshot, notes),
        }
    }

    /// A boolean option of the database. OVN compares with `true` without regard to case.
    pub(super) fn global_option(&self, key: &str) -> bool {
        self.global_row(key).is_some()
    }

    /// `true` if an option of the database that is set by default is `false`.
    pub(super) fn is_global_false(&self, key: &str) -> bool {
        let mut globals = self.globals.iter();
        globals.any(|(_, global)| {
            let value = global.options.get(key);
            value.is_some_and(|value| value.eq_ignore_ascii_case("false"))
        })
    }

    /// The row with a boolean option of the database. `None`: the option is not set.
    pub(super) fn global_row(&self, key: &str) -> Option<RowRef> {
        let mut globals = self.globals.iter();
        let (uuid, _) = globals.find(|(_, global)| option(&global.options, key))?;
        Some(RowRef::new::<NbGlobal>(*uuid))
    }

    /// MAC address from which OVN sends health checks.
    pub(super) fn monitor_mac(&self) -> Mac {
        let mut globals = self.globals.iter();
        let mac =
            globals.find_map(|(_, global)| Mac::parse(global.options.get("svc_monitor_mac")?));
        mac.unwrap_or(CHOSEN_MAC)
    }

    /// Variables of templates on a chassis. `None`: it has none.
    pub(super) fn variables_of(&self, chassis: &str) -> Option<&BTreeMap<String, String>> {
        let mut rows = self.template_variables.iter().map(|(_, row)| row);
        let row = rows.find(|row| row.chassis == chassis)?;
        Some(&row.variables)
    }

    /// Variables of templates on this chassis, or on the one first by name.
    pub(super) fn guess_variables(
        &self,
        chassis: Option<&str>,
    ) -> Option<&BTreeMap<String, String>> {
        let named = chassis.and_then(|chassis| self.variables_of(chassis));
        let rows = self.template_variables.iter().map(|(_, row)| row);
        let first = rows.min_by_key(|row| &row.chassis);
        named.or(first.map(|row| &row.variables))
    }
}

impl Tables {
    /// The chassis that has a gateway port while all chassis work. `None`: the port has none.
    pub(super) fn active_chassis<'a>(&'a self, port: &'a LogicalRouterPort) -> Option<&'a str> {
        let group = port.ha_chassis_group.and_then(|group| self.ha_chassis_groups.get(group));
        let members = group.into_iter().flat_map(|group| self.ha_chassis.of(&group.ha_chassis));
        let of_group = members.map(|(_, row)| (row.priority, row.chassis_name.as_str()));
        let own = self.gateway_chassis.of(&port.gateway_chassis);
        let of_port = own.map(|(_, row)| (row.priority, row.chassis_name.as_str()));
        Some(of_group.chain(of_port).max_by_key(|(priority, _)| *priority)?.1)
    }

    /// `true` if the variables of templates are not the same on all chassis.
    pub(super) fn has_different_variables(&self) -> bool {
        let mut rows = self.template_variables.iter().map(|(_, row)| &row.variables);
        let first = rows.next();
        rows.any(|other| Some(other) != first)
    }
}

/// A boolean option: `true` if the value is `true`, without regard to case.
pub(super) fn option(options: &BTreeMap<String, String>, key: &str) -> bool {
    options.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
