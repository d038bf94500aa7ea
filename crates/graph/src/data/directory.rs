//! Graph data in a directory.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::DataError;
use super::tree::{Kind, Tree};
use crate::settings::Limits;

/// All files that are read, as they are now. Links count as what they lead to, as long as that is in the directory.
pub fn read(root: &Path, limits: &Limits) -> Result<Tree, DataError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DataError::Read { path, source }
    };
    let root = fs::canonicalize(root).map_err(failed(root))?;
    let mut tree = Tree::default();
    for path in list(&root, limits)? {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        let kind = Kind::of(&name);
        if let Kind::Stray(why) = kind {
            tree.stray(&name, why);
        }
        if !kind.is_read() {
            continue;
        }
        let real = match fs::canonicalize(&path) {
            Ok(real) => real,
            // Gone since it was listed, or a link to nothing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tree.stray(&name, "there is nothing behind it");
                continue;
            }
            Err(error) => return Err(failed(&path)(error)),
        };
        if !real.starts_with(&root) {
            tree.stray(&name, "it is a link out of the directory");
            continue;
        }
        let file = fs::File::open(&real).map_err(failed(&path))?;
        let about = file.metadata().map_err(failed(&path))?;
        if !about.is_file() {
            tree.stray(&name, "it is not a file");
            continue;
        }
        tree.admit(&name, about.len(), limits)?;
        let mut content = Vec::new();
        // It may grow while it is read.
        file.take(limits.graph_data_bytes + 1).read_to_end(&mut content).map_err(failed(&path))?;
        tree.admit(&name, content.len() as u64, limits)?;
        tree.insert(name, content);
    }
    Ok(tree)
}

/// What is at the top, and in the directories of the layout, in order.
fn list(root: &Path, limits: &Limits) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = vec![root.join("version")];
    if !paths[0].exists() {
        paths.clear();
    }
    for folder in ["channels", "blocked-edges", "raw"] {
        let path = root.join(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(DataError::Read { path, source }),
        };
        for entry in entries {
            let entry = entry.map_err(|source| DataError::Read { path: path.clone(), source })?;
            paths.push(entry.path());
            if paths.len() > limits.graph_data_files {
                return Err(DataError::TooManyFiles(limits.graph_data_files));
            }
        }
    }
    paths.sort();
    Ok(paths)
}
