//! The beginning of a migration in each language: it runs as it is, and passes the values on.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::migrate::Named;
use clap::ValueEnum;
use logic::exit::Exit;

use crate::failure::{Failure, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Language {
    /// One file, run by python3
    #[default]
    Python,
    /// One file, run by sh with jq
    Sh,
    /// A package to build with cargo; what it builds is the migration
    Rust,
}

impl Language {
    /// The files below the place that is made, with their text.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[("", include_str!("skeleton/migration.py"))],
            Self::Sh => &[("", include_str!("skeleton/migration.sh"))],
            Self::Rust => &[
                ("Cargo.toml", include_str!("skeleton/package.toml")),
                ("src/main.rs", include_str!("skeleton/migration.rs.txt")),
            ],
        }
    }
}

/// Says what it made: an executable, or the directory of a package.
pub fn write(name: &str, language: Language, dir: &Path) -> Result<PathBuf> {
    let named = Named::parse(name).map_err(|error| {
        Failure::usage(
            format!("{name:?} is not the name of a migration: {error}"),
            "name it <target>-<version>[-words], such as appliance-3-rename-port",
        )
    })?;
    if named.version < 2 || name.contains('/') {
        return Err(Failure::usage(
            format!("{name:?} is not the name of a migration"),
            "the first migration leads to version 2; a name has no slash, and --dir says where to put it",
        ));
    }
    let place = dir.join(name);
    if fs::symlink_metadata(&place).is_ok() {
        return Err(Failure {
            exit: Exit::Refused,
            error: format!("{} exists already", place.display()),
            causes: vec![],
            hint: "choose another name: a migration that was released must not change".to_owned(),
        });
    }
    if language == Language::Rust && is_of_a_release(dir) {
        return Err(Failure {
            exit: Exit::Refused,
            error: format!("{} is for migrations, and a package to build is none yet", dir.display()),
            causes: vec![],
            hint: "put the package elsewhere with --dir, and what cargo builds from it into that directory"
                .to_owned(),
        });
    }
    let from = named.version - 1;
    let filled = |text: &str| {
        text.replace("{NAME}", name)
            .replace("{TARGET}", named.target.as_str())
            .replace("{FROM}", &from.to_string())
            .replace("{TO}", &named.version.to_string())
    };
    let write = || -> io::Result<()> {
        for (below, text) in language.files() {
            let path = if below.is_empty() { place.clone() } else { place.join(below) };
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, filled(text))?;
            if below.is_empty() {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    };
    write().map_err(|error| {
        Failure::new(Exit::Unexpected, &error, format!("see that {} can be written", dir.display()))
    })?;
    Ok(place)
}

/// The directory of a release, where everything has to be a migration: by its name, or because there are some.
fn is_of_a_release(dir: &Path) -> bool {
    let is_migration = |entry: fs::DirEntry| {
        entry.path().is_file() && entry.file_name().to_str().is_some_and(|name| Named::parse(name).is_ok())
    };
    let named =
        std::path::absolute(dir).is_ok_and(|dir| dir.file_name().is_some_and(|name| name == "migrations"));
    named || fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_migration))
}
