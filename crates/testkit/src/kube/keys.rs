//! One authority, and what it signed: enough for any number of servers that stand for one cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What servers of one cluster share: the authority, a certificate for whoever listens on loopback, the key
/// that signs the tokens of service accounts, and the certificate by which an aggregated server knows that
/// it is asked by the API server.
#[derive(Debug, Clone)]
pub struct Keys {
    directory: PathBuf,
}

impl Keys {
    pub fn make(directory: &Path) -> Self {
        fs::create_dir_all(directory).expect("a directory for keys");
        let keys = Self { directory: directory.to_owned() };
        // Elliptic curves: a key is there at once, where RSA takes a good part of a second.
        let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let ca =
            ["req", "-x509", "-days", "30", "-subj", "/CN=test ca", "-keyout", "ca.key", "-out", "ca.pem"];
        keys.openssl(&[&ca[..], &new_key].concat());
        for (name, common_name, extensions) in [
            (
                "server",
                "server",
                "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:*.default.svc\nextendedKeyUsage=serverAuth\n",
            ),
            ("front-proxy", "front-proxy", "extendedKeyUsage=clientAuth\n"),
        ] {
            let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
            let (extension_file, certificate) = (format!("{name}.ext"), format!("{name}.pem"));
            let subject = format!("/CN={common_name}");
            keys.openssl(
                &[&["req", "-subj", &subject, "-keyout", &key, "-out", &request], &new_key[..]].concat(),
            );
            fs::write(directory.join(&extension_file), extensions).expect("extensions");
            let sign =
                ["x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"];
            let what = ["-in", &request, "-extfile", &extension_file, "-out", &certificate];
            keys.openssl(&[&sign[..], &what].concat());
        }
        keys.openssl(&[
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            "service-accounts.key",
        ]);
        keys
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").current_dir(&self.directory).args(arguments).output();
        let output = output.expect("openssl is needed");
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where the authority's certificate is.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// The authority's certificate, PEM.
    pub fn ca_pem(&self) -> Vec<u8> {
        fs::read(self.ca()).expect("a certificate")
    }

    /// As a `caBundle` wants it.
    pub fn ca_bundle(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(self.ca_pem())
    }

    pub(super) fn server_tls(&self) -> Arc<rustls::ServerConfig> {
        let certificate = CertificateDer::from_pem_file(self.path("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate with its key");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}
