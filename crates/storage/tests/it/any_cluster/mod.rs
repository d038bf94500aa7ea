//! What holds on any cluster: it is looked at through its API alone, in a namespace and a group of the test's own. The
//! other tests of this crate want API servers that they can restart, and an etcd that they can read.

mod ground;
mod kubeconfig;
mod on_any_cluster;
