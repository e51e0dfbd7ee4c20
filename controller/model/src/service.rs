//! Services as load balancers of networks are made for them.

use std::collections::BTreeSet;

/// A service with a cluster IP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterIpService {
    /// The service's namespace.
    pub namespace: String,
    /// The distinct protocols of its ports: the service has a load balancer for each.
    pub protocols: BTreeSet<String>,
}
