//! `holdfast image token …`.

use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::period::Period;
use serde::Serialize;
use wire::rest::{Grant, MadeToken, NewToken, Token};

use super::site::Site;
use crate::cli::Global;
use crate::failure::Result;
use crate::output::{self, Show, table};

#[derive(Debug, Args)]
pub struct TokenCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token, and print it: it is never shown again
    Create {
        /// For managers to join with, and nothing else
        #[arg(long, conflicts_with = "read_only")]
        join: bool,
        /// To look, and change nothing
        #[arg(long)]
        read_only: bool,
        /// Whom it is for, in words
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
        /// Not good any more after this long; without end, unless given
        #[arg(long, value_name = "TIME")]
        expires: Option<Period>,
    },
    /// List the tokens, without their secrets
    Ls,
    /// Revoke a token
    Rm {
        /// As `token ls` shows it
        id: String,
    },
}

impl TokenCommand {
    pub fn run(&self, site: &Site, global: &Global) -> Result<Exit> {
        match &self.verb {
            Verb::Create { join, read_only, note, expires } => {
                let role = match (join, read_only) {
                    (true, _) => Grant::Join,
                    (_, true) => Grant::Reader,
                    _ => Grant::Admin,
                };
                let ttl_seconds = expires.map(|period| period.get().as_secs());
                let new = NewToken { role, description: note.clone(), ttl_seconds };
                let made = site.ask(site.client.make_token(&new))?;
                output::show(&MadeView(made), global.output)?;
            }
            Verb::Ls => output::show(&TokenList { items: site.ask(site.client.tokens())? }, global.output)?,
            Verb::Rm { id } => {
                site.ask(site.client.remove_token(id))?;
                site.say(&format!("{id} is revoked"));
            }
        }
        Ok(Exit::Done)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct MadeView(MadeToken);

impl Show for MadeView {
    const KIND: &'static str = "Token";

    /// The token alone, so that `$(holdfast image token create)` is one.
    fn table(&self, _wide: bool) -> String {
        format!("{}\n", self.0.token)
    }

    fn names(&self) -> Vec<String> {
        vec![self.0.token.split('_').nth(1).unwrap_or_default().to_owned()]
    }
}

#[derive(Serialize)]
struct TokenList {
    items: Vec<Token>,
}

fn in_words(role: Grant) -> &'static str {
    match role {
        Grant::Admin => "everything",
        Grant::Reader => "looking",
        Grant::Join => "joining",
    }
}

impl Show for TokenList {
    const KIND: &'static str = "TokenList";

    fn table(&self, _wide: bool) -> String {
        let rows: Vec<Vec<String>> = self
            .items
            .iter()
            .map(|token| {
                let (about, spec) = (&token.metadata, &token.spec);
                let expires = spec.expires.map_or_else(|| "never".to_owned(), left);
                let use_for = in_words(spec.role).to_owned();
                let created = about.creation_timestamp.clone();
                vec![about.name.clone(), use_for, created, expires, spec.description.clone()]
            })
            .collect();
        table(&["ID", "FOR", "CREATED", "EXPIRES", "NOTE"], &rows)
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|token| token.metadata.name.clone()).collect()
    }
}

/// From now on, as people say it.
fn left(expires: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = (expires / 1000).saturating_sub(now.as_secs());
    match seconds {
        0 => "expired".to_owned(),
        _ => format!("in {}", Period::seconds(seconds)),
    }
}
