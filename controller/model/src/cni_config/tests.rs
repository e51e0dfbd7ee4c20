//! Configurations that are read and written.

use super::*;

#[test]
fn a_configuration_that_is_read_is_written_with_sorted_keys() {
    let text = r#"{"type":"ovn-k8s-cni-overlay","name":"n","vlanID":20,"role":"secondary","topology":"localnet","mtu":1500,"physicalNetworkName":"phys1","netAttachDefName":"red/n","cniVersion":"1.1.0","allowPersistentIPs":false,"subnets":"10.0.0.0/24"}"#;
    let config = CniConfig::from_json(text).unwrap().unwrap();
    assert_eq!(
        config.to_json(),
        r#"{"cniVersion":"1.1.0","mtu":1500,"name":"n","netAttachDefName":"red/n","physicalNetworkName":"phys1","role":"secondary","subnets":"10.0.0.0/24","topology":"localnet","type":"ovn-k8s-cni-overlay","vlanID":20}"#
    );
}

#[test]
fn a_list_of_one_plugin_is_its_configuration() {
    let list = |plugins: &str| {
        CniConfig::from_json(&format!(
            r#"{{"cniVersion":"1.0.0","name":"tenant","plugins":[{plugins}]}}"#
        ))
    };
    let plugin = r#"{"type":"ovn-k8s-cni-overlay","name":"ignored","topology":"layer2"}"#;
    let config = list(plugin).unwrap().unwrap();
    assert_eq!(
        config.to_json(),
        r#"{"cniVersion":"1.0.0","name":"tenant","netAttachDefName":"","role":"","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#
    );
    assert_eq!(list(r#"{"type":"bridge"},{"type":"tuning"}"#).unwrap(), None);
    let error = list(&format!(r#"{plugin},{{"type":"tuning"}}"#)).unwrap_err();
    assert_eq!(error.to_string(), "CNI plugin chaining is not supported");
    let error = list("").unwrap_err().to_string();
    assert_eq!(error, "error parsing configuration list \"tenant\": no plugins found");
}

#[test]
fn vrfs_of_a_fabric_have_the_fixed_order_of_their_keys() {
    let text = r#"{"evpn":{"vtep":"v","macVRF":{"vni":1,"routeTarget":"65000:1","vid":2},"ipVRF":{"vni":3}},"name":"n","netAttachDefName":"a/n","role":"primary","topology":"layer2","transport":"evpn","type":"ovn-k8s-cni-overlay"}"#;
    let config = CniConfig::from_json(text).unwrap().unwrap();
    assert_eq!(config.to_json(), text);
}

#[test]
fn configurations_of_other_plugins_may_have_other_types() {
    assert_eq!(
        CniConfig::from_json(r#"{"type":"bridge","subnets":["10.0.0.0/24"]}"#).unwrap(),
        None
    );
    let text = r#"{"type":"ovn-k8s-cni-overlay","subnets":["10.0.0.0/24"]}"#;
    assert!(CniConfig::from_json(text).is_err());
    assert!(CniConfig::from_json("{").is_err());
}

#[test]
fn fields_have_the_types_of_their_go_structs() {
    let read = |field: &str| {
        let read = |plugin| CniConfig::from_json(&format!(r#"{{"type":"{plugin}",{field}}}"#));
        assert_eq!(read("bridge").unwrap(), None, "{field}");
        let list =
            format!(r#"{{"name":"n","plugins":[{{"type":"ovn-k8s-cni-overlay",{field}}}]}}"#);
        assert_eq!(CniConfig::from_json(&list).is_err(), read(CNI_PLUGIN).is_err(), "{field}");
        read(CNI_PLUGIN).map(|config| config.map(|_| ()))
    };
    for field in [
        r#""mtu":"1400""#,
        r#""mtu":1400.5"#,
        r#""mtu":"""#,
        r#""mtu":false"#,
        r#""vlanID":"5""#,
        r#""allowPersistentIPs":"true""#,
        r#""cniVersion":1"#,
        r#""defaultGatewayIPs":["10.0.0.1"]"#,
        r#""excludeSubnets":["10.0.0.0/30"]"#,
        r#""reservedSubnets":0"#,
        r#""infrastructureSubnets":{"a":"b"}"#,
        r#""ipam":"static""#,
        r#""ipam":{"type":1}"#,
        r#""outboundSNAT":true"#,
        r#""physicalNetworkName":7"#,
        r#""reservedSubnets":["10.0.0.0/30"]"#,
        r#""uplink":1"#,
    ] {
        let name = field.split('"').nth(1).unwrap();
        let error = read(field).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
    for field in [
        r#""mtu":1400"#,
        r#""mtu":0"#,
        r#""vlanID":null"#,
        r#""role":null,"subnets":null,"topology":null,"transport":null"#,
        r#""allowPersistentIPs":true"#,
        r#""ipam":{}"#,
        r#""uplink":"u""#,
    ] {
        assert_eq!(read(field).unwrap(), Some(()), "{field}");
    }
}

#[test]
fn the_default_network_is_not_user_defined() {
    for (name, topology) in [("default", "layer3"), ("ovn-kubernetes", "layer3"), ("n", "")] {
        let config = CniConfig {
            name: name.to_owned(),
            topology: topology.to_owned(),
            ..CniConfig::default()
        };
        assert!(!config.is_user_defined(), "{name} {topology}");
    }
}
