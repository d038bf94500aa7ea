//! Whether an image that is there is the one that somebody means.

use super::{BackingImage, Source};

/// In what an image differs from what was asked for; none, if it is that, or nothing was asked. A checksum says what an image is,
/// wherever it came from; without one, its address does.
pub fn differs(image: &BackingImage, url: Option<&str>, checksum: Option<&str>) -> Option<String> {
    match (checksum, url, &image.spec.source) {
        (Some(asked), ..) => checksum_differs(image, asked),
        (None, None, _) => None,
        (None, Some(asked), Source::Url { url }) if asked == url => None,
        (None, Some(asked), Source::Url { url }) => Some(format!("it comes from {url}, not from {asked}")),
        (None, Some(asked), Source::Upload {}) => {
            Some(format!("it was uploaded, and does not come from {asked}"))
        }
    }
}

fn checksum_differs(image: &BackingImage, asked: &str) -> Option<String> {
    let seal = image.status.seal.as_ref();
    let sealed = seal.into_iter().flat_map(|seal| [Some(&seal.sha256), seal.sha512.as_ref()]).flatten();
    let mut known = image.spec.checksum.iter().chain(sealed).map(String::as_str);
    let algorithm = |checksum: &str| checksum.split(':').next().map(str::to_owned);
    match known.find(|known| algorithm(known) == algorithm(asked)) {
        Some(known) if known == asked => None,
        Some(known) => Some(format!("it is {known}, not {asked}")),
        None => Some(format!("it was created without that checksum, and whether it is {asked} is not known")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{Hash, ImageSpec, Seal};

    fn image(source: Source, checksum: Option<&str>, sealed: Option<&str>) -> BackingImage {
        let spec =
            ImageSpec { source, format: None, checksum: checksum.map(str::to_owned), disks: [].into() };
        let mut image = BackingImage::new("a", spec);
        image.status.seal = sealed.map(|sha256| Seal {
            size: 0,
            root: Hash::of(b""),
            sha256: sha256.to_owned(),
            sha512: None,
        });
        image
    }

    #[test]
    fn an_image_is_the_one_that_was_meant_if_its_checksum_is_or_else_its_address() {
        let url = |url: &str| Source::Url { url: url.to_owned() };
        let is = |image: &BackingImage, url, checksum| differs(image, url, checksum).is_none();
        let checked = image(url("x"), Some("sha256:a"), None);
        assert!(is(&checked, None, None) && is(&checked, Some("x"), None) && !is(&checked, Some("y"), None));
        assert!(is(&checked, Some("y"), Some("sha256:a")) && !is(&checked, Some("x"), Some("sha256:b")));
        assert!(!is(&checked, Some("x"), Some("sha512:a")), "nobody knows");
        let unchecked = image(url("x"), None, None);
        assert!(!is(&unchecked, Some("x"), Some("sha256:a")), "nobody knows yet");
        let sealed = image(url("x"), None, Some("sha256:a"));
        assert!(is(&sealed, None, Some("sha256:a")) && !is(&sealed, None, Some("sha256:b")));
        let both = image(url("x"), Some("sha512:c"), Some("sha256:a"));
        assert!(is(&both, None, Some("sha256:a")) && is(&both, None, Some("sha512:c")));
        let uploaded = image(Source::Upload {}, None, None);
        assert!(is(&uploaded, None, None) && !is(&uploaded, Some("x"), None));
    }
}
