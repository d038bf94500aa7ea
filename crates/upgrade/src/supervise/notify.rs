//! The socket on which a program says that it is ready, as systemd has it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::place::Place;

const LONGEST_MESSAGE: usize = 4096;
const LONGEST_STATUS: usize = 500;

#[derive(Debug)]
pub struct Socket {
    socket: UnixDatagram,
    name: OsString,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub ready: bool,
    pub status: Option<String>,
}

impl Socket {
    /// In the run directory, which only the appliance's owner can look into; where that cannot be (the path is too long
    /// for a socket, the disk is full), under a name that is no path.
    pub fn bind(place: &Place) -> io::Result<Self> {
        let (socket, name) = Self::at_path(place).or_else(|_| {
            let name = format!("holdfast-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name)?;
            io::Result::Ok((UnixDatagram::bind_addr(&address)?, OsString::from(format!("@{name}"))))
        })?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, name })
    }

    fn at_path(place: &Place) -> io::Result<(UnixDatagram, OsString)> {
        let path = place.notify_socket();
        // Whoever bound it before is gone.
        let _ = fs::remove_file(&path);
        Ok((UnixDatagram::bind(&path)?, path.into_os_string()))
    }

    /// For `NOTIFY_SOCKET`.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    pub fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    /// All that was said since the last call.
    pub fn hear(&self) -> Said {
        let mut said = Said::default();
        let mut buffer = [0; LONGEST_MESSAGE];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            understand(&buffer[..length], &mut said);
        }
        said
    }
}

fn understand(message: &[u8], said: &mut Said) {
    for line in message.split(|byte| *byte == b'\n') {
        if line == b"READY=1" {
            said.ready = true;
        } else if let Some(status) = line.strip_prefix(b"STATUS=") {
            let status = OsStr::from_bytes(status).to_string_lossy();
            said.status = Some(status.chars().filter(|c| !c.is_control()).take(LONGEST_STATUS).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_passed_over() {
        let mut said = Said::default();
        understand(b"MAINPID=3\nSTATUS=half \x07way\nREADY=0\nWATCHDOG=1", &mut said);
        assert_eq!(said, Said { ready: false, status: Some("half way".to_owned()) });
        understand(b"READY=1", &mut said);
        assert!(said.ready);
    }
}
