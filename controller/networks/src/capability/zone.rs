//! Rows of a zone that are of no network, or of all.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{Feature, IpFamily};
use patchbay_rows::Reader;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::AddressSet;
use patchbay_zone::{Cell, ZoneObjects};

use super::{Rows, Shared, SharedKey, Topologies, read_node};
use crate::tables::PortsOfRouters;
use crate::views::{host_addresses, isolated_ports_of, router_side_port};
use crate::{advertised, copp, meters};

impl Topologies {
    pub(super) fn shared(&self, rows: &mut Rows) {
        let tables = &self.tables;
        let meters = meters();
        for made in &meters {
            rows.put(tables.meters, &made.meter);
        }
        for of_one_rate in meters.chunk_by(|one, next| one.band == next.band) {
            let mut band = rows.put(tables.bands, &of_one_rate[0].band);
            for made in of_one_rate {
                band.held_by(tables.meter_bands, made.meter.name.as_str());
            }
        }
        rows.put(tables.copps, &copp());
    }

    pub(super) fn services(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let settings = reader.read(&Cell::Zone).settings();
        let shared = reader.shared(&SharedKey::Services);
        let Shared::Services(services) = &*shared else {
            return;
        };
        for set in services.address_sets(settings) {
            rows.put(self.tables.address_sets, &set);
        }
    }

    pub(super) fn isolation(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::Zone);
        read_node(reader, inputs.zone());
        let made = isolated_ports_of(inputs);
        if made.is_none() || self.is_shared_database(reader) {
            rows.keep_rest();
        }
        if let Some(group) = made {
            self.port_group(&group, reader, rows);
        }
    }

    /// Prefixes of the advertised networks.
    fn advertised_networks<'a>(
        &self,
        inputs: &'a ZoneObjects,
        reader: &Reader<'a, Self>,
    ) -> Vec<&'a Arc<str>> {
        let is_on = inputs.settings().has_feature(Feature::RouteAdvertisements);
        let prefixes = prefixes(inputs).filter(|_| is_on);
        prefixes.filter(|prefix| self.is_advertised(prefix, reader)).collect()
    }

    /// Address sets of nodes. Once they are there, they stay.
    pub(super) fn hosts(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::Networks);
        let has = |feature| inputs.settings().has_feature(feature);
        let is_on = has(Feature::RouteAdvertisements) || has(Feature::EgressIp);
        if self.is_shared_database(reader) || !is_on {
            rows.keep_rest();
            return;
        }
        let is_used =
            has(Feature::EgressIp) || !self.advertised_networks(inputs, reader).is_empty();
        if !is_used && reader.owned().next().is_none() {
            return;
        }
        let addresses = host_addresses(reader.read(&Cell::NodeAddresses));
        for family in inputs.families() {
            let set = advertised::node_addresses_set(family, &addresses);
            rows.put(self.tables.address_sets, &set);
        }
    }

    /// Subnets of networks that have gone stay until the controller starts again, as in
    /// OVN-Kubernetes.
    pub(super) fn advertised(&self, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let inputs = reader.read(&Cell::Networks);
        let is_on = inputs.settings().has_feature(Feature::RouteAdvertisements);
        if self.is_shared_database(reader) {
            rows.keep_rest();
            return;
        }
        if !is_on || !reader.has_column(tables.acls, "tier") {
            return;
        }
        let prefixes = self.advertised_networks(inputs, reader);
        // Networks that the inputs do not name stay isolated from each other.
        let is_partial = reader.scope().is_some();
        let known: BTreeSet<String> = subnets(inputs, self::prefixes(inputs));
        let advertised: BTreeSet<String> = subnets(inputs, prefixes.iter().copied());
        for family in inputs.families() {
            let name = advertised::subnets_name(family);
            let former = reader
                .row(tables.address_sets, &name)
                .and_then(|row| reader.typed::<AddressSet>(row).ok())
                .map(|set| set.addresses)
                .unwrap_or_default();
            let left = former.into_iter().filter(|subnet| {
                !known.contains(subnet)
                    && (is_partial || subnet.parse().is_ok_and(|subnet| inputs.had_subnet(subnet)))
            });
            let of_family = advertised.iter().filter(|subnet| {
                let subnet = subnet.parse::<IpNet>();
                subnet.is_ok_and(|subnet| IpFamily::of_net(subnet) == family)
            });
            let addresses = of_family.cloned().chain(left).collect();
            let set = advertised::subnets_set(family, addresses);
            rows.put(tables.address_sets, &set);
        }
        let ports = prefixes.iter().filter_map(|prefix| {
            let name = router_side_port(inputs, prefix)?;
            Some(reader.row(tables.switch_ports, &name)?.uuid())
        });
        let group = advertised::port_group();
        let former = reader
            .row(tables.router_ports_groups, group.name.as_str())
            .filter(|_| is_partial)
            .and_then(|row| row.column("ports"))
            .into_iter()
            .flat_map(Datum::atoms)
            .filter_map(Atom::as_uuid);
        rows.put(
            tables.router_ports_groups,
            &PortsOfRouters {
                name: group.name.clone(),
                ports: ports.chain(former).collect(),
                external_ids: group.external_ids,
            },
        );
        rows.put(tables.acls, &advertised::drop_acl(inputs.settings()))
            .held_by(tables.acls_of_router_ports, group.name.as_str());
    }
}

/// Prefixes of the names of all networks' rows.
fn prefixes(inputs: &ZoneObjects) -> impl Iterator<Item = &Arc<str>> {
    inputs.networks().map(|(prefix, _)| prefix)
}

/// Subnets of the pods of networks.
fn subnets<'a>(
    inputs: &ZoneObjects,
    prefixes: impl Iterator<Item = &'a Arc<str>>,
) -> BTreeSet<String> {
    let networks = prefixes.filter_map(|prefix| inputs.network(prefix));
    let subnets = networks.flat_map(|network| network.kind.pod_subnets());
    subnets.map(|subnet| subnet.to_string()).collect()
}
