//! Tags of 802.1Q in frames.

/// Length of both Ethernet addresses in bytes, behind which tags are.
const ADDRESSES: usize = 12;
/// Type in the Ethernet header of a tag.
const TAG: [u8; 2] = [0x81, 0x00];
/// Length of a tag in bytes.
const TAG_BYTES: usize = 4;
/// Bits of the VLAN id in a tag.
const ID_MASK: u16 = 0x0fff;

/// VLAN id of the outer tag. `None`: the frame has no tag.
pub(crate) fn outer_tag(frame: &[u8]) -> Option<u16> {
    tag_at(frame, ADDRESSES)
}

/// VLAN ids of all tags, the outer one first.
pub(crate) fn tags(frame: &[u8]) -> Vec<u16> {
    let offsets = (ADDRESSES..).step_by(TAG_BYTES);
    offsets.map_while(|offset| tag_at(frame, offset)).collect()
}

/// Adds an outer tag. A frame that is cut off stays as it is.
pub(crate) fn push_tag(frame: &mut Vec<u8>, id: u16) {
    if frame.len() >= ADDRESSES {
        let [high, low] = (id & ID_MASK).to_be_bytes();
        frame.splice(ADDRESSES..ADDRESSES, [TAG[0], TAG[1], high, low]);
    }
}

/// Takes the outer tag away, if there is one.
pub(crate) fn pop_tag(frame: &mut Vec<u8>) {
    if outer_tag(frame).is_some() {
        frame.drain(ADDRESSES..ADDRESSES + TAG_BYTES);
    }
}

fn tag_at(frame: &[u8], offset: usize) -> Option<u16> {
    let [a, b, high, low] = *frame.get(offset..)?.first_chunk()?;
    ([a, b] == TAG).then_some(u16::from_be_bytes([high, low]) & ID_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_pushed_and_popped_at_the_outside() {
        let plain: Vec<u8> = (0..60).collect();
        let mut frame = plain.clone();
        push_tag(&mut frame, 5);
        push_tag(&mut frame, 222);
        assert_eq!(tags(&frame), [222, 5]);
        assert_eq!(outer_tag(&frame), Some(222));
        pop_tag(&mut frame);
        assert_eq!(tags(&frame), [5]);
        pop_tag(&mut frame);
        assert_eq!(frame, plain);
        pop_tag(&mut frame);
        assert_eq!(frame, plain);
    }

    #[test]
    fn frames_that_are_cut_off_have_no_tags() {
        let mut tagged: Vec<u8> = (0..60).collect();
        push_tag(&mut tagged, 222);
        for length in 0..16 {
            let mut frame = tagged[..length].to_vec();
            assert_eq!(tags(&frame), Vec::<u16>::new());
            pop_tag(&mut frame);
            assert_eq!(frame.len(), length);
        }
    }
}
