//! The command that prints definitions and policies.

use std::process::{Command, Output};

use patchbay_crds::{CLUSTER_MANAGER, NAMESPACE, manifests, policies};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchbay"));
    command.arg("crds").args(arguments).output().unwrap()
}

#[test]
fn definitions_and_policies_are_printed() {
    let names = ["udn".to_owned(), "IPAMClaim".to_owned()];
    for (arguments, expected) in [
        (&[][..], manifests(&[], &[])),
        (&["udn", "IPAMClaim"], manifests(&names, &[])),
        (&["--policies"], manifests(&[], &policies(CLUSTER_MANAGER, NAMESPACE))),
        (&["--policies", "--manager", "me"], manifests(&[], &policies("me", NAMESPACE))),
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected.unwrap());
    }
}

#[test]
fn unknown_names_are_errors() {
    let output = run(&["pods"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: unknown definition \"pods\", "), "{errors}");
    assert!(!run(&["--manager", "me"]).status.success(), "there are no policies to name a user in");
}
