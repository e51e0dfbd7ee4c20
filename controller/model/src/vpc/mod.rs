//! Virtual private clouds of Kube-OVN: values of their objects.

mod attachment;
mod node;
mod provider;

pub use attachment::{KUBE_OVN_PLUGIN, KubeOvnConfig, KubeOvnConfigError};
pub use node::{CHASSIS, GATEWAY_NODE, TUNNEL_INTERFACE, VpcNode};
pub use provider::{AttachmentProvider, SubnetProvider};
