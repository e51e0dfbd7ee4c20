//! Objects of the group `discovery.k8s.io`, version `v1`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApiVersion, KindName, Object, ObjectMeta};

/// Endpoints of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    /// `apiVersion`.
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata: labels and annotations name the service, and the network of a mirrored slice.
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<Endpoint>>,
    /// Ports of all endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<EndpointPort>>,
}

impl Object for EndpointSlice {
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EndpointSlice";
    const PLURAL: &'static str = "endpointslices";
    const NAMESPACED: bool = true;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// An endpoint. Fields that are not read are declared, because undeclared fields are refused.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    /// Addresses.
    pub addresses: Vec<String>,
    /// State.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<EndpointConditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated_topology: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    /// Node of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Pod of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

/// State of an endpoint.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// `None`: ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// `None`: as `ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// `None`: not terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// A port of endpoints.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
    /// Name of the service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number. `None`: all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// `TCP`, `UDP` or `SCTP`; `None`: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}
