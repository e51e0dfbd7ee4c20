//! Chart values of the platform: the key `network`.

use serde::Deserialize;
use thiserror::Error;

/// Chart values that rules read. Other keys are ignored.
///
/// ```
/// use patchbay_lint::ChartValues;
///
/// let text = "network: {kubeOvn: {enabled: true, svcCidr: 10.96.0.0/16}, other: {}}";
/// let values = ChartValues::from_yaml(text).unwrap();
/// assert_eq!(values.kube_ovn.unwrap().svc_cidr, "10.96.0.0/16");
/// assert!(values.flannel.is_none());
/// ```
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ChartValues {
    /// Network of the cluster's own pods. `None`: unknown.
    pub flannel: Option<FlannelValues>,
    /// Network of the tenants. `None`: unknown.
    pub kube_ovn: Option<KubeOvnValues>,
    /// Program that attaches further networks. `None`: unknown.
    pub multus: Option<MultusValues>,
}

/// Values of Flannel.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct FlannelValues {
    /// `true` if Flannel runs.
    pub enabled: bool,
    /// Range of pods.
    pub pod_cidr: String,
    /// Backend, such as `host-gw`.
    pub backend: String,
}

/// Values of Kube-OVN.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeOvnValues {
    /// `true` if Kube-OVN runs.
    pub enabled: bool,
    /// Range of the default subnet.
    pub pod_cidr: String,
    /// Gateway of the default subnet.
    pub pod_gateway: String,
    /// Range of cluster IPs.
    pub svc_cidr: String,
    /// Range of the nodes' own ports.
    pub join_cidr: String,
    /// Interface of tunnels.
    pub tunnel_interface: String,
    /// `geneve`, `vxlan` or `stt`.
    pub tunnel_type: String,
}

/// Values of Multus.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct MultusValues {
    /// `true` if Multus runs.
    pub enabled: bool,
}

/// Reason why chart values cannot be read.
#[derive(Debug, Error)]
pub enum ValuesError {
    /// The text is not YAML, or a value has another type.
    #[error("{0}")]
    Yaml(String),
    /// There is no key `network`.
    #[error("the key `network` is missing")]
    NoNetwork,
}

/// A file of chart values.
#[derive(Deserialize)]
struct ValuesFile {
    network: Option<ChartValues>,
}

impl ChartValues {
    /// Reads a file of chart values.
    ///
    /// # Errors
    /// The text is not YAML, has no key `network`, or a value has another type.
    pub fn from_yaml(text: &str) -> Result<Self, ValuesError> {
        let file: ValuesFile =
            serde_saphyr::from_str(text).map_err(|error| ValuesError::Yaml(error.to_string()))?;
        file.network.ok_or(ValuesError::NoNetwork)
    }
}
