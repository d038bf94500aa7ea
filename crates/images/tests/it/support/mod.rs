//! Images made from a seed, and a disk in a directory of the test.
#![allow(dead_code, reason = "each test file uses another part")]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use images::file::{DiskDir, ImageFile, Validators, cut};
use logic::images::{Chunk, ChunkList, Hash, ImageId, ImageName, Seal};

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Bytes that nobody can guess and everybody can make again.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

pub struct Image {
    pub content: Vec<u8>,
    pub chunks: Vec<Chunk>,
    pub list: ChunkList,
}

impl Image {
    pub fn of(length: usize) -> Self {
        Self::seeded(length, 1)
    }

    pub fn seeded(length: usize, seed: u64) -> Self {
        Self::new(noise(length, seed))
    }

    pub fn new(content: Vec<u8>) -> Self {
        let mut list = ChunkList::default();
        for range in cut(&content, true) {
            let bytes = &content[range];
            list.push(Chunk { hash: Hash::of(bytes), length: u32::try_from(bytes.len()).unwrap() }).unwrap();
        }
        Self { content, chunks: list.chunks().to_vec(), list }
    }

    pub fn size(&self) -> u64 {
        self.content.len() as u64
    }

    pub fn start(&self, chunk: usize) -> u64 {
        self.list.start(chunk)
    }

    pub fn bytes(&self, chunks: Range<usize>) -> &[u8] {
        let span = self.list.span(chunks);
        &self.content[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()]
    }

    pub fn seal(&self) -> Seal {
        let sha256 = trust::digest::Digest::sha256(&self.content).to_string();
        Seal { size: self.size(), root: self.list.root(), sha256, sha512: None }
    }
}

/// A disk with one image's place on it; gone with the test.
pub struct Place {
    root: PathBuf,
    pub disk: Arc<DiskDir>,
    pub name: ImageName,
    pub id: ImageId,
}

impl Place {
    pub fn new() -> Self {
        Self::with_reserve(0)
    }

    pub fn with_reserve(reserve: u64) -> Self {
        Self::below(&std::env::temp_dir(), reserve)
    }

    pub fn below(parent: &Path, reserve: u64) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let root = parent.join(format!("holdfast-images-{}-{number}", std::process::id()));
        let path = root.join("disk");
        std::fs::create_dir_all(&path).unwrap();
        let id = DiskDir::init(&path).unwrap();
        let disk = DiskDir::open(&path, Some(&id), reserve).unwrap();
        let name = ImageName::parse("debian-12.5").unwrap();
        let id = ImageId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").unwrap();
        Self { root, disk, name, id }
    }

    pub fn path(&self) -> &Path {
        self.disk.path()
    }

    /// What was opened before is of the past.
    pub fn mounted_again(&mut self) {
        self.disk = DiskDir::open(self.disk.path(), Some(self.disk.id()), 0).unwrap();
    }

    /// Beside the disk.
    pub fn outside(&self) -> PathBuf {
        let path = self.root.join("outside");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn open(&self) -> Arc<ImageFile> {
        ImageFile::open(&self.disk, &self.name, &self.id).unwrap()
    }

    /// As a manager that starts again.
    pub fn reopen(&self, file: Arc<ImageFile>) -> Arc<ImageFile> {
        drop(file);
        self.open()
    }

    pub fn whole(&self, image: &Image) -> Arc<ImageFile> {
        let file = self.open();
        fill(&file, image);
        file
    }

    /// Another image of the same disk.
    pub fn other(&self, number: u8) -> Arc<ImageFile> {
        let id = ImageId::parse(&format!("00000000-0000-0000-0000-0000000000{number:02x}")).unwrap();
        ImageFile::open(&self.disk, &self.name, &id).unwrap()
    }
}

pub fn fill(file: &ImageFile, image: &Image) {
    file.extend(0, 0, &image.chunks, Some(image.size()), &Validators::default()).unwrap();
    file.put(0, &image.content).unwrap();
    file.set_seal(image.seal()).unwrap();
    file.finish().unwrap();
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
