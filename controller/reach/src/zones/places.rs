//! Switch ports that the names of a question mean, in the databases of all zones.

use std::net::IpAddr;

use super::Zones;
use crate::answer::QuestionError;
use crate::northbound::{Northbound, PortId, SwitchPortId};
use crate::question::{Destination, Question, Sender};
use crate::resolve::{NameError, addresses, is_usable, pod_of};

/// Switch port in the database of a zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) zone: &'a str,
    pub(crate) database: &'a Northbound,
    pub(crate) port: SwitchPortId,
}

impl<'a> Place<'a> {
    pub(crate) fn network(&self) -> Option<&'a str> {
        self.database.network_of(self.port)
    }

    /// `true` if both are ports of one network, by name.
    pub(super) fn is_same_network(self, other: Self) -> bool {
        self.network().is_some() && self.network() == other.network()
    }

    /// Name of the port.
    pub(crate) fn name(&self) -> &'a str {
        self.database.port_name(self.port.into())
    }

    /// The pod of the port, as `NAMESPACE/NAME`. `None`: it is none of a pod.
    pub(crate) fn pod(&self) -> Option<String> {
        pod_of(self.database.switch_port(self.port))
    }

    fn is_remote(&self) -> bool {
        self.database.is_remote(self.port)
    }
}

impl Zones {
    /// The port that sends. Of the ports of a pod, that one of the primary network or of a network
    /// of the destination.
    pub(super) fn sender(
        &self,
        sender: &Sender,
        destinations: &[Place<'_>],
    ) -> Result<Place<'_>, NameError> {
        let default = self.default_database();
        match (&sender.port, &sender.pod) {
            (Some(name), _) => {
                let places = Self::local(self.named(name));
                let own = places.iter().find(|place| place.zone == self.default);
                match own.or(places.first()) {
                    Some(place) => Ok(*place),
                    None => Err(default.unknown_port("switch port", name)),
                }
            }
            (None, Some(pod)) => {
                let places = Self::local(self.of_pod(pod));
                let Some(first) = places.first() else {
                    return Err(default.unknown_pod(pod));
                };
                let networks = networks_of(destinations);
                self.choose(pod, *first, &places, &networks)
            }
            (None, None) => Err(NameError::NoSender),
        }
    }

    /// Ports of the destination, those on their own chassis first. Empty: an address that no port
    /// has, a service, or an unknown name.
    pub(super) fn destinations(&self, question: &Question) -> Vec<Place<'_>> {
        let mut places = match &question.destination {
            Destination::Address(address) => self.with_address(*address),
            Destination::Port(name) => self.named(name),
            Destination::Pod(pod) => self.of_pod(pod),
            Destination::Service(_) => Vec::new(),
        };
        places.sort_by_key(Place::is_remote);
        places
    }

    /// Addresses of a question's destination, as the sender sees it, and its port.
    pub(super) fn target<'a>(
        &'a self,
        question: &Question,
        sender: Place<'a>,
        destinations: &[Place<'a>],
    ) -> Result<(Vec<IpAddr>, Option<Place<'a>>), QuestionError> {
        let place = match &question.destination {
            Destination::Address(address) => {
                let mut places = destinations.iter();
                let own = places.find(|place| place.is_same_network(sender));
                let place = own.or(destinations.first()).copied();
                return Ok((vec![*address], place));
            }
            Destination::Service(_) => {
                let found = sender.database.find_destination(question, sender.port)?;
                return Ok((found, None));
            }
            Destination::Port(name) => *destinations
                .first()
                .ok_or_else(|| sender.database.unknown_port("switch port", name))?,
            Destination::Pod(pod) => {
                let first = destinations.first().ok_or_else(|| sender.database.unknown_pod(pod))?;
                self.choose(pod, *first, destinations, &[sender.network()])?
            }
        };
        let port = place.database.switch_port(place.port);
        Ok((addresses(port), Some(place)))
    }

    /// Of the ports of a pod, that which the other end with these networks means. A pod is in the
    /// default zone, if that has a port of it, or in that of the first place.
    pub(super) fn choose<'a>(
        &self,
        pod: &str,
        first: Place<'a>,
        places: &[Place<'a>],
        networks: &[Option<&str>],
    ) -> Result<Place<'a>, NameError> {
        let same_side: Vec<_> =
            places.iter().filter(|own| own.is_remote() == first.is_remote()).collect();
        let mut homes = same_side.iter();
        let home = homes.find(|own| own.zone == self.default).map_or(first, |own| **own);
        let own = || same_side.iter().filter(|own| own.zone == home.zone);
        let ports: Vec<_> = own().map(|own| own.port).collect();
        let port = home.database.choose(pod, &ports, networks)?;
        Ok(Place { port, ..home })
    }

    /// The places on their own chassis, or all if there are none.
    fn local(places: Vec<Place<'_>>) -> Vec<Place<'_>> {
        if places.iter().all(Place::is_remote) {
            return places;
        }
        places.into_iter().filter(|own| !own.is_remote()).collect()
    }

    fn places<'a>(&'a self, ports: impl Fn(&'a Northbound) -> Vec<SwitchPortId>) -> Vec<Place<'a>> {
        let zones = self.databases.iter();
        let places = zones.flat_map(|(zone, database)| {
            let ports = ports(database).into_iter();
            ports.map(move |port| Place { zone, database, port })
        });
        places.collect()
    }

    fn named(&self, name: &str) -> Vec<Place<'_>> {
        self.places(|database| match database.names.port(name) {
            Some(PortId::Switch(port)) => vec![port],
            Some(PortId::Router(_)) | None => Vec::new(),
        })
    }

    fn of_pod(&self, pod: &str) -> Vec<Place<'_>> {
        self.places(|database| database.find_pod(pod).unwrap_or_default())
    }

    fn with_address(&self, address: IpAddr) -> Vec<Place<'_>> {
        self.places(|database| database.machines_with(address))
    }
}

/// Networks in which the ports of a pod are of use.
pub(super) fn networks_of<'a>(places: &[Place<'a>]) -> Vec<Option<&'a str>> {
    let has_primary = places.iter().any(|own| own.database.is_primary(own.port));
    let networks = places.iter().map(Place::network);
    networks.filter(|network| is_usable(*network, has_primary)).collect()
}
