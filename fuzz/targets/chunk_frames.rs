//! What a peer may say on a link for chunks, either way.
#![no_main]

use images::transfer::frame::{Ask, LARGEST, LARGEST_DATA, Tell, data_head, to_read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(([a, b, c, d, kind], rest)) = bytes.split_first_chunk() else { return };
    let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    // As it is done when it comes over a link: nothing is read that is too long.
    let Ok(wanted) = to_read(*kind, length) else { return };
    assert!(wanted <= LARGEST);
    let body = &rest[..rest.len().min(wanted)];
    if let Ok(ask) = Ask::read(*kind, body) {
        let mut out = Vec::new();
        ask.write(&mut out);
        assert_eq!(Ask::read(out[4], &out[5..]).as_ref(), Ok(&ask));
    }
    match data_head(*kind, length, body) {
        Some(Tell::Data { length, .. }) => assert!(length <= LARGEST_DATA),
        Some(_) => panic!("a head of data is data"),
        None => {
            if let Ok(tell) = Tell::read(*kind, body) {
                let mut out = Vec::new();
                tell.write(&mut out);
                assert_eq!(Tell::read(out[4], &out[5..]).as_ref(), Ok(&tell));
            }
        }
    }
});
