//! The agent of a cluster: on a real kube-apiserver with kube-controller-manager, started in pods by one who plays the kubelet, as
//! the account that `deploy/agent` gives it.

mod applied;
mod ground;
mod interrupted;
mod keys;
mod pod;
mod recorder;
mod shown;
