//! What only Kubernetes 1.20 serves: one resource in two groups, which is stored in one of both. The other tests with built-in
//! resources are the same, on 1.36.

use testkit::kube::built_in::INGRESSES;

use crate::migrator::done::built_in_resources_are_migrated;
use crate::trigger::life_cycle::life_cycle;
use crate::trigger::several_servers::two_servers_disagree;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prove: kubernetes-1.20"]
async fn a_state_of_ingresses_lives_through_install_outage_upgrade_and_downgrade() {
    life_cycle(INGRESSES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prove: kubernetes-1.20"]
async fn while_two_servers_disagree_about_ingresses_nothing_is_migrated_and_afterwards_it_is() {
    two_servers_disagree(INGRESSES).await;
}

#[tokio::test]
#[ignore = "prove: kubernetes-1.20"]
async fn ingresses_are_migrated_from_one_group_to_the_other() {
    built_in_resources_are_migrated(INGRESSES).await;
}
