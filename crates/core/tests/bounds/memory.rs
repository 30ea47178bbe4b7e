//! Peak memory of reading any definition: at most 20 times its size, and 10 MB.

use peak_alloc::PeakAlloc;

use super::constructs::{ALL, Kind};
use super::{read, write_down};

#[global_allocator]
static COUNTED: PeakAlloc = PeakAlloc;

/// The sizes of texts. A definition of the service has at most 256 KiB, and any file can be read.
const SIZES: [usize; 2] = [256 * 1024, 512 * 1024];

fn most(text: &str) -> usize {
    20 * text.len() + 10_000_000
}

/// So many repetitions that the text is about as long as `size`.
fn sized(text: fn(usize) -> String, size: usize) -> String {
    const FEW: usize = 1_200;
    text(FEW * size / text(FEW).len())
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn reading_any_definition_takes_little_memory() {
    let mut too_much = Vec::new();
    for (name, kind, text) in ALL.iter().filter(|(_, kind, _)| !matches!(kind, Kind::Masked)) {
        for size in SIZES {
            let text = sized(*text, size);
            COUNTED.reset_peak_usage();
            let before = COUNTED.current_usage();
            read(*kind, &text);
            write_down(*kind, &text);
            let peak = COUNTED.peak_usage() - before;
            if peak > most(&text) {
                too_much.push(format!("{name}: {} bytes take {peak} bytes", text.len()));
            }
        }
    }
    assert!(too_much.is_empty(), "{}", too_much.join("\n"));
}
