//! Telling systemd how the service is, as `sd_notify` does: one datagram to the socket that it names. Where there is no
//! such socket, nobody wants to know.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// `READY=1`, `STOPPING=1` and their like; failures are no reason not to serve.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(name.as_encoded_bytes(), state) {
        tracing::warn!(cause = %error, state, "systemd can't be told");
    }
}

/// What `systemctl reload` waits for; the time is the kernel's monotonic clock in microseconds.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000));
}

fn send(name: &[u8], state: &str) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let address = match name.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_arrives_at_a_path_and_at_an_abstract_name() {
        let dir = std::env::temp_dir().join(format!("holdfast-notify-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("socket");
        let abstract_name = format!("holdfast-notify-{}", std::process::id());
        let at_path = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let at_name = UnixDatagram::bind_addr(&address).unwrap();
        send(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        send(format!("@{abstract_name}").as_bytes(), "READY=1").unwrap();
        for socket in [at_path, at_name] {
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
