//! From messages to the words of `logic` and back. Whatever comes from outside is checked here, once.

use logic::images::{BadName, FileState, FileStatus, Format, Hash, ImageId, ImageName, Seal};

use crate::images as api;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    #[error("the message names no image")]
    NoImage,
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("{0:?} is not a state of an image")]
    State(String),
    #[error("{0:?} is not a format: expected raw or qcow2")]
    Format(String),
    #[error("a root hash of {0} bytes: expected 32")]
    Root(usize),
    #[error("{0:?} is not a checksum: expected sha256: or sha512: and hexadecimal digits")]
    Checksum(String),
}

/// No text of a message is repeated at more than this length.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

impl api::ImageRef {
    pub fn new(name: &ImageName, uuid: &ImageId) -> Self {
        Self { name: name.to_string(), uuid: uuid.to_string() }
    }

    pub fn parse(&self) -> Result<(ImageName, ImageId), BadMessage> {
        Ok((ImageName::parse(&self.name)?, ImageId::parse(&self.uuid)?))
    }

    /// As [`Self::parse`], where the message may have left it out.
    pub fn required(reference: Option<&Self>) -> Result<(ImageName, ImageId), BadMessage> {
        reference.ok_or(BadMessage::NoImage)?.parse()
    }
}

/// `sha256:` or `sha512:` and as many digits as it takes.
fn checksum(text: &str) -> Result<String, BadMessage> {
    let digits = text
        .strip_prefix("sha256:")
        .filter(|digits| digits.len() == 64)
        .or_else(|| text.strip_prefix("sha512:").filter(|digits| digits.len() == 128));
    match digits {
        Some(digits) if digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) => {
            Ok(text.to_owned())
        }
        _ => Err(BadMessage::Checksum(short(text))),
    }
}

/// Where empty stands for none.
pub(crate) fn optional_checksum(text: &str) -> Result<Option<String>, BadMessage> {
    if text.is_empty() { Ok(None) } else { checksum(text).map(Some) }
}

fn optional_format(text: &str) -> Result<Option<Format>, BadMessage> {
    match text {
        "" => Ok(None),
        "raw" => Ok(Some(Format::Raw)),
        "qcow2" => Ok(Some(Format::Qcow2)),
        other => Err(BadMessage::Format(short(other))),
    }
}

fn format_name(format: Option<Format>) -> String {
    match format {
        None => String::new(),
        Some(Format::Raw) => "raw".to_owned(),
        Some(Format::Qcow2) => "qcow2".to_owned(),
    }
}

impl From<&Seal> for api::Seal {
    fn from(seal: &Seal) -> Self {
        Self {
            size: seal.size,
            root: seal.root.bytes().to_vec().into(),
            sha256: seal.sha256.clone(),
            sha512: seal.sha512.clone().unwrap_or_default(),
        }
    }
}

impl TryFrom<&api::Seal> for Seal {
    type Error = BadMessage;

    fn try_from(seal: &api::Seal) -> Result<Self, BadMessage> {
        let root = <[u8; 32]>::try_from(&seal.root[..]).map_err(|_| BadMessage::Root(seal.root.len()))?;
        Ok(Self {
            size: seal.size,
            root: Hash::new(root),
            sha256: checksum(&seal.sha256)?,
            sha512: optional_checksum(&seal.sha512)?,
        })
    }
}

impl api::PullRequest {
    pub fn checksum(&self) -> Result<Option<String>, BadMessage> {
        optional_checksum(&self.checksum)
    }

    pub fn format(&self) -> Result<Option<Format>, BadMessage> {
        optional_format(&self.format)
    }

    pub fn seal(&self) -> Result<Option<Seal>, BadMessage> {
        self.seal.as_ref().map(Seal::try_from).transpose()
    }
}

impl api::SyncRequest {
    pub fn checksum(&self) -> Result<Option<String>, BadMessage> {
        optional_checksum(&self.checksum)
    }

    pub fn format(&self) -> Result<Option<Format>, BadMessage> {
        optional_format(&self.format)
    }

    pub fn seal(&self) -> Result<Option<Seal>, BadMessage> {
        self.seal.as_ref().map(Seal::try_from).transpose()
    }
}

impl api::UploadHeader {
    pub fn checksum(&self) -> Result<Option<String>, BadMessage> {
        optional_checksum(&self.checksum)
    }

    pub fn format(&self) -> Result<Option<Format>, BadMessage> {
        optional_format(&self.format)
    }
}

/// How an image is, as a manager says it.
pub fn image(name: &ImageName, status: &FileStatus) -> api::Image {
    api::Image {
        image: Some(api::ImageRef::new(name, &status.uuid)),
        state: status.state.name().to_owned(),
        reason: status.reason.clone(),
        lasting: status.lasting,
        size: status.size,
        bytes: status.bytes,
        rate: status.rate,
        sources: status.sources.clone(),
        sending: status.sending,
        pulling: status.pulling,
        seal: status.seal.as_ref().map(Into::into),
        format: format_name(status.format),
        virtual_size: status.virtual_size,
        real_size: status.real_size,
    }
}

/// And as it is understood.
pub fn file_status(image: &api::Image) -> Result<(ImageName, FileStatus), BadMessage> {
    let (name, uuid) = api::ImageRef::required(image.image.as_ref())?;
    let state = FileState::ALL
        .into_iter()
        .find(|state| state.name() == image.state)
        .ok_or_else(|| BadMessage::State(short(&image.state)))?;
    let status = FileStatus {
        uuid,
        state,
        reason: image.reason.clone(),
        lasting: image.lasting,
        size: image.size,
        bytes: image.bytes,
        rate: image.rate,
        sources: image.sources.clone(),
        sending: image.sending,
        pulling: image.pulling,
        seal: image.seal.as_ref().map(Seal::try_from).transpose()?,
        format: optional_format(&image.format)?,
        virtual_size: image.virtual_size,
        real_size: image.real_size,
    };
    Ok((name, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> FileStatus {
        let uuid = ImageId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").expect("a uuid");
        FileStatus {
            lasting: true,
            size: Some(9),
            bytes: 5,
            rate: 3,
            sources: vec!["127.0.0.1:1".to_owned()],
            sending: 2,
            pulling: true,
            seal: Some(Seal {
                size: 9,
                root: Hash::of(b"x"),
                sha256: format!("sha256:{}", "0".repeat(64)),
                sha512: Some(format!("sha512:{}", "f".repeat(128))),
            }),
            format: Some(Format::Qcow2),
            virtual_size: Some(11),
            real_size: 7,
            ..FileStatus::new(uuid, FileState::Downloading, "because")
        }
    }

    #[test]
    fn what_a_manager_says_is_understood_as_it_was_meant() {
        let name = ImageName::parse("debian").expect("a name");
        let sent = image(&name, &status());
        assert_eq!(file_status(&sent), Ok((name, status())));
    }

    #[test]
    fn what_nobody_could_mean_is_refused() {
        let name = ImageName::parse("debian").expect("a name");
        let good = image(&name, &status());
        let nameless = api::Image { image: None, ..good.clone() };
        assert_eq!(file_status(&nameless), Err(BadMessage::NoImage));
        let away = api::ImageRef { name: "../x".into(), uuid: status().uuid.to_string() };
        assert!(matches!(
            file_status(&api::Image { image: Some(away), ..good.clone() }),
            Err(BadMessage::Name(_))
        ));
        let odd = api::Image { state: "done".into(), ..good.clone() };
        assert_eq!(file_status(&odd), Err(BadMessage::State("done".into())));
        let odd = api::Image { format: "vhd".into(), ..good.clone() };
        assert_eq!(file_status(&odd), Err(BadMessage::Format("vhd".into())));
        let seal = api::Seal { root: vec![0; 31].into(), ..good.seal.clone().expect("a seal") };
        assert_eq!(file_status(&api::Image { seal: Some(seal), ..good.clone() }), Err(BadMessage::Root(31)));
        for odd in ["", "md5:00", "sha256:00", &format!("sha256:{}", "X".repeat(64))] {
            let seal = api::Seal { sha256: odd.to_owned(), ..good.seal.clone().expect("a seal") };
            let image = api::Image { seal: Some(seal), ..good.clone() };
            assert!(matches!(file_status(&image), Err(BadMessage::Checksum(_))), "{odd:?}");
        }
    }
}
