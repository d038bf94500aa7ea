//! The migrator on a real kube-apiserver and etcd: what it did is read from etcd, what it asked from the proxy before the
//! API server.

mod disturbed;
pub mod done;
mod ground;
mod interrupted;
mod killed;
mod offline;
mod refused;
