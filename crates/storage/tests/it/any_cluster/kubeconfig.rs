//! One API server for all tests that need nothing but its API. They find it as they would find the cluster of a person who has
//! no kube-apiserver: by `KUBECONFIG`. That is noted in their output.

use std::process::{Command, Output};

use testkit::kube::Cluster;
use testkit::kube::program::VERSION_VARIABLE;

/// Runs the tests of `on_any_cluster` as if there were no kube-apiserver.
fn tests(kubeconfig: Option<&std::path::Path>, which: &str) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([which, "--ignored", "--nocapture", "--test-threads=2"])
        .env("KUBE_APISERVER", "none")
        .env_remove(VERSION_VARIABLE);
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
