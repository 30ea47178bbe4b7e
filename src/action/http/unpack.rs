//! The decoders of compressed answers. What they write and the memory they take are bounded, whatever
//! an answer would unpack to.

use std::io::{self, Read};

/// `body` without the encoding `name`, as far as `most` bytes and one more; `None` if the encoding is
/// unknown.
pub(super) fn unpack(name: &str, body: &[u8], most: usize) -> Option<io::Result<Vec<u8>>> {
    Some(match name {
        "gzip" | "x-gzip" => up_to(flate2::read::MultiGzDecoder::new(body), most),
        "br" => brotli(body, most),
        "zstd" => zstd(body, most),
        _ => return None,
    })
}

fn up_to(reader: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(most).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

fn brotli(body: &[u8], most: usize) -> io::Result<Vec<u8>> {
    const BUFFER: usize = 4096;
    // An encoding of its own that asks for up to 1 GiB of memory; HTTP has none such.
    let is_large_window = body.first().is_some_and(|b| b & 0x7f == 0x11);
    if is_large_window {
        return Err(io::ErrorKind::InvalidData.into());
    }
    up_to(brotli_decompressor::Decompressor::new(body, BUFFER), most)
}

fn zstd(body: &[u8], most: usize) -> io::Result<Vec<u8>> {
    // The decoder keeps a window of what it has unpacked, and reads on until it can let some go.
    if zstd_window(body).ok_or(io::ErrorKind::UnexpectedEof)? > ZSTD_WINDOW {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}"));
    let mut rest = body;
    let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest).map_err(invalid)?;
    up_to(&mut frame, most)
}

/// The largest window that HTTP allows (RFC 9659).
const ZSTD_WINDOW: u64 = 8 * 1024 * 1024;

/// The window that a frame asks for (RFC 8878, 3.1.1.1); `None` where its header is cut.
fn zstd_window(frame: &[u8]) -> Option<u64> {
    let descriptor = *frame.get(4)?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let byte = u64::from(*frame.get(5)?);
        let base = 1_u64 << (10 + (byte >> 3));
        return Some(base + base / 8 * (byte & 7));
    }
    // The window is the whole content.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = 1_usize << (descriptor >> 6);
    let field = frame.get(5 + dictionary..5 + dictionary + size)?;
    let low = field.iter().rev().fold(0, |size, b| size << 8 | u64::from(*b));
    Some(if size == 2 { low + 256 } else { low })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each would unpack to 64 MiB.
    #[test]
    fn x19_no_more_is_unpacked_than_is_asked_for() {
        let bombs: [(&str, &[u8]); 3] = [
            ("gzip", include_bytes!("../../../tests/fixtures/packed/bomb.gz")),
            ("br", include_bytes!("../../../tests/fixtures/packed/bomb.br")),
            ("zstd", include_bytes!("../../../tests/fixtures/packed/bomb.zst")),
        ];
        for (name, bomb) in bombs {
            let unpacked = unpack(name, bomb, 1_000).and_then(Result::ok);
            assert_eq!(unpacked.map(|unpacked| unpacked.len()), Some(1_001), "{name}");
        }
        let wide = include_bytes!("../../../tests/fixtures/packed/wide.zst");
        assert!(unpack("zstd", wide, 1_000).is_some_and(|unpacked| unpacked.is_err()));
    }

    #[test]
    fn x19_the_window_of_a_zstd_frame_is_read() {
        const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
        for (header, window) in [
            (&[0x00, 0x00][..], Some(1 << 10)),
            (&[0x04, 0x68], Some(8 << 20)),
            (&[0x00, 0x69], Some((8 << 20) + (1 << 20))),
            (&[0x00, 0xff], Some((1 << 41) + (7 << 38))),
            (&[0x20, 0x07], Some(7)),
            (&[0x21, 0xff, 0x07], Some(7)),
            (&[0x60, 0x01, 0x00], Some(257)),
            (&[0xa0, 0x01, 0x02, 0x00, 0x00], Some(513)),
            (&[0xe0, 1, 0, 0, 0, 0, 0, 0, 1], Some((1 << 56) + 1)),
            (&[0x00], None),
            (&[0x60, 0x01], None),
        ] {
            assert_eq!(zstd_window(&[&MAGIC[..], header].concat()), window, "{header:?}");
        }
    }
}
