//! An archive as the kernel unpacks it at boot: the "new" form of cpio, every number eight hexadecimal digits.

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const END: &str = "TRAILER!!!";

#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, b"");
    }

    pub fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, FILE | mode, content);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, b"");
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).expect("a small file");
        // Inode, mode, owner, group, links, time, length, four numbers of devices, length of the name, no checksum.
        let size = length(content.len());
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length(name.len() + 1), 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
