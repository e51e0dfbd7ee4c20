//! ACLs and address sets that drop traffic between pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::NetworkId;
use patchbay_model::external_ids::key;
use patchbay_zone::Cell;
use smol_str::SmolStr;

use crate::capability::{Connects, Rows};
use crate::desired::{self, IsolationRows};
use crate::shared::{AnnotatedNetwork, ConnectReader, RetainedNetwork};
use crate::tables::{AclRow, PASS_OWN};

/// Number of the steps that drop traffic on switches. They come after those that let traffic within
/// networks pass, whose numbers are network ids, and all at once.
const DROPS: u32 = 1 << 16;

/// An ACL with the switches that have it.
struct WantedAcl<'r> {
    row: &'r AclRow,
    /// `None`: an ACL of all switches.
    network: Option<NetworkId>,
    switches: BTreeSet<String>,
}

impl Connects {
    pub(crate) fn isolation(&self, name: &SmolStr, reader: &ConnectReader<'_>, rows: &mut Rows) {
        reader.read(&Cell::Zone);
        reader.read(&Cell::LocalNode);
        let inputs = reader.read(&Cell::Connect(name.clone()));
        let Some(connect) = inputs.connect(name) else {
            return;
        };
        let networks = Self::networks(name, reader);
        let members = networks.values().filter_map(|network| network.member.as_ref());
        let Some(mut wanted) = desired::isolation(connect, members, inputs) else {
            return;
        };
        let retained = Self::retained_rows(name, &networks, reader);
        if retained.is_linked {
            self.keep_addresses(&mut wanted, reader);
        }
        for set in &wanted.address_sets {
            rows.put(self.tables.address_sets, set);
        }
        let mut acls = wanted_acls(&wanted);
        let kept = self.acls_of_retained(&retained, &mut acls, reader);
        for acl in &acls {
            let mut added = rows.put(self.tables.acls, acl.row);
            for switch in &acl.switches {
                added.held_by(self.tables.switch_acls, switch.as_str());
            }
            match acl.network {
                Some(network) => added.phases(PASS_OWN).together(network.get().into()),
                None => added.together(DROPS),
            };
        }
        for (row, switches) in &kept {
            let mut added = rows.put(self.tables.acls, row);
            for switch in switches {
                added.held_by(self.tables.switch_acls, switch.as_str());
            }
        }
    }

    /// Adds the addresses that the sets have, because those of unknown networks are among them.
    fn keep_addresses(&self, wanted: &mut IsolationRows, reader: &ConnectReader<'_>) {
        for set in &mut wanted.address_sets {
            let row = reader.row(self.tables.address_sets, &set.name);
            let there = row.and_then(|row| row.column("addresses"));
            let addresses = there.and_then(|there| there.as_set()).into_iter().flatten();
            set.addresses.extend(addresses.filter_map(|atom| Some(atom.as_str()?.to_owned())));
        }
    }

    /// Adds the switches of unknown networks to the ACLs that they have. Returns their other ACLs:
    /// these stay on these switches alone.
    fn acls_of_retained(
        &self,
        retained: &RetainedNetwork,
        wanted: &mut [WantedAcl<'_>],
        reader: &ConnectReader<'_>,
    ) -> Vec<(AclRow, BTreeSet<String>)> {
        let mut kept = Vec::new();
        if retained.switches.is_empty() {
            return kept;
        }
        for row in reader.owned().filter(|row| row.is_of(self.tables.acls)) {
            let holders = reader.holders(self.tables.switch_acls, row);
            let switches: BTreeSet<String> = holders
                .map(|switch| switch.name().to_owned())
                .filter(|name| retained.switches.contains(name))
                .collect();
            if switches.is_empty() {
                continue;
            }
            let id = row.view().external_id(key::ID);
            let mut same = wanted
                .iter_mut()
                .filter(|acl| acl.row.external_ids.get(key::ID).map(String::as_str) == id);
            if let Some(acl) = same.next() {
                acl.switches.extend(switches);
            } else if let Ok(acl) = reader.typed::<AclRow>(row.view()) {
                kept.push((acl, switches));
            }
        }
        kept
    }

    /// Rows that all unknown networks of a connect keep.
    pub(crate) fn retained_rows(
        connect: &SmolStr,
        networks: &BTreeMap<NetworkId, Arc<AnnotatedNetwork>>,
        reader: &ConnectReader<'_>,
    ) -> RetainedNetwork {
        let retained = networks.iter().filter(|(_, network)| network.is_retained());
        let mut all = RetainedNetwork::default();
        for (id, _) in retained {
            let of_network = Self::retained(connect, *id, reader);
            all.is_linked |= of_network.is_linked;
            all.switches.extend(of_network.switches.iter().cloned());
        }
        all
    }
}

fn wanted_acls(rows: &IsolationRows) -> Vec<WantedAcl<'_>> {
    let all = || rows.switches.iter().map(|switch| switch.name.clone());
    let shared =
        rows.shared.iter().map(|row| WantedAcl { row, network: None, switches: all().collect() });
    let own = rows.switches.iter().map(|switch| WantedAcl {
        row: &switch.pass_own,
        network: Some(switch.network),
        switches: [switch.name.clone()].into(),
    });
    own.chain(shared).collect()
}
