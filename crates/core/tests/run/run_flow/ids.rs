//! Ids that are made of others: the same in every process and every release.

use retrial_core::run::RunId;
use retrial_core::time::Timestamp;
use sha2::{Digest as _, Sha256};

use super::*;

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let all = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part));
    all.finalize().into()
}

#[test]
fn a14_the_receipt_is_made_of_run_and_task() {
    let run = RunId::from_random(3, 4);
    let task = task(0x0102, 0x0304_0506);
    let hash = hash(&[b"retrial receipt 1", &run.to_bytes(), &[1, 2], &[3, 4, 5, 6]]);
    let receipt = *task.receipt(run).as_bytes();
    // Of a UUID six bits are given: the version, 8, and the variant.
    let mut expected: [u8; 16] = hash[..16].try_into().expect("16 bytes");
    expected[6] = expected[6] & 0x0f | 0x80;
    expected[8] = expected[8] & 0x3f | 0x80;
    assert_eq!(receipt, expected);
}

#[test]
fn c18_the_run_that_tells_a_webhook_is_made_of_token_and_threshold() {
    let token = token_of(task(1, 2), 3);
    let hash = hash(&[b"retrial alert 1", &token.to_bytes(), &900_000_u64.to_be_bytes()]);
    let part = |n: usize| u64::from_be_bytes(hash[n..n + 8].try_into().expect("8 bytes"));
    assert_eq!(token.telling(900_000), (RunId::from_random(part(0), part(8)), part(16)));
    assert_ne!(token.telling(900_000), token.telling(900_001));
}

// RFC 9562, appendix A.6: the example of a UUID of version 7.
#[test]
fn a_new_runs_id_begins_with_the_time() {
    let (millis, high, low) = (0x017f_22e2_79b0, 0x0cc3, 0x18c4_dc0c_0c07_398f);
    let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000 + 999_999);
    let run = RunId::created_at(at(millis), high, low);
    assert_eq!(run.to_string(), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    assert_eq!(RunId::created_at(at(millis), !0 << 12 | high, !0 << 62 | low), run);
    assert!(RunId::created_at(at(millis + 1), 0, 0) > RunId::created_at(at(millis), !0, !0));
}

#[test]
fn the_id_before_another_sorts_right_before_it() {
    let run = RunId::from_random(3, 4);
    let number = |run: RunId| u128::from_be_bytes(run.to_bytes());
    assert_eq!(number(run.before()), number(run) - 1);
    let first = RunId::from_bytes([0; 16]);
    assert_eq!(first.before(), first);
}

#[test]
fn ids_are_written_as_people_and_records_read_them() {
    assert_eq!(task(2, 7).to_string(), "2/7");
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let digest = retrial_core::run::Digest::of(b"abc");
    assert_eq!(
        (digest.to_string(), format!("{digest:?}")),
        (text.into(), format!("Digest({text})"))
    );
    let letter = retrial_core::run::LetterId { run: RunId::from_random(3, 4), task: task(2, 7) };
    assert_eq!(letter.to_string(), format!("{}/2/7", letter.run));
    assert_eq!(letter.to_string().parse(), Ok(letter));
    let read = |text: &str| serde_json::from_value::<retrial_core::run::Digest>(json!(text));
    assert_eq!(read(text).expect("a digest"), digest);
    for wrong in ["", &text[..63], &format!("{text}0"), &text.replace('a', "g"), &"é".repeat(32)] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
