//! Reading one layer of an image: gzip, zstd or plain, streamed, with a limit on everything. What breaks a limit or
//! leads out of the image is refused; nothing here knows where the bytes come from.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use crate::path::{ImagePath, PathError, Place};

/// Entries of one layer: more than any image has.
const ENTRIES_LIMIT: u64 = 1_000_000;
/// What the headers of one entry may take, long names and extended attributes included. The archive's reader holds
/// them in memory.
const HEADER_LIMIT: u64 = 1 << 20;
/// As large as a window of zstd's highest ordinary level; a frame can ask for much more.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Why the content of a layer is refused. It is the content's fault, not the way's.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("layers of the kind {0:?} are not known here")]
    MediaType(String),
    #[error("it unpacks to more than {limit} bytes")]
    Bytes { limit: u64 },
    #[error("it has more than {limit} entries")]
    Entries { limit: u64 },
    #[error("the headers of an entry are larger than {HEADER_LIMIT} bytes")]
    Headers,
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{path} is {size} bytes long; up to {limit} are read")]
    FileSize { path: String, size: u64, limit: u64 },
    #[error("{path} is not a regular file")]
    NotAFile { path: String },
    #[error("{path} is a device, or of a kind that can't be unpacked")]
    Special { path: String },
    #[error("{path} is a link to nothing that is in the image")]
    Link { path: String },
    #[error("more than {limit} files and directories")]
    Files { limit: usize },
    #[error("it cannot be unpacked")]
    Damaged(#[source] io::Error),
    #[error("cannot write {path}")]
    Write { path: String, source: io::Error },
}

/// What one layer says about one file.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing: layers below decide.
    Nothing,
    /// That it is not there, whatever layers below say.
    Gone,
    Content(Vec<u8>),
}

#[derive(Debug, Clone, Copy)]
pub struct LayerLimits {
    /// Of the layer, unpacked.
    pub layer_bytes: u64,
    /// Of the file that is looked for.
    pub file_bytes: u64,
}

/// What a layer says about the file `wanted`. Within a layer the last entry counts, as it would when unpacked.
pub fn find_file(layer: impl Read, wanted: &ImagePath, limits: LayerLimits) -> Result<Said, LayerError> {
    let mut said = Said::Nothing;
    for_each(layer, limits.layer_bytes, |path, entry| {
        match wanted.place_of(path) {
            Place::Elsewhere | Place::Directory if entry.is_dir() => {}
            Place::Elsewhere => {}
            // A link here would have to be followed, which is how one reads what one was not to.
            Place::Directory => return Err(LayerError::NotAFile { path: path.to_string() }),
            Place::Removed if matches!(said, Said::Nothing) => said = Said::Gone,
            Place::Removed => {}
            Place::Itself => said = Said::Content(entry.content(path, limits.file_bytes)?),
        }
        Ok(())
    })?;
    Ok(said)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    File,
    Symlink,
    HardLink,
    Other,
}

/// One entry of a layer.
pub(crate) struct Entry<'a, 'b, R: Read>(&'a mut tar::Entry<'b, R>);

impl<R: Read> Entry<'_, '_, R> {
    pub(crate) fn is_dir(&self) -> bool {
        self.0.header().entry_type().is_dir()
    }

    pub(crate) fn is_file(&self) -> bool {
        let kind = self.0.header().entry_type();
        kind.is_file() || kind.is_contiguous()
    }

    pub(crate) fn kind(&self) -> EntryKind {
        match self.0.header().entry_type() {
            tar::EntryType::Directory => EntryKind::Directory,
            // With holes where it is sparse: they are written out.
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                EntryKind::File
            }
            tar::EntryType::Symlink => EntryKind::Symlink,
            tar::EntryType::Link => EntryKind::HardLink,
            _ => EntryKind::Other,
        }
    }

    /// Of the content, as it is read.
    pub(crate) fn size(&self) -> u64 {
        self.0.size()
    }

    pub(crate) fn mode(&self) -> io::Result<u32> {
        self.0.header().mode()
    }

    pub(crate) fn owner(&self) -> io::Result<(u32, u32)> {
        let number = |id: u64| u32::try_from(id).map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
        Ok((number(self.0.header().uid()?)?, number(self.0.header().gid()?)?))
    }

    /// Seconds since 1970; 0 where the header makes no sense, for nothing depends on it.
    pub(crate) fn modified(&self) -> i64 {
        self.0.header().mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0)
    }

    pub(crate) fn link_target(&self) -> Option<Vec<u8>> {
        self.0.link_name_bytes().map(|target| target.into_owned()).filter(|target| !target.is_empty())
    }

    /// The whole content, if it is a regular file within the limit: by its header, and by what comes.
    pub(crate) fn content(&mut self, path: &ImagePath, limit: u64) -> Result<Vec<u8>, LayerError> {
        if !self.is_file() {
            return Err(LayerError::NotAFile { path: path.to_string() });
        }
        let size = self.0.size();
        if size > limit {
            return Err(LayerError::FileSize { path: path.to_string(), size, limit });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size.min(64 << 10)).unwrap_or(0));
        let read = self.0.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(LayerError::Damaged)?;
        if read as u64 != size {
            return Err(LayerError::Damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    /// Whether it is a sparse file in a form that looks like a plain one, and whose content begins with a map of it.
    pub(crate) fn is_sparse_in_disguise(&mut self) -> io::Result<bool> {
        let Some(extensions) = self.0.pax_extensions()? else { return Ok(false) };
        for extension in extensions {
            if extension?.key_bytes().starts_with(b"GNU.sparse.") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    /// Reads over what is left of the content, so that what the archive's reader takes next is headers only.
    /// Gives how many bytes it will pass over by itself: those of sparse files, which must not be expanded.
    fn finish(&mut self) -> io::Result<u64> {
        if self.0.header().entry_type().is_gnu_sparse() {
            return self.0.header().entry_size();
        }
        io::copy(self.0, &mut io::sink()).map(|_| 0)
    }
}

/// Calls `each` with every entry of a layer and its path in the image.
pub(crate) fn for_each<L: Read>(
    layer: L,
    limit: u64,
    mut each: impl FnMut(&ImagePath, &mut Entry<'_, '_, Meter<Unpacked<L>>>) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    let gauge = Rc::new(Gauge::new(limit));
    let unpacked = unpacked(layer).map_err(LayerError::Damaged)?;
    let refused = |error: io::Error| gauge.refusal(limit).unwrap_or(LayerError::Damaged(error));
    let mut archive = tar::Archive::new(Meter { reader: unpacked, gauge: Rc::clone(&gauge) });
    let mut entries = archive.entries().map_err(refused)?;
    let mut passed_over = 0;
    for count in 0.. {
        gauge.header_left.set(Some(HEADER_LIMIT.saturating_add(passed_over)));
        let next = entries.next();
        gauge.header_left.set(None);
        let Some(entry) = next else { break };
        if count >= ENTRIES_LIMIT {
            return Err(LayerError::Entries { limit: ENTRIES_LIMIT });
        }
        let mut entry = entry.map_err(refused)?;
        // Headers for the whole archive, which no layer needs, but some builders write.
        if entry.header().entry_type().is_pax_global_extensions() {
            passed_over = Entry(&mut entry).finish().map_err(refused)?;
            continue;
        }
        let path = ImagePath::of_entry(&entry.path_bytes())?;
        let mut entry = Entry(&mut entry);
        each(&path, &mut entry).map_err(|error| match error {
            LayerError::Damaged(error) => refused(error),
            error => error,
        })?;
        passed_over = entry.finish().map_err(refused)?;
    }
    Ok(())
}

/// How much may still be read.
struct Gauge {
    left: Cell<u64>,
    /// While the archive's reader looks for the next entry.
    header_left: Cell<Option<u64>>,
    overrun: Cell<Option<bool>>,
}

impl Gauge {
    fn new(limit: u64) -> Self {
        Self { left: Cell::new(limit), header_left: Cell::new(None), overrun: Cell::new(None) }
    }

    /// The limit that reading broke, if it did: the error that the archive's reader gives then says less.
    fn refusal(&self, limit: u64) -> Option<LayerError> {
        Some(match self.overrun.get()? {
            true => LayerError::Headers,
            false => LayerError::Bytes { limit },
        })
    }
}

pub(crate) struct Meter<R> {
    reader: R,
    gauge: Rc<Gauge>,
}

impl<R: Read> Read for Meter<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.reader.read(into)?;
        let over = |left: u64| left.checked_sub(got as u64);
        match over(self.gauge.left.get()) {
            Some(left) => self.gauge.left.set(left),
            None => {
                self.gauge.overrun.set(Some(false));
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        if let Some(header_left) = self.gauge.header_left.get() {
            let Some(left) = over(header_left) else {
                self.gauge.overrun.set(Some(true));
                return Err(io::ErrorKind::FileTooLarge.into());
            };
            self.gauge.header_left.set(Some(left));
        }
        Ok(got)
    }
}

/// A layer without its compression.
pub(crate) enum Unpacked<R: Read> {
    Gzip(Box<MultiGzDecoder<Start<R>>>),
    Zstd(zstd::stream::read::Decoder<'static, Start<R>>),
    Plain(Start<R>),
}

type Start<R> = BufReader<io::Chain<io::Cursor<Vec<u8>>, R>>;

/// By the first bytes: media types are wrong about it often enough.
fn unpacked<R: Read>(mut layer: R) -> io::Result<Unpacked<R>> {
    let mut magic = Vec::with_capacity(4);
    layer.by_ref().take(4).read_to_end(&mut magic)?;
    let (gzip, zstd) = (magic.starts_with(&[0x1f, 0x8b]), magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    let start = BufReader::with_capacity(64 << 10, io::Cursor::new(magic).chain(layer));
    Ok(if gzip {
        Unpacked::Gzip(Box::new(MultiGzDecoder::new(start)))
    } else if zstd {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(start)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG)?;
        Unpacked::Zstd(decoder)
    } else {
        Unpacked::Plain(start)
    })
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(reader) => reader.read(into),
            Self::Zstd(reader) => reader.read(into),
            Self::Plain(reader) => reader.read(into),
        }
    }
}
