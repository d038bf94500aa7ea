//! One agent of several works: the one that has the lease. One that is being replaced lets the new one have it.

use std::sync::Arc;
use std::time::Duration;

use kubernetes::connect::Cluster as Connection;
use kubernetes::lead::Candidate;
use tokio_util::sync::CancellationToken;

use super::desk::Desk;
use super::error::ClusterError;
use super::machine::{Cluster, Gate};
use super::myself::{Myself, Standing};
use super::record::Record;
use super::settings::Settings;

const LEASE: &str = "holdfast-agent";
/// Between two looks of one that was replaced: it is waiting for its end.
const LOOK: Duration = Duration::from_secs(2);

/// What an agent that leads works with. Nothing that it writes is written any more when it does not.
pub struct Parts {
    pub desk: Desk,
    pub machine: Cluster,
}

/// Until `stop`, or until a term ends with something to say. A term whose token is cancelled must end; one that ends by itself
/// lets others lead, and may be followed by another one.
pub async fn lead<T, Term: Future<Output = Option<T>>>(
    cluster: &Connection,
    settings: &Settings,
    gate: Option<&Gate>,
    stop: &CancellationToken,
    mut term: impl FnMut(Parts, CancellationToken) -> Term,
) -> Result<Option<T>, ClusterError> {
    let client = cluster.client()?;
    let mut candidate = Candidate::new(client.clone(), &settings.namespace, LEASE, settings.lease.get());
    let fenced = cluster.fenced(candidate.fence());
    let record = Arc::new(Record::open(&fenced)?);
    let writing = fenced.client()?;
    let myself = Myself { namespace: settings.namespace.clone(), pod: settings.pod.clone() };
    tracing::info!(me = candidate.me(), "waiting to lead");
    while !stop.is_cancelled() {
        if is_replaced(&myself, &client).await {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            continue;
        }
        let ended = candidate.terms(stop, |over| {
            let desk = Desk::at(Arc::clone(&record));
            let (writing, gate) = (writing.clone(), gate.cloned());
            let machine = Cluster::new(Arc::clone(&record), writing, settings.clone(), gate, over.clone());
            let replaced = is_replaced(&myself, &client);
            let term = term(Parts { desk, machine }, over);
            async {
                // It may have waited for long.
                if replaced.await {
                    return Some(None);
                }
                // None, too, goes through the look above: whoever steps down must not be the next to lead.
                Some(term.await)
            }
        });
        if let Some(Some(ended)) = ended.await {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

async fn is_replaced(myself: &Myself, client: &kube::Client) -> bool {
    // One that can't find out leads: there may be no other.
    matches!(myself.standing(client).await, Ok(Standing::Superseded { ready: true, .. }))
}
