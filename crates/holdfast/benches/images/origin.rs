//! The origin of all rows: nginx, set up as Debian does it, on loopback, with one file.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NAME: &str = "image";
/// Until it listens.
const TRIES: u32 = 200;

pub struct Origin {
    child: Child,
    home: PathBuf,
    pub address: String,
}

impl Origin {
    pub fn of(file: &Path) -> Self {
        let home = file.with_extension("nginx");
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(home.join("files")).expect("a directory");
        symlink(file, home.join("files").join(NAME)).expect("a link");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("its address").to_string();
        drop(free);
        fs::write(home.join("nginx.conf"), configuration(&address)).expect("a file");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&home).args(["-e", "stderr", "-c", "nginx.conf"]).stderr(Stdio::null());
        let child = command.spawn().expect("nginx runs (scripts/prerequisites installs it)");
        let there = (0..TRIES).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            TcpStream::connect(&address).is_ok()
        });
        assert!(there, "nginx does not listen");
        Self { child, home, address }
    }

    pub fn url(&self) -> String {
        format!("http://{}/{NAME}", self.address)
    }
}

/// What its package sets matters: sendfile, and packets that are full.
fn configuration(address: &str) -> String {
    format!(
        "daemon off; master_process off; pid nginx.pid;\n\
         events {{ worker_connections 768; }}\n\
         http {{ sendfile on; tcp_nopush on; access_log off; default_type application/octet-stream;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; \
         scgi_temp_path scgi;\n\
         server {{ listen {address}; root files; }} }}\n"
    )
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}
