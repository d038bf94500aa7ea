//! How what this crate finds is put into words. Everything a person may read comes through here.

use std::fmt;

use crate::lock::Holder;
use crate::tree::{Difference, Method, Mismatch, Warning};

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}: {}", self.pid, self.command)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Reflink => "reflink",
            Method::PlainCopy => "plain-copy",
            Method::Snapshot => "snapshot",
            Method::Mixed => "mixed",
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Crossed { path } => {
                write!(
                    f,
                    "{} is on another file system; its content was copied like the rest",
                    path.display()
                )
            }
            Warning::AttributeDropped { path, name } => {
                write!(f, "{}: the copy could not take the attribute {name}", path.display())
            }
            Warning::ChangedWhileCopied { path } => {
                write!(f, "{} changed while it was copied: is something using the data?", path.display())
            }
            Warning::SnapshotDeclined { path, why } => {
                write!(f, "{} was copied file by file instead of by a snapshot: {why}", path.display())
            }
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        let name = if path.is_empty() { "the directory itself" } else { &path };
        write!(f, "{name}: {}", self.difference)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Missing => "missing",
            Difference::Extra => "not in the backup when it was made",
            Difference::Kind => "of another kind",
            Difference::Size => "of another size",
            Difference::Mode => "with another mode",
            Difference::Owner => "of another owner",
            Difference::Mtime => "with another time",
            Difference::Touched => "touched since the backup was made",
            Difference::Content => "of another content",
            Difference::Unreadable => "can't be read",
        })
    }
}
