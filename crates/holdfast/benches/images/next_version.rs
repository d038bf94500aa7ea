//! How much of an image's next version must be fetched where the one before is: a system in an ext4 image, rebuilt with some
//! of its files changed.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use images::file::{ImageFile, Validators, cut};
use logic::images::{Chunk, ChunkList, Hash, ImageId, Seal};

use crate::pull::place;
use crate::table::{Row, Wanted};

pub const WHAT: &str = "next version of a rebuilt 2 GiB ext4 image (3 % of the files changed)";
const IMAGE: &str = "2G";
const BAR: f64 = 10.0;
/// As in /usr of a Debian system: most are small, few are large, about 24 KiB on average.
const FILES: u32 = 50_000;
const PER_DIRECTORY: u32 = 50;

pub fn rows(dir: &Path, wanted: &Wanted) -> Vec<Row> {
    if !wanted.has(WHAT) {
        return vec![];
    }
    let tree = dir.join("tree");
    let mut bytes = 0;
    for number in 0..FILES {
        bytes += write(&tree, number, 0);
    }
    let (first, second) = (dir.join("first.img"), dir.join("second.img"));
    build(&tree, &first);
    let mut changed = 0;
    for number in (0..FILES).filter(|number| is_changed(*number)) {
        changed += write(&tree, number, 1);
    }
    build(&tree, &second);
    fs::remove_dir_all(&tree).expect("the tree is removed");
    let (disk, name, _) = place(dir);
    let id = |number: u8| {
        ImageId::parse(&format!("00000000-0000-0000-0000-0000000000{number:02x}")).expect("a uuid")
    };
    let before = ImageFile::open(&disk, &name, &id(1)).expect("a place");
    let list = listed(&before, &first);
    fill(&before, &first, &list);
    let after = ImageFile::open(&disk, &name, &id(2)).expect("a place");
    let list = listed(&after, &second);
    let reused = after.fill_from_this_disk().expect("what is there");
    let fetched = list.size() - reused.bytes;
    fill(&after, &second, &list);
    let percent = fetched as f64 * 100.0 / list.size() as f64;
    let mebibytes = |bytes: u64| bytes >> 20;
    vec![
        Row {
            what: WHAT.to_owned(),
            measured: format!("{percent:.1} % of its bytes"),
            bar: format!("≤ {BAR} %"),
            detail: format!(
                "{} MiB fetched; {FILES} files of {} MiB, {} MiB in changed ones",
                mebibytes(fetched),
                mebibytes(bytes),
                mebibytes(changed)
            ),
            holds: percent <= BAR,
        }
        .said(),
    ]
}

fn is_changed(number: u32) -> bool {
    draw(number, 7) % 100 < 3
}

fn draw(number: u32, salt: u32) -> u64 {
    let hash = blake3::hash(&[number.to_le_bytes(), salt.to_le_bytes()].concat());
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// Half are below 4 KiB, one of a hundred is half a megabyte or more.
fn length(number: u32, version: u32) -> usize {
    let power = match draw(number, 1) % 100 {
        0..50 => 9 + draw(number, 2) % 3,
        50..85 => 12 + draw(number, 2) % 3,
        85..99 => 15 + draw(number, 2) % 2,
        _ => 19 + draw(number, 2) % 2,
    };
    let base = 1_usize << power;
    base + usize::try_from(draw(number, 3) % base as u64).unwrap_or(0) + 13 * version as usize
}

fn write(tree: &Path, number: u32, version: u32) -> u64 {
    let dir = tree.join(format!("{:04}", number / PER_DIRECTORY));
    fs::create_dir_all(&dir).expect("a directory");
    let mut content = vec![0; length(number, version)];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes()).update(&version.to_le_bytes());
    hasher.finalize_xof().fill(&mut content);
    fs::write(dir.join(format!("{number:06}")), &content).expect("room for it");
    content.len() as u64
}

fn build(tree: &Path, image: &Path) {
    let status = Command::new("mkfs.ext4").args(["-q", "-d"]).arg(tree).arg(image).arg(IMAGE).status();
    assert!(status.expect("mkfs.ext4 runs").success(), "mkfs.ext4 failed");
}

/// As a peer tells it.
fn listed(file: &ImageFile, image: &Path) -> ChunkList {
    let mut list = ChunkList::default();
    each_block(image, |bytes, last| {
        let ranges = cut(bytes, last);
        for range in &ranges {
            let length = u32::try_from(range.len()).expect("a short chunk");
            list.push(Chunk { hash: Hash::of(&bytes[range.clone()]), length }).expect("a chunk");
        }
        ranges.last().map_or(0, |range| range.end)
    });
    file.extend(0, 0, list.chunks(), Some(list.size()), &Validators::default()).expect("listed");
    list
}

/// What is missing comes from the image itself, as it would from a peer.
fn fill(file: &ImageFile, image: &Path, list: &ChunkList) {
    use std::os::unix::fs::FileExt;
    let source = fs::File::open(image).expect("the image");
    for index in 0..list.len() {
        if !file.with(|_, held, _| held.contains(index)).expect("held") {
            let span = list.span(index..index + 1);
            let mut bytes = vec![0; usize::try_from(span.end - span.start).expect("a short chunk")];
            source.read_exact_at(&mut bytes, span.start).expect("its bytes");
            assert!(file.put(index, &bytes).expect("put").bad.is_empty());
        }
    }
    let seal = Seal { size: list.size(), root: list.root(), sha256: "sha256:none".into(), sha512: None };
    file.set_seal(seal).expect("sealed");
    file.finish().expect("whole");
}

fn each_block(image: &Path, mut take: impl FnMut(&[u8], bool) -> usize) {
    let mut file = fs::File::open(image).expect("the image");
    let (mut buffer, mut filled) = (vec![0; 8 << 20], 0);
    loop {
        let read = file.read(&mut buffer[filled..]).expect("its bytes");
        filled += read;
        if read > 0 && filled < buffer.len() {
            continue;
        }
        let taken = take(&buffer[..filled], read == 0);
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
        if read == 0 {
            return;
        }
    }
}
