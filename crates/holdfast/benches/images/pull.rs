//! A pull, every chunk verified and all of it on the disk at the end, against `curl -o` from the same server to the same disk.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use images::file::{DiskDir, ImageFile};
use images::origin::Origin as Source;
use images::pull::{Options, pull};
use images::settings::OriginSettings;
use images::throttle::Throttle;
use logic::images::{Held, ImageId, ImageName};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trust::digest::{Digest, Hasher};

use crate::origin::Origin;
use crate::table::{Row, Wanted};

const ROUNDS: usize = 5;
const SIZE: usize = 1 << 30;
pub const SHA256: &str = "pull, verified, SHA-256 given";
pub const SHA512: &str = "pull, verified, SHA-512 given";

pub fn rows(dir: &Path, wanted: &Wanted) -> Vec<Row> {
    let kinds = [(SHA256, Hasher::sha256(), 1.5), (SHA512, Hasher::sha512(), 2.2)];
    let kinds: Vec<_> = kinds.into_iter().filter(|(what, ..)| wanted.has(what)).collect();
    if kinds.is_empty() {
        return vec![];
    }
    let file = dir.join("random");
    let content = random(&file, SIZE);
    let origin = Origin::of(&file);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut rows = vec![];
    for (what, mut hasher, bar) in kinds {
        content.chunks(1 << 20).for_each(|part| hasher.update(part));
        let checksum = hasher.finish();
        let (mut ours, mut theirs) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            theirs.push(curl(&origin, dir));
            ours.push(runtime.block_on(pulled(&origin, dir, &checksum)));
        }
        rows.push(Row::ratio(what, &mut ours, &mut theirs, bar, ("pull", "curl")));
    }
    rows
}

/// Bytes that no two files share.
pub fn random(path: &Path, size: usize) -> Vec<u8> {
    let mut content = vec![0; size];
    let mut source = std::fs::File::open("/dev/urandom").expect("random bytes");
    std::io::Read::read_exact(&mut source, &mut content).expect("random bytes");
    let mut file = std::fs::File::create(path).expect("a file");
    file.write_all(&content).and_then(|()| file.sync_all()).expect("room for it");
    content
}

/// What everything is compared with.
pub fn curl(origin: &Origin, dir: &Path) -> Duration {
    let target = dir.join("curled");
    let begin = Instant::now();
    let status = Command::new("curl").args(["-sSf", "-o"]).arg(&target).arg(origin.url()).status();
    let took = begin.elapsed();
    assert!(status.expect("curl runs").success(), "curl failed");
    std::fs::remove_file(&target).expect("what curl made");
    settle(dir);
    took
}

async fn pulled(origin: &Origin, dir: &Path, checksum: &Digest) -> Duration {
    let (disk, name, id) = place(dir);
    let settings =
        OriginSettings { allow_private_hosts: vec![origin.address.clone()], ..OriginSettings::default() };
    let (_, elsewhere) = watch::channel(Held::default());
    let throttle = Arc::new(Throttle::new(0));
    let options = Options { checksum: Some(checksum.clone()), elsewhere, throttle, settings };
    let begin = Instant::now();
    let file = ImageFile::open(&disk, &name, &id).expect("a place");
    let source = Source::parse(&origin.url(), &name, &options.settings).expect("an address");
    pull(&file, &source, &options, &CancellationToken::new()).await.expect("pulled");
    let took = begin.elapsed();
    assert!(file.filled_now().downloaded);
    drop(file);
    disk.remove(&name, &id).expect("removed");
    settle(dir);
    took
}

pub fn place(dir: &Path) -> (Arc<DiskDir>, ImageName, ImageId) {
    let path: PathBuf = dir.join("disk");
    std::fs::create_dir_all(&path).expect("a directory");
    DiskDir::init(&path).expect("a disk");
    let disk = DiskDir::open(&path, None, 0).expect("a disk");
    let id = ImageId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").expect("a uuid");
    (disk, ImageName::parse("bench").expect("a name"), id)
}

/// What one left to be written is not for the next one to pay.
fn settle(dir: &Path) {
    disk::durable::sync_fs(dir).expect("synced");
}
