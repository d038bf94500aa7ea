//! `<backups>/next-boot.json`: the restore that an administrator has asked the next boot for.

use logic::guard::RestoreRequest;

pub const LIMIT: u64 = 64 * 1024;

pub fn parse(bytes: &[u8]) -> Result<RestoreRequest, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

pub fn render(request: &RestoreRequest) -> Vec<u8> {
    super::health_file::to_json(request)
}
