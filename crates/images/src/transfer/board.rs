//! What an image file has, as it changes: pieces that came and went, a list that grew, a seal, a new beginning.
//!
//! Nobody tells: the file is looked at again, and what is different since the last look is the news.

use std::sync::Arc;

use logic::images::{ChunkList, Held, Piece, Seal};

use crate::file::{FileError, Filled, ImageFile, Validators};

/// Four pieces share a word of the file's bits.
const PIECES_PER_WORD: usize = 64 / ChunkList::CHUNKS_PER_PIECE;

#[derive(Debug)]
pub struct Board {
    file: Arc<ImageFile>,
    pub generation: u64,
    /// Chunks that are listed.
    pub listed: usize,
    /// Pieces that are listed, as far as they will not grow any more.
    pub pieces: u32,
    pub held: Held,
    pub seal: Option<Seal>,
    pub total: Option<u64>,
    pub validators: Validators,
    /// The file's bits at the last look.
    words: Vec<u64>,
    /// Since when the last piece, which is shorter, counts.
    complete: bool,
}

/// What is new since the last look.
#[derive(Debug, Default)]
pub struct News {
    /// All began again: whatever was known is void.
    pub restarted: bool,
    pub has: Vec<Piece>,
    pub lost: Vec<Piece>,
    pub filled: Filled,
}

impl Board {
    pub fn new(file: &Arc<ImageFile>) -> Result<Self, FileError> {
        let mut board = Self {
            file: Arc::clone(file),
            generation: file.filled_now().generation,
            listed: 0,
            pieces: 0,
            held: Held::default(),
            seal: None,
            total: None,
            validators: Validators::default(),
            words: Vec::new(),
            complete: false,
        };
        board.look()?;
        Ok(board)
    }

    pub fn look(&mut self) -> Result<News, FileError> {
        loop {
            let filled = self.file.filled_now();
            let mut news = News { filled, ..News::default() };
            if news.filled.generation != self.generation {
                news.restarted = true;
                self.generation = news.filled.generation;
                self.listed = 0;
                self.pieces = 0;
                self.held = Held::default();
                self.words.clear();
                self.seal = None;
                self.complete = false;
            }
            let file = Arc::clone(&self.file);
            file.with(|list, held, seal| self.compare(list, held, seal, &mut news))?;
            self.total = news.filled.total;
            // Between the two looks all may have begun again: then this was of the next generation.
            if self.file.filled_now().generation == self.generation {
                self.validators = self.file.validators();
                return Ok(news);
            }
        }
    }

    fn compare(&mut self, list: &ChunkList, held: &Held, seal: Option<&Seal>, news: &mut News) {
        if self.seal.as_ref() != seal {
            self.seal = seal.cloned();
        }
        self.listed = list.len();
        let complete = seal.is_some_and(|seal| seal.size == list.size());
        self.pieces = list.pieces(complete);
        let words = held.words();
        let became_complete = complete != self.complete;
        self.complete = complete;
        for at in 0..words.len().max(self.words.len()) {
            let now = words.get(at).copied().unwrap_or(0);
            if now != self.words.get(at).copied().unwrap_or(0) {
                for piece in at * PIECES_PER_WORD..(at + 1) * PIECES_PER_WORD {
                    self.piece(piece, list, held, news);
                }
            }
        }
        if became_complete && self.pieces > 0 {
            self.piece(self.pieces as usize - 1, list, held, news);
        }
        self.words.clear();
        self.words.extend_from_slice(words);
    }

    fn piece(&mut self, index: usize, list: &ChunkList, held: &Held, news: &mut News) {
        let Ok(number) = u32::try_from(index) else { return };
        let piece = Piece(number);
        let chunks = list.chunks_of(piece);
        let there = number < self.pieces && !chunks.is_empty() && held.contains_all(chunks);
        if there && self.held.insert(index) {
            news.has.push(piece);
        } else if !there && self.held.remove(index) {
            news.lost.push(piece);
        }
    }
}
