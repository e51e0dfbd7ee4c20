//! Captures of the wire of a provider network.

use std::fs;

use super::tenants::{Platform, Tenant};
use super::{assert_seen, start};
use crate::support::release;

/// Length of the header of a capture, and of that of a frame, in bytes.
const HEADERS: (usize, usize) = (24, 16);
/// Type of a frame with a tag of 802.1Q.
const TAGGED: [u8; 2] = [0x81, 0x00];
/// Type of IPv4 behind a tag.
const IPV4: [u8; 2] = [0x08, 0x00];

/// Frames of a capture.
fn frames(capture: &[u8]) -> Vec<&[u8]> {
    assert_eq!(&capture[..4], 0xa1b2_c3d4_u32.to_ne_bytes());
    // Ethernet.
    assert_eq!(&capture[20..24], 1_u32.to_ne_bytes());
    let mut rest = &capture[HEADERS.0..];
    let mut frames = Vec::new();
    while let Some((header, bytes)) = rest.split_at_checked(HEADERS.1) {
        let length = u32::from_ne_bytes(header[8..12].try_into().unwrap()) as usize;
        assert_eq!(header[8..12], header[12..16], "no frame is cut off");
        let (frame, behind) = bytes.split_at(length);
        frames.push(frame);
        rest = behind;
    }
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_of_the_wire_has_both_directions_with_their_tags() {
    let Some(release) = release() else { return };
    let alpha = Tenant::new("alpha", "10.100.0");
    let lab = start(release, &(Platform::default().manifests() + &alpha.manifests())).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wire.pcap");
    lab.capture_wire("provider", &file).unwrap();
    let reached = "reached through 1 router, source 77.220.68.98";
    assert_seen(&lab, &[("vm1", "8.8.8.8", "icmp", reached)]).await;
    let capture = fs::read(&file).unwrap();
    let frames = frames(&capture);
    assert!(frames.iter().all(|frame| frame[12..14] == TAGGED), "{frames:?}");
    // The interface data.222 has added the tag, and the host outside is in its VLAN.
    let ids: Vec<u16> = frames
        .iter()
        .map(|frame| u16::from_be_bytes(frame[14..16].try_into().unwrap()) & 0xfff)
        .collect();
    assert!(ids.iter().all(|id| *id == 222), "{ids:?}");
    let packets = frames.iter().filter(|frame| frame[16..18] == IPV4);
    let ends: Vec<(&[u8], &[u8])> = packets.map(|frame| (&frame[30..34], &frame[34..38])).collect();
    let (vpc, host): (&[u8], &[u8]) = (&[77, 220, 68, 98], &[8, 8, 8, 8]);
    assert!(ends.contains(&(vpc, host)) && ends.contains(&(host, vpc)), "{ends:?}");
}
