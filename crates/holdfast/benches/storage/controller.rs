//! The controller, as a process of its own, and what it costs.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Of all that can be told apart in a process's time, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

pub struct Controller {
    child: Child,
    admin: SocketAddr,
}

/// Its metrics, as text.
pub struct Page(String);

/// Runs `holdfast storage …` to its end; gives what it says.
pub fn holdfast(kubeconfig: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("storage").arg(arguments[0]).arg("--kubeconfig").arg(kubeconfig).args(&arguments[1..]);
    let output = command.output().expect("holdfast runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

impl Controller {
    /// Returns when it leads.
    pub async fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let admin = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command
            .args(["storage", "controller", "--admin", &admin.to_string(), "--kubeconfig"])
            .arg(kubeconfig);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the controller runs");
        let controller = Self { child, admin };
        controller.until(|page| page.value("leader").filter(|leads| *leads == 1.0)).await;
        controller
    }

    /// Asks again and again until its metrics say what is waited for.
    pub async fn until<T>(&self, ready: impl Fn(&Page) -> Option<T>) -> Page {
        for _ in 0..6000 {
            let page = self.page().await;
            if ready(&page).is_some() {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("waited in vain:\n{}", self.page().await.0);
    }

    /// Empty while it does not answer.
    pub async fn page(&self) -> Page {
        let asked = async {
            let mut stream = tokio::net::TcpStream::connect(self.admin).await?;
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nhost: controller\r\nconnection: close\r\n\r\n")
                .await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok::<_, std::io::Error>(text)
        };
        Page(asked.await.unwrap_or_default())
    }

    /// Time on a processor, so far.
    pub fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("its times");
        // After the name in parentheses come the fields from the third on.
        let fields: Vec<&str> = text.rsplit_once(") ").expect("a name").1.split(' ').collect();
        let ticks: f64 =
            fields[11].parse::<f64>().expect("user") + fields[12].parse::<f64>().expect("system");
        Duration::from_secs_f64(ticks / TICKS_A_SECOND)
    }

    /// The most memory that it ever had, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Page {
    /// By its name without the prefix of the part, with its labels.
    pub fn value(&self, name: &str) -> Option<f64> {
        let start = format!("holdfast_storage_{name} ");
        self.0.lines().find_map(|line| line.strip_prefix(&start)?.trim().parse().ok())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
