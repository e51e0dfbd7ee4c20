//! Flags of Kube-OVN's controller.

use std::collections::BTreeMap;

use patchbay_resources::manifests::Inventory;

use crate::cluster::objects;

/// Flags of Kube-OVN's controller; their defaults where the manifests have no `Deployment` of it.
pub(crate) struct ControllerFlags<'a> {
    /// `--cluster-router`: name of the default VPC.
    pub(crate) default_vpc: &'a str,
    /// `--external-gateway-switch`: name of the subnet that `enableExternal` stands for.
    pub(crate) external_subnet: &'a str,
    /// `--enable-eip-snat`
    pub(crate) has_eip_snat: bool,
    /// `--enable-lb`
    pub(crate) has_load_balancers: bool,
    /// `--enable-external-vpc`. `None`: unknown.
    pub(crate) has_external_vpc: Option<bool>,
    /// `--non-primary-cni-mode`: Kube-OVN makes interfaces of attachment definitions only. `None`:
    /// unknown.
    pub(crate) is_secondary: Option<bool>,
}

impl<'a> ControllerFlags<'a> {
    pub(crate) fn new(inventory: &'a Inventory) -> Self {
        let deployment = objects(&inventory.deployments).next();
        let arguments = deployment.iter().flat_map(|one| one.object.arguments());
        let flags: BTreeMap<&str, &str> = arguments
            .filter_map(|argument| {
                let flag = argument.strip_prefix("--")?;
                Some(flag.split_once('=').unwrap_or((flag, "true")))
            })
            .collect();
        let text = |name, default| flags.get(name).copied().unwrap_or(default);
        let is_on = |name| flags.get(name).map(|value| *value == "true");
        // A flag that the `Deployment` does not have has its default.
        let known = |name| is_on(name).or(deployment.map(|_| false));
        Self {
            default_vpc: text("cluster-router", "ovn-cluster"),
            external_subnet: text("external-gateway-switch", "external"),
            has_eip_snat: is_on("enable-eip-snat").unwrap_or(true),
            has_load_balancers: is_on("enable-lb").unwrap_or(true),
            has_external_vpc: known("enable-external-vpc"),
            is_secondary: known("non-primary-cni-mode"),
        }
    }
}
