//! What people type as a token, or send as one.
#![no_main]

use images::identity::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains(&token.secret) || token.id.contains(&token.secret));
    }
});
