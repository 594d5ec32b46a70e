//! A deployment package for the runtime `provided.al2023`: a zip file with one program named `bootstrap`.

use std::fmt;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A packaged program, made once and deployed as often as wanted.
#[derive(Clone)]
pub struct Bootstrap {
    zip_base64: Arc<str>,
}

impl Bootstrap {
    /// Packages the program at `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn package(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let program = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let mut zip = ZipWriter::new(Cursor::new(Vec::with_capacity(program.len() + 1024)));
        // Not compressed: it stays on this machine, and compressing in a dev build takes longer than all the rest.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .unix_permissions(0o755);
        let zip = zip
            .start_file("bootstrap", options)
            .and_then(|()| Ok(zip.write_all(&program)?))
            .and_then(|()| zip.finish())
            .with_context(|| format!("failed to zip {}", path.display()))?;
        Ok(Self {
            zip_base64: STANDARD.encode(zip.into_inner()).into(),
        })
    }

    pub(super) fn zip_base64(&self) -> &str {
        &self.zip_base64
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bootstrap")
            .field("zip_base64_bytes", &self.zip_base64.len())
            .finish()
    }
}
