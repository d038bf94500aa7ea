//! Query strings of clients.
#![no_main]

use graph::serve::query::Query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(query) = Query::parse(text) else { return };
    let sorted = query.sorted();
    // What is passed on means the same. It may have grown beyond the limit by its escapes.
    if let Ok(again) = Query::parse(&sorted) {
        assert_eq!(again.sorted(), sorted);
    }
    let required = ["channel", "id", "version"].map(str::to_owned);
    let _ = query.asked(&required);
    if let Ok(asked) = query.asked(&[]) {
        assert!(!asked.channel.is_empty());
    }
});
