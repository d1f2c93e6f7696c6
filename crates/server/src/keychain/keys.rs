//! Master keys: configured by the operator, or generated on first use in the store's directory. There is no default
//! key.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::Digest as _;
use zeroize::Zeroizing;

use crate::keychain::error::Error;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// A key that encrypts data keys.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

impl MasterKey {
    /// Parses 32 bytes in hex or base64.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut key = Zeroizing::new([0; 32]);
        if hex::decode_to_slice(text, &mut *key).is_ok() {
            return Some(Self(key));
        }
        for letters in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
            let engine = GeneralPurpose::new(letters, LENIENT);
            if let Ok(bytes) = engine.decode(text).map(Zeroizing::new)
                && bytes.len() == key.len()
            {
                key.copy_from_slice(&bytes);
                return Some(Self(key));
            }
        }
        None
    }

    /// Generates a key.
    pub fn generate() -> Self {
        Self(random_bytes())
    }

    /// ID of the key in stored rows; reveals nothing about the key.
    pub fn id(&self) -> String {
        let mut hash = sha2::Sha256::new();
        hash.update(b"noetl master key");
        hash.update(*self.0);
        hex::encode(&hash.finalize()[..8])
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.0))
    }
}

/// Random bytes from the system.
pub(super) fn random_bytes<const N: usize>() -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    SystemRandom::new()
        .fill(&mut *bytes)
        .expect("the system provides random bytes");
    bytes
}

/// Source of the master key.
#[derive(Clone, Default)]
pub enum MasterKeys {
    /// None. The first use of a credential returns an error with a remedy.
    #[default]
    Missing,
    /// Configured by the operator. Values encrypted with the old key can be read until they are re-encrypted.
    Given {
        /// Key that encrypts new values.
        current: MasterKey,
        /// Previous key.
        old: Option<MasterKey>,
    },
    /// A file in the store's directory, generated on first use.
    File(PathBuf),
}

impl MasterKeys {
    /// Key that encrypts new values.
    pub(super) fn current(&self) -> Result<MasterKey, Error> {
        match self {
            Self::Missing => Err(Error::MasterKeyMissing),
            Self::Given { current, .. } => Ok(current.clone()),
            Self::File(file) => match read_key(file)? {
                Some(key) => Ok(key),
                None => create_key(file),
            },
        }
    }

    /// Finds a key by ID; `None` if this process does not have it.
    pub(super) fn find(&self, id: &str) -> Result<Option<MasterKey>, Error> {
        let current_key = match self {
            Self::Missing => return Err(Error::MasterKeyMissing),
            Self::Given { current, old } => [Some(current.clone()), old.clone()],
            Self::File(file) => [read_key(file)?, read_key(&old_key_path(file))?],
        };
        Ok(current_key.into_iter().flatten().find(|key| key.id() == id))
    }
}

/// Path of the previous key, which is stored until no value needs it.
pub(super) fn old_key_path(file: &Path) -> PathBuf {
    file.with_extension("key.old")
}

pub(super) fn read_key(file: &Path) -> Result<Option<MasterKey>, Error> {
    match fs::read_to_string(file).map(Zeroizing::new) {
        Ok(text) => match MasterKey::parse(&text) {
            Some(key) => Ok(Some(key)),
            None => Err(Error::MasterKeyInvalid(format!("`{}`", file.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(key_file_error(file, error)),
    }
}

/// Generates the key file. If another process does so at the same time, both use the same key.
fn create_key(file: &Path) -> Result<MasterKey, Error> {
    let draft = write_temp_key(file)?;
    let linked = fs::hard_link(&draft, file);
    let _ = fs::remove_file(&draft);
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(key_file_error(file, error)),
    }
    sync_dir(file)?;
    read_key(file)?.ok_or(Error::MasterKeyMissing)
}

/// Writes a new key to a file next to the key file; only its owner can read it.
pub(super) fn write_temp_key(file: &Path) -> Result<PathBuf, Error> {
    let name = format!("key.{}", hex::encode(*random_bytes::<8>()));
    let draft = file.with_extension(name);
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(MasterKey::generate().to_text().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().map_err(|error| key_file_error(&draft, error))?;
    Ok(draft)
}

pub(super) fn sync_dir(file: &Path) -> Result<(), Error> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| key_file_error(folder, error))
}

pub(super) fn key_file_error(file: &Path, source: io::Error) -> Error {
    Error::MasterKeyFile {
        file: file.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_read_in_hex_and_base64_and_in_no_other_length() {
        let hex = "00".repeat(31) + "ff";
        let id = MasterKey::parse(&hex).unwrap().id();
        let texts = [
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=",
            " AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8\n",
        ];
        for text in texts {
            assert_eq!(MasterKey::parse(text).as_ref().map(MasterKey::id), Some(id.clone()));
        }
        for text in ["", "secret", "AAAA", &hex[2..]] {
            assert!(MasterKey::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_store_creates_its_key_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("master.key");
        let keys = MasterKeys::File(file.clone());
        let id = keys.current().unwrap().id();
        assert_eq!(keys.current().unwrap().id(), id);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(keys.find(&id).unwrap().is_some());
        assert!(keys.find("another").unwrap().is_none());
        assert!(matches!(MasterKeys::Missing.current(), Err(Error::MasterKeyMissing)));
    }
}
