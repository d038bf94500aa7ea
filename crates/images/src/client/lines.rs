//! A watch: one JSON document a line, for as long as the site sends them.

use reqwest::Response;
use serde::de::DeserializeOwned;

use super::error::Error;

/// No object is longer.
const LINE: usize = 4 << 20;

#[derive(Debug)]
pub struct Lines {
    answer: Response,
    buffer: Vec<u8>,
}

impl Lines {
    pub fn new(answer: Response) -> Self {
        Self { answer, buffer: Vec::new() }
    }

    /// The next one; none when the site ended the watch.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                // Empty lines keep the connection alive.
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return serde_json::from_slice(&line).map(Some).map_err(Error::Answer);
            }
            if self.buffer.len() > LINE {
                return Err(Error::TooLong { limit: LINE });
            }
            match self.answer.chunk().await {
                Ok(Some(part)) => self.buffer.extend_from_slice(&part),
                Ok(None) => return Ok(None),
                Err(source) => return Err(Error::Cut(source.without_url())),
            }
        }
    }
}
