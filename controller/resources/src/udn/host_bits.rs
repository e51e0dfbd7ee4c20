//! Subnets with host bits, which API servers store and every reader drops.

use ipnet::IpNet;

use super::{
    ClusterUserDefinedNetworkSpec, Layer2Config, Layer3Config, LocalnetConfig,
    UserDefinedNetworkSpec,
};
use crate::address::parse_cidr;

/// A subnet with host bits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnmaskedSubnet {
    /// Path of the field.
    pub field: String,
    /// The subnet as it is written.
    pub subnet: IpNet,
}

impl UserDefinedNetworkSpec {
    /// Subnets that are written with host bits.
    pub fn unmasked_subnets(&self) -> Vec<UnmaskedSubnet> {
        unmasked(configured("spec", self.layer3.as_ref(), self.layer2.as_ref()))
    }
}

impl ClusterUserDefinedNetworkSpec {
    /// Subnets that are written with host bits.
    pub fn unmasked_subnets(&self) -> Vec<UnmaskedSubnet> {
        let network = &self.network;
        let (layer3, layer2) = (network.layer3.as_ref(), network.layer2.as_ref());
        let mut texts = configured("spec.network", layer3, layer2);
        if let Some(LocalnetConfig { subnets, exclude_subnets, .. }) = &network.localnet {
            texts.extend(listed("spec.network.localnet.subnets", subnets.as_deref()));
            let field = "spec.network.localnet.excludeSubnets";
            texts.extend(listed(field, exclude_subnets.as_deref()));
        }
        unmasked(texts)
    }
}

/// Subnets of layer3 and layer2 networks, with their fields.
fn configured<'a>(
    field: &str,
    layer3: Option<&'a Layer3Config>,
    layer2: Option<&'a Layer2Config>,
) -> Vec<(String, &'a str)> {
    let mut texts = Vec::new();
    if let Some(config) = layer3 {
        let subnets = config.subnets.iter().enumerate();
        texts.extend(subnets.map(|(index, subnet)| {
            let field = format!("{field}.layer3.subnets[{index}].cidr");
            (field, subnet.cidr.as_str())
        }));
        let field = format!("{field}.layer3.joinSubnets");
        texts.extend(listed(&field, config.join_subnets.as_deref()));
    }
    if let Some(config) = layer2 {
        let subnets = format!("{field}.layer2.subnets");
        texts.extend(listed(&subnets, config.subnets.as_deref()));
        let join_subnets = format!("{field}.layer2.joinSubnets");
        texts.extend(listed(&join_subnets, config.join_subnets.as_deref()));
    }
    texts
}

fn listed<'a>(field: &str, texts: Option<&'a [String]>) -> Vec<(String, &'a str)> {
    let texts = texts.into_iter().flatten().enumerate();
    texts.map(|(index, text)| (format!("{field}[{index}]"), text.as_str())).collect()
}

fn unmasked(texts: Vec<(String, &str)>) -> Vec<UnmaskedSubnet> {
    let subnets = texts.into_iter().filter_map(|(field, text)| {
        let subnet = parse_cidr(text)?;
        (subnet.trunc() != subnet).then_some(UnmaskedSubnet { field, subnet })
    });
    subnets.collect()
}
