//! A desk on this machine: three files in the agent's directory. The agent alone writes the books and the news; whoever has a
//! wish writes the wishes, and the agent sees that they have changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Lock;
use logic::agent::Books;
use rustix::fs::inotify;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::{Desk, DeskError, News, Wishes};

/// A hundred attempts are far below it.
const LIMIT: u64 = 8 << 20;
/// Whoever writes wishes does so for an instant.
const ATTEMPTS: u32 = 200;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    /// None where the kernel gives no more of them: then wishes are seen when the agent wakes for another reason.
    watch: Option<Arc<Notify>>,
}

impl DeskError {
    fn file(path: &Path, error: &dyn std::error::Error) -> Self {
        Self {
            why: format!("{}: {}", path.display(), oci::chain(error)),
            way_out: "see that the agent's directory is there, and may be written to".to_owned(),
        }
    }
}

impl Files {
    /// For whoever looks, or has a wish.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), watch: None }
    }

    /// For the agent itself.
    pub fn watched(directory: &Path) -> Self {
        let watch = watch(directory).inspect_err(|error| {
            tracing::warn!(cause = %error, "changed wishes are seen late");
        });
        Self { directory: directory.to_owned(), watch: watch.ok() }
    }

    /// There is one agent to a directory.
    pub fn lock(&self) -> Result<Option<Lock>, DeskError> {
        let path = self.directory.join("agent.lock");
        fs::create_dir_all(&self.directory).map_err(|error| DeskError::file(&self.directory, &error))?;
        Lock::try_acquire(&path).map_err(|error| DeskError::file(&path, &error))
    }

    pub fn is_running(&self) -> bool {
        Lock::is_held(&self.directory.join("agent.lock")).unwrap_or(false)
    }

    pub fn read_books(&self) -> Result<Books, DeskError> {
        read(&self.books_file())
    }

    pub fn read_wishes(&self) -> Result<Wishes, DeskError> {
        read(&self.wishes_file())
    }

    pub fn read_news(&self) -> Result<News, DeskError> {
        // Written without a sync: after a power cut there may be half of it, and nothing is lost with it.
        Ok(read(&self.news_file()).unwrap_or_default())
    }

    /// Changes the wishes; two who do so at once both have their way.
    pub fn wish(&self, change: impl FnOnce(&mut Wishes)) -> Result<Wishes, DeskError> {
        fs::create_dir_all(&self.directory).map_err(|error| DeskError::file(&self.directory, &error))?;
        let lock = self.directory.join("wishes.lock");
        let mut attempts = 0;
        let _held = loop {
            match Lock::try_acquire(&lock).map_err(|error| DeskError::file(&lock, &error))? {
                Some(held) => break held,
                None if attempts < ATTEMPTS => std::thread::sleep(PAUSE),
                None => {
                    let why = format!("{} is held by another command", lock.display());
                    return Err(DeskError { why, way_out: "try again".to_owned() });
                }
            }
            attempts += 1;
        };
        let mut wishes = self.read_wishes()?;
        change(&mut wishes);
        write(&self.wishes_file(), &wishes)?;
        Ok(wishes)
    }

    fn books_file(&self) -> PathBuf {
        self.directory.join("books.json")
    }

    fn wishes_file(&self) -> PathBuf {
        self.directory.join(WISHES)
    }

    fn news_file(&self) -> PathBuf {
        self.directory.join("news.json")
    }
}

const WISHES: &str = "wishes.json";

/// A thread that waits for the kernel: it costs nothing until a file is replaced, and ends after whoever wanted to know.
fn watch(directory: &Path) -> io::Result<Arc<Notify>> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    // Files are replaced, never rewritten.
    inotify::add_watch(&watch, directory, inotify::WatchFlags::MOVED_TO)?;
    let changed = Arc::new(Notify::new());
    let told = Arc::downgrade(&changed);
    std::thread::Builder::new().name("wishes".to_owned()).spawn(move || {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&watch, &mut buffer);
        while let Ok(event) = reader.next() {
            let Some(told) = told.upgrade() else { return };
            if event.file_name().is_none_or(|name| name.to_bytes() == WISHES.as_bytes()) {
                told.notify_one();
            }
        }
    })?;
    Ok(changed)
}

fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T, DeskError> {
    let bytes = disk::durable::read_limited(path, LIMIT).map_err(|error| DeskError::file(path, &error))?;
    let Some(bytes) = bytes else { return Ok(T::default()) };
    serde_json::from_slice(&bytes).map_err(|error| DeskError {
        why: format!("{} is damaged: {error}", path.display()),
        way_out: format!(
            "move {} away: what the machine runs is not in it, and is found out anew",
            path.display()
        ),
    })
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), DeskError> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| DeskError::file(path, &error))?;
    disk::durable::write_durably(path, &text).map_err(|error| DeskError::file(path, &error))
}

impl Desk for Files {
    async fn books(&self) -> Result<Books, DeskError> {
        self.read_books()
    }

    async fn keep(&self, books: &Books) -> Result<(), DeskError> {
        write(&self.books_file(), books)
    }

    async fn wishes(&self) -> Result<Wishes, DeskError> {
        self.read_wishes()
    }

    async fn changed(&self) {
        match &self.watch {
            Some(watch) => watch.notified().await,
            None => std::future::pending().await,
        }
    }

    async fn show(&self, _books: &Books, news: &News) {
        // Replaced, so that whoever reads it reads one of the two; not synced: it is written often, and worth little.
        let path = self.news_file();
        let temporary = path.with_extension("tmp");
        let Ok(text) = serde_json::to_vec_pretty(news) else { return };
        let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            tracing::debug!(cause = %error, path = %path.display(), "news can't be shown");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("holdfast-desk-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_agent_wakes_for_wishes_and_for_nothing_else() {
        let directory = directory("wakes");
        let desk = Files::watched(&directory);
        let news = tokio::time::timeout(std::time::Duration::from_millis(300), async {
            desk.show(&Books::default(), &News::default()).await;
            desk.changed().await;
        });
        assert!(news.await.is_err(), "its own news woke it");
        Files::at(&directory).wish(|wishes| wishes.automatic = Some(true)).unwrap();
        tokio::time::timeout(std::time::Duration::from_secs(20), desk.changed()).await.unwrap();
        assert_eq!(desk.wishes().await.unwrap().automatic, Some(true));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn many_who_wish_at_once_all_have_their_way() {
        let directory = directory("many");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let desk = Files::at(&directory);
                scope.spawn(move || {
                    let mark = |text: &mut Option<String>| {
                        *text = Some(format!("{}{number}", text.take().unwrap_or_default()));
                    };
                    desk.wish(|wishes| mark(&mut wishes.channel)).unwrap();
                });
            }
        });
        let mut marks = Files::at(&directory).read_wishes().unwrap().channel.unwrap().into_bytes();
        marks.sort_unstable();
        assert_eq!(marks, b"01234567");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn damaged_books_are_named_with_a_way_out() {
        let directory = directory("damaged");
        fs::write(directory.join("books.json"), "{").unwrap();
        let error = Files::at(&directory).read_books().unwrap_err();
        assert!(error.why.contains("books.json is damaged"), "{error}");
        assert!(error.way_out.contains("move"), "{}", error.way_out);
        fs::remove_dir_all(&directory).unwrap();
    }
}
