//! Commands that are killed at an exact point: after a change of theirs to the books, to a journal, to anything that is kept.

use std::fs;
use std::io::Write;
use std::path::Path;

use testkit::trace::{Call, Trace};

use super::world::{World, state};
use crate::upgrade::site::Kind;

/// Of a state that the books are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// They say so since an instant.
    Begun,
    /// What is to follow is written, and has not taken their place.
    Done,
}

/// A file was replaced.
pub fn is_kept(call: &Call, file: &Path) -> bool {
    call.name.starts_with("rename") && call.what.ends_with(&format!("-> {}", file.display()))
}

/// Something was added to a file.
pub fn is_record(call: &Call, file: &Path) -> bool {
    call.name.contains("write") && call.what == file.display().to_string()
}

impl<K: Kind> World<K> {
    /// Runs a command and kills it, and nothing that it has started, after the first change that `when` says yes to.
    #[track_caller]
    pub fn killed_when(&self, words: &[&str], when: impl FnMut(&Call) -> bool + Send) {
        fs::create_dir_all(self.state()).unwrap();
        let roots = [self.state(), self.site.appliance()];
        let killed = Trace::kill_alone_when(self.command(words), &roots.each_ref().map(|root| &**root), when);
        let said = match &killed {
            Ok(killed) => &killed.stderr,
            Err(traced) => &traced.stderr,
        };
        let mut log = fs::File::options().create(true).append(true).open(self.agent_log()).unwrap();
        log.write_all(said.as_bytes()).unwrap();
        assert!(killed.is_ok(), "{words:?} came to its end:\n{}", self.log());
    }

    #[track_caller]
    pub fn killed_in(&self, words: &[&str], wanted: &str, moment: Moment) {
        let books = self.books_file();
        // Of books: it syncs no others there.
        let draft = self.state().join(format!("{}tmp-", disk::RESERVED_PREFIX)).display().to_string();
        self.killed_when(words, move |call| {
            let now = match moment {
                Moment::Begun => is_kept(call, &books),
                Moment::Done => call.name == "fsync" && call.what.starts_with(&draft),
            };
            now && state(&books) == wanted
        });
        assert_eq!(self.agent_state(), wanted);
    }
}
