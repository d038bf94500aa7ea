//! Where no kube-apiserver can be had, the cluster of `KUBECONFIG` serves, and it is said so.

use std::process::{Command, Output};

use testkit::kube::Cluster;

/// The other tests of this program, as if there were no kube-apiserver.
fn tests(kubeconfig: Option<&std::path::Path>, which: &str) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([which, "--nocapture", "--test-threads=2"]).env("KUBE_APISERVER", "none");
    match kubeconfig {
        Some(kubeconfig) => command.env("KUBECONFIG", kubeconfig),
        None => command.env_remove("KUBECONFIG"),
    };
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_tests_for_any_cluster_pass_on_one_that_kubeconfig_names() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig("admin");
    let (output, said) = tests(Some(&kubeconfig), "on_any_cluster::");
    assert!(output.status.success(), "{said}");
    assert!(said.contains("test result: ok. 4 passed"), "{said}");
    assert!(
        said.contains("NOTE: on the cluster of KUBECONFIG=") && said.contains("KUBE_APISERVER is none"),
        "{said}"
    );
}

#[test]
fn without_either_they_say_so_and_fail() {
    let (output, said) = tests(None, "on_any_cluster::every_object");
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("a cluster is needed, and KUBECONFIG names none: KUBE_APISERVER is none"),
        "{said}"
    );
}
