//! Kubernetes services, as far as load balancers of networks are derived from them.

use std::collections::BTreeSet;

/// Service with a cluster IP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterIpService {
    /// Namespace of the service.
    pub namespace: String,
    /// Protocols of the service's ports. Each protocol has its own load balancer.
    pub protocols: BTreeSet<String>,
}
