//! The wall clock, for people. Nothing is ordered or decided by it.

/// `2023-07-01 00:00:00`, in UTC, as the document writes it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string()
}
