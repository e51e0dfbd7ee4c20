//! Interfaces of nodes that lead to provider networks.

/// Number in the name of a VLAN device of the kernel, such as `data.222`, which adds this tag to
/// frames itself. `None`: the name is not one of such a device.
///
/// ```
/// use patchbay_model::vpc::vlan_device_id;
///
/// assert_eq!(vlan_device_id("data.222"), Some(222));
/// assert_eq!(vlan_device_id("eth1"), None);
/// ```
pub fn vlan_device_id(name: &str) -> Option<u16> {
    let is_word = |text: &str| {
        let mut bytes = text.bytes();
        !text.is_empty() && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
    };
    let (device, id) = name.split_once('.')?;
    let is_id = (1..=4).contains(&id.len()) && id.bytes().all(|c| c.is_ascii_digit());
    (is_word(device) && is_id).then(|| id.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::vlan_device_id;

    #[test]
    fn vlan_devices_have_a_dot_and_up_to_four_digits() {
        for (name, id) in [("data.222", 222), ("e-1_x.1", 1), ("bond0.4094", 4094)] {
            assert_eq!(vlan_device_id(name), Some(id), "{name}");
        }
        for name in ["eth1", "data.", ".222", "a.b.5", "data.12345", "data.2x", "vlan222"] {
            assert_eq!(vlan_device_id(name), None, "{name}");
        }
    }
}
