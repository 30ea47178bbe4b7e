//! `Content-Encoding`: answers that come packed, with the feature `compression`.

use hyper::header::{self, HeaderMap};

#[cfg(feature = "compression")]
use super::unpack::unpack;
use crate::failure::sanitise;

/// More layers than any server applies.
const MOST_LAYERS: usize = 3;

/// The encodings of an answer, the outermost last.
pub(super) fn of(headers: &HeaderMap) -> Vec<String> {
    let texts = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    let names = texts.flat_map(|text| text.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty() && name != "identity").take(MOST_LAYERS + 1).collect()
}

/// `body` unpacked, as far as `most` bytes and one more, whatever it would unpack to; or why it can't
/// be.
pub(super) fn decoded(body: &[u8], encodings: &[String], most: usize) -> Result<Vec<u8>, String> {
    if encodings.len() > MOST_LAYERS {
        return Err(format!("it is packed more than {MOST_LAYERS} times"));
    }
    let mut body = body.to_vec();
    for encoding in encodings.iter().rev() {
        let name = || sanitise::message(encoding, 40);
        let unpacked = unpack(encoding, &body, most)
            .ok_or_else(|| format!("this build does not read the encoding {}", name()))?;
        body = unpacked.map_err(|_| format!("its {} is damaged", name()))?;
    }
    Ok(body)
}

/// Stands for the decoders in a build without the feature `compression`.
#[cfg(not(feature = "compression"))]
fn unpack(_: &str, _: &[u8], _: usize) -> Option<std::io::Result<Vec<u8>>> {
    None
}
