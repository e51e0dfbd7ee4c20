//! Load balancers of a switch or router.
//!
//! Datapaths share the load balancers of a group, so that memory grows with the references of rows,
//! and not with pairs of datapaths and load balancers.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::id::LoadBalancerId;
use super::load_balancer::LoadBalancer;

/// Load balancers of the row of a datapath, or of a group.
#[derive(Debug, Default)]
pub(super) struct Members {
    ids: HashSet<LoadBalancerId, RandomState>,
    /// `true` if one of the load balancers has a VIP.
    has_vip: bool,
    /// `true` if one of them has `use_stateless_nat`.
    has_stateless: bool,
    /// `true` if other routers get routes to the VIPs of one of them.
    has_routable: bool,
}

/// Load balancers of a switch or router.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// Those of the row and of its groups.
    own: Arc<[Arc<Members>]>,
    /// Those of the routers of a switch, router by router.
    of_routers: Vec<Arc<[Arc<Members>]>>,
    /// `true` if one of the load balancers has a VIP.
    pub(crate) has_vip: bool,
    /// `true` if one of them does, without those of another datapath: a switch tracks packets for
    /// it.
    pub(crate) has_own_vip: bool,
    pub(super) has_stateless: bool,
}

impl Members {
    pub(super) fn new<'a>(
        balancers: impl IntoIterator<Item = (LoadBalancerId, &'a LoadBalancer)>,
    ) -> Self {
        let mut members = Self::default();
        for (id, balancer) in balancers {
            members.ids.insert(id);
            members.has_vip |= balancer.has_vip();
            members.has_stateless |= balancer.is_stateless;
            members.has_routable |= balancer.is_routable;
        }
        members
    }
}

impl Attached {
    pub(super) fn new(own: impl IntoIterator<Item = Arc<Members>>) -> Self {
        let own: Arc<[Arc<Members>]> = own.into_iter().collect();
        let has_vip = own.iter().any(|members| members.has_vip);
        Self {
            has_vip,
            has_own_vip: has_vip,
            has_stateless: own.iter().any(|members| members.has_stateless),
            own,
            of_routers: Vec::new(),
        }
    }

    /// `true` if other routers get routes to the VIPs of one of the load balancers.
    pub(super) fn has_routable(&self) -> bool {
        self.members().any(|members| members.has_routable)
    }

    /// Adds the load balancers of a router.
    pub(super) fn extend(&mut self, router: &Self) {
        self.of_routers.push(Arc::clone(&router.own));
        self.has_vip |= router.has_vip;
        self.has_stateless |= router.has_stateless;
    }

    /// `true` if the load balancer is one of the datapath.
    pub(super) fn contains(&self, id: LoadBalancerId) -> bool {
        self.members().any(|members| members.ids.contains(&id))
    }

    /// `true` if the load balancer is one of the datapath, and not only one of its routers.
    pub(super) fn contains_own(&self, id: LoadBalancerId) -> bool {
        self.own.iter().any(|members| members.ids.contains(&id))
    }

    /// The load balancers, each once.
    pub(super) fn ids(&self) -> impl Iterator<Item = LoadBalancerId> {
        self.members().enumerate().flat_map(move |(place, members)| {
            let ids = members.ids.iter().copied();
            ids.filter(move |id| {
                let mut before = self.members().take(place);
                before.all(|other| !other.ids.contains(id))
            })
        })
    }

    fn members(&self) -> impl Iterator<Item = &Members> {
        let of_routers = self.of_routers.iter().flat_map(|router| router.iter());
        self.own.iter().chain(of_routers).map(|members| &**members)
    }
}
