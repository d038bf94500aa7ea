//! What an image is by its first bytes: raw, or qcow2 with the size that a machine sees.
//!
//! A qcow2 that needs another file is refused: a backing file would be opened wherever the image is used, by a name that
//! whoever made the image chose, and what it holds is not verified with the image.

use logic::images::Format;

use super::config::Shape;
use crate::qcow2::{BadHeader, Header};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("it is not qcow2: it begins with {begin:?}")]
    NotQcow2 { begin: String },
    #[error(transparent)]
    Header(#[from] BadHeader),
    #[error("it is a qcow2 that needs the backing file {0:?}")]
    BackingFile(String),
    #[error("it is a qcow2 that keeps its data in another file")]
    ExternalData,
}

impl FormatError {
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotQcow2 { .. } => {
                "look at what the address serves: an error page, or a compressed image? A raw image is created with --format raw"
                    .into()
            }
            Self::BackingFile(_) => {
                "make an image that stands alone: qemu-img convert -O qcow2 IMAGE NEW (or qemu-img rebase -b \"\")".into()
            }
            Self::ExternalData => "make an image that stands alone: qemu-img convert -O qcow2 IMAGE NEW".into(),
            Self::Header(_) => "look at it with qemu-img check".into(),
        })
    }
}

/// What an image of `size` bytes is, by its first [`crate::qcow2::HEADER_BYTES`], or all, if it is shorter. What was said to be raw is.
pub fn shape_of(head: &[u8], size: u64, said: Option<Format>) -> Result<Shape, FormatError> {
    let raw = Shape { format: Format::Raw, virtual_size: size };
    if said == Some(Format::Raw) {
        return Ok(raw);
    }
    match Header::read(head)? {
        None if said == Some(Format::Qcow2) => {
            let begin = String::from_utf8_lossy(&head[..head.len().min(40)]).into_owned();
            Err(FormatError::NotQcow2 { begin })
        }
        None => Ok(raw),
        Some(Header { backing_file: Some(name), .. }) => Err(FormatError::BackingFile(name)),
        Some(header) if header.external_data => Err(FormatError::ExternalData),
        Some(header) => Ok(Shape { format: Format::Qcow2, virtual_size: header.virtual_size }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qcow2::{EXTERNAL_DATA, MAGIC};

    fn qcow2(version: u32, backing: Option<&str>, features: u64) -> Vec<u8> {
        let mut header = vec![0; 512];
        header[..4].copy_from_slice(MAGIC);
        header[4..8].copy_from_slice(&version.to_be_bytes());
        header[24..32].copy_from_slice(&(7_u64 << 30).to_be_bytes());
        header[72..80].copy_from_slice(&features.to_be_bytes());
        if let Some(name) = backing {
            header[8..16].copy_from_slice(&200_u64.to_be_bytes());
            header[16..20].copy_from_slice(&u32::try_from(name.len()).unwrap().to_be_bytes());
            header[200..200 + name.len()].copy_from_slice(name.as_bytes());
        }
        header
    }

    #[test]
    fn a_qcow2_is_known_by_its_header_and_anything_else_is_raw() {
        let shape = shape_of(&qcow2(3, None, 0), 512, None).unwrap();
        assert_eq!(shape, Shape { format: Format::Qcow2, virtual_size: 7 << 30 });
        assert_eq!(shape_of(b"hello", 5, None).unwrap(), Shape { format: Format::Raw, virtual_size: 5 });
        assert_eq!(shape_of(&qcow2(3, None, 0), 512, Some(Format::Raw)).unwrap().virtual_size, 512);
    }

    #[test]
    fn a_qcow2_that_needs_another_file_is_refused_wherever_that_is() {
        for name in ["/etc/shadow", "base.qcow2", "../x", "json:{}"] {
            let refused = shape_of(&qcow2(2, Some(name), 0), 512, None).unwrap_err();
            assert_eq!(refused, FormatError::BackingFile(name.into()));
            assert!(refused.hint().is_some());
        }
        assert_eq!(shape_of(&qcow2(3, None, EXTERNAL_DATA), 512, None), Err(FormatError::ExternalData));
    }

    #[test]
    fn what_is_said_to_be_qcow2_must_be() {
        let refused = shape_of(b"<!DOCTYPE html><title>503</title>", 33, Some(Format::Qcow2)).unwrap_err();
        assert!(refused.to_string().contains("DOCTYPE"), "{refused}");
    }

    #[test]
    fn headers_that_make_no_sense_are_refused_and_never_read_past_their_end() {
        let mut far = qcow2(2, Some("x"), 0);
        far[8..16].copy_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(shape_of(&far, 512, None), Err(FormatError::BackingFile(String::new())));
        for header in [MAGIC, &qcow2(9, None, 0), &qcow2(3, None, 1 << 40), &qcow2(3, None, 1 << 1)] {
            assert!(matches!(shape_of(header, 512, None), Err(FormatError::Header(_))));
        }
    }
}
