use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::*;
use crate::provider_networks::host_mac;
use crate::wire::endpoint::EndpointRole;
use crate::wire::packet::{BROADCAST, neighbour_request};

/// Ethernet address of the machine on a node that asks.
const ASKING: Mac = [0x0a, 0, 0, 0, 0, 2];

/// Wire with one node and a gateway in a VLAN.
struct Bench {
    wire: PhysicalWire,
    device: UnixStream,
    _folder: tempfile::TempDir,
}

impl Bench {
    async fn new(device_tag: Option<u16>, vlan: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("w.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let wire = PhysicalWire::new("provider", Arc::default());
        wire.connect("w1", device_tag, socket);
        wire.add_host(
            vlan,
            EndpointConfig {
                number: 1,
                role: EndpointRole::Machine,
                mac: host_mac(1),
                addresses: vec!["192.0.2.1/24".parse().unwrap()],
                gateways: Vec::new(),
            },
        );
        let (device, _) = listener.accept().await.unwrap();
        Self { wire, device, _folder: folder }
    }

    /// Sends an ARP request for the gateway with these tags.
    async fn ask(&mut self, tags: &[u16]) {
        let [own, gateway] = ["192.0.2.2", "192.0.2.1"].map(|text| text.parse().unwrap());
        let mut frame = neighbour_request(ASKING, own, gateway).encode();
        assert_eq!(mac_at(&frame, 0), Some(BROADCAST));
        for tag in tags {
            push_tag(&mut frame, *tag);
        }
        self.device.write_u16(frame.len() as u16).await.unwrap();
        self.device.write_all(&frame).await.unwrap();
    }

    /// The tags of the next frame for the node.
    async fn answer(&mut self) -> Vec<u16> {
        let length = self.device.read_u16().await.unwrap();
        let mut frame = vec![0; usize::from(length)];
        self.device.read_exact(&mut frame).await.unwrap();
        tags(&frame)
    }

    /// The first loss.
    async fn loss(&self) -> WireLoss {
        loop {
            if let Some((loss, _)) = self.wire.losses().pop_first() {
                return loss;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_gateway_answers_in_the_vlan_that_either_the_device_or_ovn_tags_with() {
    for (device_tag, vlan, tags) in [(None, 0, &[][..]), (None, 222, &[222]), (Some(222), 222, &[])]
    {
        let mut bench = Bench::new(device_tag, vlan).await;
        bench.ask(tags).await;
        assert_eq!(bench.answer().await, tags, "{device_tag:?} {vlan}");
        assert_eq!(bench.wire.losses(), BTreeMap::new());
    }
}

#[tokio::test]
async fn frames_with_two_tags_or_none_are_lost_with_a_reason() {
    let twice = "tagged twice: hosts in VLAN 222 do not read a second tag 222";
    let none = "nobody on the wire takes frames without a tag";
    let other = "nobody on the wire is in VLAN 5";
    for (device_tag, tag, tags, reason) in [
        (Some(222), &[222][..], &[222, 222][..], twice),
        (None, &[], &[], none),
        (None, &[5], &[5], other),
    ] {
        let mut bench = Bench::new(device_tag, 222).await;
        bench.ask(tag).await;
        let expected = WireLoss {
            network: "provider".to_owned(),
            node: "w1".to_owned(),
            tags: tags.to_vec(),
            reason: reason.to_owned(),
        };
        assert_eq!(bench.loss().await, expected);
    }
}
