//! Completion of commands: the words that may stand at the cursor.

use patchbay_lab::{Lab, PROGRAMS};
use patchbay_model::Protocol;
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion::network_service;

/// Kind of a command's argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Argument {
    Pod,
    /// A pod with a port, or a service with one.
    Port(Protocol),
    Node,
    Program,
    /// A number or a path, which is not completed.
    Other,
}

/// The commands with their arguments.
const COMMANDS: [(&str, &[Argument]); 17] = [
    ("ping", &[Argument::Pod, Argument::Pod]),
    ("udp", &[Argument::Pod, Argument::Port(Protocol::Udp)]),
    ("tcp", &[Argument::Pod, Argument::Port(Protocol::Tcp)]),
    ("trace", &[Argument::Pod, Argument::Pod]),
    ("matrix", &[]),
    ("pods", &[]),
    ("show", &[Argument::Node]),
    ("env", &[Argument::Node]),
    ("cut", &[Argument::Node, Argument::Node]),
    ("slow", &[Argument::Node, Argument::Node, Argument::Other]),
    ("lossy", &[Argument::Node, Argument::Node, Argument::Other]),
    ("mend", &[Argument::Node, Argument::Node]),
    ("kill", &[Argument::Node, Argument::Program]),
    ("start", &[Argument::Node, Argument::Program]),
    ("capture", &[Argument::Pod, Argument::Other]),
    ("help", &[]),
    ("quit", &[]),
];

/// Names of a lab that commands take as arguments.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Names {
    /// `NAMESPACE/NAME` of the pods.
    pods: Vec<String>,
    nodes: Vec<String>,
    /// `NAMESPACE/NAME` and port of the services.
    services: Vec<(String, Protocol, u16)>,
}

impl Names {
    /// The names of a lab with the objects of a cluster.
    pub(super) fn of(lab: &Lab, cluster: &Cluster) -> Self {
        let services = cluster.inventory.services.iter();
        let services = services.map(|(_, service)| network_service(&service.object));
        Self {
            pods: lab.pods().map(|pod| pod.name.to_string()).collect(),
            nodes: lab.nodes().map(str::to_owned).collect(),
            services: services
                .filter(|service| !service.cluster_ips.is_empty())
                .flat_map(|service| {
                    let name = service.key.to_string();
                    let ports = service.ports.into_iter();
                    ports.map(move |port| (name.clone(), port.protocol, port.port))
                })
                .collect(),
        }
    }

    fn candidates(&self, argument: Argument, word: &str) -> Vec<String> {
        match argument {
            Argument::Pod => short_names(&self.pods, word),
            Argument::Port(protocol) => {
                let pods = short_names(&self.pods, word).into_iter();
                let of_protocol = |(_, one, _): &&(String, Protocol, u16)| *one == protocol;
                let services = self.services.iter().filter(of_protocol);
                pods.map(|pod| pod + ":")
                    .chain(services.map(|(name, _, port)| format!("svc/{name}:{port}")))
                    .collect()
            }
            Argument::Node => self.nodes.clone(),
            Argument::Program => PROGRAMS.map(str::to_owned).to_vec(),
            Argument::Other => Vec::new(),
        }
    }
}

/// The names without their namespaces, as far as they are unique. If the word has a namespace, the
/// names have theirs.
fn short_names(names: &[String], word: &str) -> Vec<String> {
    let short = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let is_unique = |one: &String| {
        names
            .iter()
            .filter(|name| short(name) == short(one))
            .count()
            == 1
    };
    let names = names.iter().map(|name| {
        if !word.contains('/') && is_unique(name) {
            short(name)
        } else {
            name.clone()
        }
    });
    names.collect()
}

/// Word that may stand at the cursor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Completion {
    pub(super) word: String,
    /// `true` if another argument follows the word.
    pub(super) has_next: bool,
}

/// Completions of the last word of a line that ends at the cursor. Returns the place in bytes where
/// this word begins.
pub(super) fn complete(line: &str, names: &Names) -> (usize, Vec<Completion>) {
    let word = line.rsplit(char::is_whitespace).next().unwrap_or_default();
    let start = line.len() - word.len();
    let mut before = line[..start].split_whitespace();
    let completions = |words: Vec<String>, has_next: bool| {
        let words = words.into_iter().filter(|one| one.starts_with(word));
        words
            .map(|word| Completion { word, has_next })
            .collect::<Vec<_>>()
    };
    let Some(command) = before.next() else {
        let commands = COMMANDS.iter().flat_map(|(command, arguments)| {
            completions(vec![(*command).to_owned()], !arguments.is_empty())
        });
        return (start, commands.collect());
    };
    let mut commands = COMMANDS.iter();
    let arguments = commands
        .find(|(known, _)| *known == command)
        .map_or(&[][..], |(_, arguments)| arguments);
    let place = before.count();
    let found = arguments.get(place).map_or_else(Vec::new, |argument| {
        let has_next = place + 1 < arguments.len();
        completions(names.candidates(*argument, word), has_next)
    });
    (start, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::prompt::HELP;

    fn names() -> Names {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Names {
            pods: texts(&["blue/blue-1", "blue/db", "green/green-1", "green/db"]),
            nodes: texts(&["node-1", "node-2"]),
            services: vec![
                ("shop/web".to_owned(), Protocol::Tcp, 80),
                ("shop/dns".to_owned(), Protocol::Udp, 53),
            ],
        }
    }

    /// Completions of a line; one with a space is followed by another argument.
    fn completed(line: &str) -> Vec<String> {
        let (start, found) = complete(line, &names());
        let word = |one: Completion| one.word + if one.has_next { " " } else { "" };
        assert!(line.is_char_boundary(start));
        found.into_iter().map(word).collect()
    }

    #[test]
    fn commands_and_the_names_that_they_take_are_completed() {
        for (line, expected) in [
            ("p", &["ping ", "pods"][..]),
            ("  ki", &["kill "]),
            ("ping bl", &["blue-1 ", "blue/db "]),
            ("ping blue-1 gr", &["green-1", "green/db"]),
            // Two pods have this name.
            ("ping ", &["blue-1 ", "blue/db ", "green-1 ", "green/db "]),
            ("ping blue/", &["blue/blue-1 ", "blue/db "]),
            ("tcp blue-1 green-1", &["green-1:"]),
            ("tcp blue-1 svc/", &["svc/shop/web:80"]),
            ("udp blue-1 s", &["svc/shop/dns:53"]),
            ("show n", &["node-1", "node-2"]),
            ("cut node-1 node-2", &["node-2"]),
            ("slow node-1 node-2", &["node-2 "]),
            ("slow node-1 node-2 ", &[]),
            ("kill node-1 ovn", &["ovn-northd", "ovn-controller"]),
            ("capture green-1 /", &[]),
            ("matrix ", &[]),
            ("nonsense b", &[]),
            ("ping blue-1 green-1 b", &[]),
            ("ü", &[]),
        ] {
            assert_eq!(completed(line), expected, "{line:?}");
        }
        let (start, _) = complete("ping ü\u{3000}gr", &names());
        assert_eq!(start, "ping ü\u{3000}".len());
    }

    #[test]
    fn every_command_of_the_help_is_completed() {
        let mut shown: Vec<&str> = HELP
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        shown.push("help");
        shown.sort_unstable();
        shown.dedup();
        let mut completed = COMMANDS.map(|(command, _)| command);
        completed.sort_unstable();
        assert_eq!(shown, completed);
    }
}
