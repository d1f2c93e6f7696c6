//! Envelope encryption: each value has its own data key (AES-256-GCM with a random nonce), and the master key encrypts
//! the data key.
//!
//! The location of a value is authenticated with it, so that the value of one row cannot be decrypted in another row.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use store::{SealedLocation, SealedValue};
use zeroize::Zeroizing;

use crate::keychain::error::Error;
use crate::keychain::keys::{MasterKey, random_bytes};

/// Encrypts a value for a location with a new data key.
pub(super) fn seal(key: &MasterKey, location: &SealedLocation, value: &[u8]) -> SealedValue {
    let data_key = random_bytes::<32>();
    SealedValue {
        key_id: key.id(),
        data: encrypt(&data_key, &associated_data("data", location), value),
        data_key: encrypt(key.bytes(), &associated_data("key", location), &*data_key),
    }
}

/// Decrypts a value that was encrypted for a location.
pub(super) fn open(
    key: &MasterKey,
    location: &SealedLocation,
    sealed: &SealedValue,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let tampered = || Error::Tampered(describe_location(location));
    let data_key = unwrap_data_key(key, location, sealed)?;
    decrypt(&data_key, &associated_data("data", location), &sealed.data).ok_or_else(tampered)
}

/// Re-encrypts the data key with another master key; the value stays as it is.
pub(super) fn rewrap(
    from: &MasterKey,
    to: &MasterKey,
    location: &SealedLocation,
    sealed: &SealedValue,
) -> Result<SealedValue, Error> {
    let data_key = unwrap_data_key(from, location, sealed)?;
    Ok(SealedValue {
        key_id: to.id(),
        data_key: encrypt(to.bytes(), &associated_data("key", location), &*data_key),
        data: sealed.data.clone(),
    })
}

fn unwrap_data_key(
    key: &MasterKey,
    location: &SealedLocation,
    sealed: &SealedValue,
) -> Result<Zeroizing<[u8; 32]>, Error> {
    let tampered = || Error::Tampered(describe_location(location));
    let bytes = decrypt(key.bytes(), &associated_data("key", location), &sealed.data_key);
    let bytes = bytes.ok_or_else(tampered)?;
    let key = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| tampered())?;
    Ok(Zeroizing::new(key))
}

/// Name of an encrypted value in messages.
pub(super) fn describe_location(location: &SealedLocation) -> String {
    match location {
        SealedLocation::Credential { name, .. } => format!("credential `{name}`"),
        SealedLocation::Keychain { name, .. } => format!("keychain entry `{name}`"),
    }
}

/// Additional authenticated data. The lengths make it unambiguous.
fn associated_data(part: &str, location: &SealedLocation) -> String {
    match location {
        SealedLocation::Credential { name, version } => {
            format!("noetl {part} credential {} {name} {version}", name.len())
        }
        SealedLocation::Keychain { scope, name } => {
            format!("noetl {part} keychain {} {scope} {name}", scope.len())
        }
    }
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key).expect("the key has the right length");
    LessSafeKey::new(key)
}

fn encrypt(key: &[u8; 32], associated_data: &str, value: &[u8]) -> Vec<u8> {
    let nonce = *random_bytes::<NONCE_LEN>();
    let mut sealed = value.to_vec();
    cipher(key)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(associated_data),
            &mut sealed,
        )
        .expect("a value that fits into memory can be encrypted");
    [nonce.as_slice(), &sealed].concat()
}

fn decrypt(key: &[u8; 32], associated_data: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, ciphertext) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut ciphertext = Zeroizing::new(ciphertext.to_vec());
    let bytes = cipher(key)
        .open_in_place(nonce, Aad::from(associated_data), &mut ciphertext)
        .ok()?
        .len();
    ciphertext.truncate(bytes);
    Some(ciphertext)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential_location(name: &str, version: u32) -> SealedLocation {
        SealedLocation::Credential {
            name: name.to_owned(),
            version,
        }
    }

    #[test]
    fn a_sealed_value_opens_only_at_its_location_and_with_its_key() {
        let (key, other) = (MasterKey::generate(), MasterKey::generate());
        let sealed = seal(&key, &credential_location("a", 1), b"canary-value");
        assert_eq!(
            *open(&key, &credential_location("a", 1), &sealed).unwrap(),
            b"canary-value"
        );
        for (key, location) in [
            (&key, credential_location("a", 2)),
            (&key, credential_location("b", 1)),
            (&other, credential_location("a", 1)),
        ] {
            let refused = open(key, &location, &sealed).map(|_| ()).unwrap_err();
            assert_eq!(refused.code(), "CREDENTIAL_TAMPERED");
        }
        let resealed = seal(&key, &credential_location("a", 1), b"canary-value");
        assert_ne!((resealed.data, resealed.data_key), (sealed.data, sealed.data_key));
    }

    #[test]
    fn a_bit_that_changes_anywhere_fails_closed() {
        let key = MasterKey::generate();
        let sealed = seal(&key, &credential_location("a", 1), b"x");
        let parts = [sealed.data.len(), sealed.data_key.len()];
        for (part, bytes) in parts.into_iter().enumerate() {
            for at in 0..bytes {
                let mut changed = sealed.clone();
                let bytes = [&mut changed.data, &mut changed.data_key];
                bytes.into_iter().nth(part).unwrap()[at] ^= 1;
                assert!(open(&key, &credential_location("a", 1), &changed).is_err());
            }
        }
        for length in 0..NONCE_LEN {
            let mut damaged = sealed.clone();
            damaged.data.truncate(length);
            assert!(open(&key, &credential_location("a", 1), &damaged).is_err());
        }
    }

    #[test]
    fn a_rewrapped_data_key_opens_only_with_the_new_key() {
        let (old, new) = (MasterKey::generate(), MasterKey::generate());
        let sealed = seal(&old, &credential_location("a", 1), b"value");
        let rewrapped = rewrap(&old, &new, &credential_location("a", 1), &sealed).unwrap();
        assert_eq!(*open(&new, &credential_location("a", 1), &rewrapped).unwrap(), b"value");
        assert!(open(&old, &credential_location("a", 1), &rewrapped).is_err());
        assert!(rewrap(&new, &old, &credential_location("a", 1), &sealed).is_err());
    }
}
