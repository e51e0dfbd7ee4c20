//! A ClusterNetworkConnect as the zone half sees it: what the cluster-wide half published, and the mode.

use kube::ResourceExt;
use thiserror::Error;

use super::connect_range::{ConnectRange, ConnectRangeError, ConnectRanges};
use super::connect_subnets::{ConnectSubnetMap, SubnetAnnotationError};
use super::ids::{DatapathKey, IdError};
use crate::api::cnc::{self, ClusterNetworkConnect};

/// Annotation with the tunnel key of the connect router.
pub const ROUTER_TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";

/// What is let through between connected networks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Connectivity {
    /// Pods reach pods.
    pub pod_network: bool,
    /// Pods reach cluster IPs.
    pub service_network: bool,
}

impl Connectivity {
    /// Services only: traffic from pod to pod is dropped.
    pub const fn is_service_only(self) -> bool {
        self.service_network && !self.pod_network
    }
}

impl FromIterator<cnc::Connectivity> for Connectivity {
    fn from_iter<I: IntoIterator<Item = cnc::Connectivity>>(entries: I) -> Self {
        let mut collected = Self::default();
        for entry in entries {
            match entry {
                cnc::Connectivity::PodNetwork => collected.pod_network = true,
                cnc::Connectivity::ServiceNetwork => collected.service_network = true,
            }
        }
        collected
    }
}

/// A ClusterNetworkConnect that a zone cannot serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The tunnel key annotation is not a key.
    #[error("annotation {ROUTER_TUNNEL_KEY}: {0}")]
    TunnelKey(#[from] IdError),
    /// The subnet annotation cannot be read.
    #[error(transparent)]
    Subnets(#[from] SubnetAnnotationError),
    /// An entry of `spec.connectSubnets` cannot be used.
    #[error(transparent)]
    Range(#[from] ConnectRangeError),
    /// The object is not one that this version understands.
    #[error("{0}")]
    Object(String),
}

/// A connect.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connect {
    /// Name of the object.
    pub name: String,
    /// Tunnel key of the connect router; there is nothing to do before it is known.
    pub tunnel_key: Option<DatapathKey>,
    /// The connected networks with their subnets.
    pub subnets: ConnectSubnetMap,
    /// Entries of the subnet annotation that name no owner.
    pub unknown_owners: Vec<IdError>,
    /// The ranges that the subnets come from.
    pub ranges: ConnectRanges,
    /// What is let through.
    pub connectivity: Connectivity,
}

impl TryFrom<&ClusterNetworkConnect> for Connect {
    type Error = ConnectError;

    fn try_from(object: &ClusterNetworkConnect) -> Result<Self, ConnectError> {
        let annotation = |key| object.annotations().get(key).map_or("", String::as_str);
        let tunnel_key = match annotation(ROUTER_TUNNEL_KEY) {
            "" => None,
            text => Some(text.parse()?),
        };
        let (subnets, unknown_owners) =
            ConnectSubnetMap::parse(annotation(ConnectSubnetMap::ANNOTATION))?;
        let ranges = object
            .spec
            .connect_subnets
            .iter()
            .map(|entry| {
                ConnectRange::try_new(ConnectRange::parse_cidr(&entry.cidr)?, entry.network_prefix)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: object.name_any(),
            tunnel_key,
            subnets,
            unknown_owners,
            ranges,
            connectivity: object.spec.connectivity.iter().copied().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotations: &serde_json::Value) -> ClusterNetworkConnect {
        serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": "mix", "annotations": annotations},
            "spec": {
                "networkSelectors": [],
                "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}],
                "connectivity": ["ServiceNetwork"],
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_the_cluster_half_published() {
        let object = object(&json!({
            ROUTER_TUNNEL_KEY: "16715782",
            ConnectSubnetMap::ANNOTATION: r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"odd":{"ipv4":"192.168.1.0/24"}}"#,
        }));
        let connect = Connect::try_from(&object).unwrap();
        assert_eq!(connect.name, "mix");
        assert_eq!(connect.tunnel_key.map(DatapathKey::get), Some(16_715_782));
        assert_eq!(connect.subnets.len(), 1);
        assert_eq!(connect.unknown_owners.len(), 1);
        assert!(connect.connectivity.is_service_only());
        assert_eq!(connect.ranges.iter().count(), 1);
    }

    #[test]
    fn nothing_published_yet() {
        let connect = Connect::try_from(&object(&json!({}))).unwrap();
        assert_eq!(connect.tunnel_key, None);
        assert!(connect.subnets.is_empty());
    }

    #[test]
    fn a_bad_key_is_told() {
        let error = Connect::try_from(&object(&json!({ROUTER_TUNNEL_KEY: "0"}))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation k8s.ovn.org/connect-router-tunnel-key: datapath tunnel key 0 is not in 1..=16777215"
        );
    }
}
