//! Networks on an EVPN fabric: their VTEPs, and the VLAN ids and VNIs of their VRFs.

use std::collections::BTreeMap;
use std::fmt;

use patchbay_model::config_check::user_defined_config;
use patchbay_model::{ClusterSettings, CniEvpn, CniVrf, Feature, GatewayMode};
use patchbay_resources::manifests::{Inventory, RefusedObject};
use patchbay_resources::object::{Object as _, VTEP};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, EvpnConfig, Transport, VrfConfig};
use thiserror::Error;

use super::definition::own_definitions;
use crate::cursor::Cursor;

/// Type of the condition of a VTEP that networks may use.
const ACCEPTED: &str = "Accepted";
/// VLAN ids of networks. 0 is reserved (IEEE 802.1Q), and 1 is the default VLAN of many switches.
const VLAN_IDS: std::ops::RangeInclusive<u32> = 2..=4094;

/// Reason why a network on a fabric cannot be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum EvpnProblem {
    /// The cluster does not run the feature.
    Config(&'static str),
    /// The VTEP of this name does not exist.
    VtepMissing(String),
    /// VTEPs cannot be listed or decoded, so the one of this name is not known.
    VtepUnknown(String),
    /// The VTEP of this name is not accepted.
    VtepNotAccepted(String),
}

/// Reason why a network gets no VLAN ids. Texts are those of OVN-Kubernetes.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum EvpnIdError {
    #[error("failed to reserve VNIs: {}", .0.join("\n"))]
    Vnis(Vec<String>),
    #[error("failed to allocate VID for {vrf}: failed to allocate the id for the resource {owner}")]
    NoVlanId { vrf: &'static str, owner: String },
}

/// VRF of a network.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Vrf {
    Mac,
    Ip,
}

impl Vrf {
    fn name(self) -> &'static str {
        match self {
            Self::Mac => "MAC-VRF",
            Self::Ip => "IP-VRF",
        }
    }
}

impl fmt::Display for Vrf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mac => "macvrf",
            Self::Ip => "ipvrf",
        })
    }
}

/// VLAN ids and VNIs of networks, which definitions keep over a restart.
#[derive(Clone, Debug, Default)]
pub(super) struct FabricIds {
    /// By name of the ClusterUserDefinedNetwork.
    vlans: BTreeMap<(String, Vrf), u16>,
    /// Names of ClusterUserDefinedNetworks, by VTEP and VNI.
    vnis: BTreeMap<(String, u32), String>,
    cursor: Cursor,
}

/// Looks for the reason why a network on a fabric cannot be. `None`: it can, or it is on none.
pub(super) fn problem(
    cudn: &ClusterUserDefinedNetwork,
    inventory: &Inventory,
    settings: &ClusterSettings,
) -> Option<EvpnProblem> {
    let network = &cudn.spec.network;
    if network.transport != Some(Transport::Evpn) {
        return None;
    }
    if !settings.has_feature(Feature::Evpn) || !settings.has_feature(Feature::RouteAdvertisements) {
        let problem = "EVPN transport requested but EVPN feature is not enabled";
        return Some(EvpnProblem::Config(problem));
    }
    if settings.gateway_mode != GatewayMode::Local {
        let problem =
            "EVPN transport requested but EVPN feature is only supported in local gateway mode";
        return Some(EvpnProblem::Config(problem));
    }
    let name = &network.evpn.as_ref()?.vtep;
    let Some(vtep) = inventory.vteps.named(name) else {
        return Some(if inventory.lacks(&[VTEP::KIND]) {
            EvpnProblem::VtepUnknown(name.clone())
        } else {
            EvpnProblem::VtepMissing(name.clone())
        });
    };
    let mut conditions = vtep.status.iter().flat_map(|status| &status.conditions);
    let is_accepted = conditions.any(|one| one.type_ == ACCEPTED && one.status == "True");
    (!is_accepted).then(|| EvpnProblem::VtepNotAccepted(name.clone()))
}

/// Refuses networks that have no definition yet, because their VTEP cannot be read. They keep their
/// place among the ids, and their rows.
pub(super) fn refuse_networks(inventory: &mut Inventory, settings: &ClusterSettings) {
    let cudns = inventory.cluster_user_defined_networks.iter();
    let without_vtep = cudns.filter_map(|(key, sourced)| {
        let cudn = &sourced.object;
        let Some(EvpnProblem::VtepUnknown(vtep)) = problem(cudn, inventory, settings) else {
            return None;
        };
        let refused = || RefusedObject {
            kind: ClusterUserDefinedNetwork::KIND,
            key: key.clone(),
            json: serde_json::json!(cudn),
            position: sourced.position,
            problems: vec![
                sourced
                    .problem(format!("VTEP {vtep} cannot be read"))
                    .in_field("spec.network.evpn.vtep"),
            ],
        };
        own_definitions(cudn, inventory).is_empty().then(refused)
    });
    let refused: Vec<RefusedObject> = without_vtep.collect();
    for object in refused {
        inventory.cluster_user_defined_networks.remove(&object.key);
        inventory.undecoded.insert((object.kind, object.key.clone()));
        inventory.refused.push(object);
    }
}

impl FabricIds {
    /// Forgets networks that no longer exist, and reads the ids in definitions of others that are
    /// not known, of the oldest first.
    pub(super) fn restore(&mut self, inventory: &Inventory) {
        let cudns = &inventory.cluster_user_defined_networks;
        let exists = |name: &String| cudns.named(name).is_some();
        self.vlans.retain(|(name, _), _| exists(name));
        self.vnis.retain(|_, name| exists(name));
        let on_fabric = cudns
            .iter()
            .map(|(_, cudn)| &cudn.object)
            .filter(|cudn| cudn.spec.network.transport == Some(Transport::Evpn));
        let mut unknown: Vec<&ClusterUserDefinedNetwork> = on_fabric
            .filter(|cudn| !self.vlans.keys().any(|(name, _)| *name == cudn.name_any()))
            .collect();
        unknown.sort_by_key(|cudn| (cudn.creation_timestamp().map(|time| time.0), cudn.name_any()));
        for cudn in unknown {
            let config = own_definitions(cudn, inventory).iter().find_map(|key| {
                let nad = inventory.network_attachment_definitions.get(key)?;
                user_defined_config(nad.object.spec.config.as_deref()).ok()??.evpn
            });
            if let Some(config) = config {
                self.restore_config(&cudn.name_any(), &config);
            }
        }
    }

    fn restore_config(&mut self, name: &str, config: &CniEvpn) {
        for (vrf, known) in [(Vrf::Mac, &config.mac_vrf), (Vrf::Ip, &config.ip_vrf)] {
            let Some(known) = known else {
                continue;
            };
            let vni = (config.vtep.clone(), known.vni);
            self.vnis.entry(vni).or_insert_with(|| name.to_owned());
            let is_free = |id: &u16| !self.vlans.values().any(|taken| taken == id);
            if let Some(id) = known.vid.filter(is_free) {
                self.vlans.insert((name.to_owned(), vrf), id);
            }
        }
    }

    /// Configuration of a network on a fabric, with VLAN ids, which stay those that it has.
    ///
    /// # Errors
    /// [`EvpnIdError`].
    pub(super) fn allocate(
        &mut self,
        name: &str,
        config: &EvpnConfig,
    ) -> Result<CniEvpn, EvpnIdError> {
        let vrfs = [(Vrf::Mac, &config.mac_vrf), (Vrf::Ip, &config.ip_vrf)];
        let mut taken = Vec::new();
        for vrf in vrfs.iter().filter_map(|(_, vrf)| vrf.as_ref()) {
            let key = (config.vtep.clone(), vni(vrf));
            let owner = self.vnis.entry(key).or_insert_with(|| name.to_owned());
            if owner != name {
                let (vni, vtep) = (vrf.vni, &config.vtep);
                taken.push(format!(
                    "VNI {vni} on VTEP {vtep:?} is already reserved by network {owner:?}"
                ));
            }
        }
        if !taken.is_empty() {
            return Err(EvpnIdError::Vnis(taken));
        }
        let [mac_vrf, ip_vrf] = vrfs.map(|(kind, vrf)| {
            let vrf = vrf.as_ref()?;
            Some(self.vlan_id(name, kind).map(|vid| CniVrf {
                vni: vni(vrf),
                route_target: vrf.route_target.clone().unwrap_or_default(),
                vid: Some(vid),
            }))
        });
        Ok(CniEvpn {
            vtep: config.vtep.clone(),
            mac_vrf: mac_vrf.transpose()?,
            ip_vrf: ip_vrf.transpose()?,
        })
    }

    fn vlan_id(&mut self, name: &str, vrf: Vrf) -> Result<u16, EvpnIdError> {
        let key = (name.to_owned(), vrf);
        if let Some(known) = self.vlans.get(&key) {
            return Ok(*known);
        }
        let vlans = &self.vlans;
        let is_free = |id: u32| !vlans.values().any(|taken| u32::from(*taken) == id);
        let next = self.cursor.next(VLAN_IDS, is_free);
        let id = next.and_then(|id| u16::try_from(id).ok()).ok_or_else(|| {
            EvpnIdError::NoVlanId { vrf: vrf.name(), owner: format!("{name}/{vrf}") }
        })?;
        self.vlans.insert(key, id);
        Ok(id)
    }
}

/// The VNI of a valid VRF.
fn vni(vrf: &VrfConfig) -> u32 {
    vrf.vni.try_into().unwrap_or_default()
}
