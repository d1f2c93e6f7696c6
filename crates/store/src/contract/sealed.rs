//! Tests of encrypted values: credentials by name and version, resolved entries by scope, and changes of the master
//! key.

use std::time::Duration;

use model::time::Time;

use super::{StoreFixture, expect_ok};
use crate::{CredentialRow, KeychainRow, SealedLocation, SealedValue};

fn sealed_value(key: &str, byte: u8) -> SealedValue {
    SealedValue {
        key_id: key.to_owned(),
        data_key: vec![byte; 60],
        data: vec![byte, 0, 255],
    }
}

fn credential(name: &str, version: u32) -> CredentialRow {
    CredentialRow {
        name: name.to_owned(),
        kind: "postgres".to_owned(),
        version,
        sealed: sealed_value("k1", u8::try_from(version).unwrap_or(u8::MAX)),
        created_at: Time(7),
        updated_at: Time(7 + i64::from(version)),
        last_used_at: None,
    }
}

fn keychain_entry(scope: &str, name: &str, expires_at: Option<Time>) -> KeychainRow {
    KeychainRow {
        scope: scope.to_owned(),
        name: name.to_owned(),
        sealed: sealed_value("k1", 9),
        resolved_at: Time(1),
        expires_at,
    }
}

/// If two writers set the same version, one succeeds and the other gets `false`.
pub async fn a_credential_is_kept_version_by_version(site: &dyn StoreFixture) {
    let (first_store, second_store) = (site.join(), site.join());
    let (first_store, second_store) = (first_store.sealed_store(), second_store.sealed_store());
    assert!(!expect_ok(first_store.put_credential(credential("b", 2)).await));
    assert!(expect_ok(first_store.put_credential(credential("b", 1)).await));
    assert!(!expect_ok(second_store.put_credential(credential("b", 1)).await));
    assert!(!expect_ok(second_store.put_credential(credential("b", 3)).await));
    assert!(expect_ok(second_store.put_credential(credential("b", 2)).await));
    assert!(expect_ok(second_store.put_credential(credential("a", 1)).await));
    assert_eq!(expect_ok(first_store.credential("b").await), Some(credential("b", 2)));
    let all = expect_ok(first_store.credentials().await);
    assert_eq!(all, [credential("a", 1), credential("b", 2)]);
    expect_ok(first_store.touch_credential("b").await);
    let used = expect_ok(second_store.credential("b").await).expect("the credential exists");
    assert!(used.last_used_at.is_some());
    assert!(expect_ok(first_store.remove_credential("b").await));
    assert!(!expect_ok(second_store.remove_credential("b").await));
    assert_eq!(expect_ok(second_store.credential("b").await), None);
    assert!(expect_ok(second_store.put_credential(credential("b", 1)).await));
}

/// A resolved entry belongs to its scope and is removed after its expiry.
pub async fn a_resolved_entry_is_kept_by_scope_until_it_expires(site: &dyn StoreFixture) {
    let store = site.join();
    let later = Some(store.now().after(Duration::from_secs(3_600)));
    let sealed_store = store.sealed_store();
    expect_ok(
        sealed_store
            .put_keychain(keychain_entry("run:1", "token", Some(Time(5))))
            .await,
    );
    let old = expect_ok(sealed_store.keychain("run:1", "token").await);
    assert_eq!(old, Some(keychain_entry("run:1", "token", Some(Time(5)))));
    expect_ok(sealed_store.put_keychain(keychain_entry("run:2", "token", later)).await);
    expect_ok(sealed_store.put_keychain(keychain_entry("run:2", "other", None)).await);
    assert_eq!(expect_ok(sealed_store.keychain("run:1", "token").await), None);
    expect_ok(sealed_store.put_keychain(keychain_entry("run:2", "token", None)).await);
    let entry = expect_ok(sealed_store.keychain("run:2", "token").await);
    assert_eq!(entry, Some(keychain_entry("run:2", "token", None)));
    assert_eq!(expect_ok(sealed_store.keychain("run:3", "token").await), None);
    assert!(expect_ok(sealed_store.remove_keychain("run:2", "token").await));
    assert!(!expect_ok(sealed_store.remove_keychain("run:2", "token").await));
    let other = expect_ok(sealed_store.keychain("run:2", "other").await);
    assert_eq!(other, Some(keychain_entry("run:2", "other", None)));
}

/// A data key is only rewrapped if it is still the one that was read.
pub async fn data_keys_are_wrapped_anew_one_by_one(site: &dyn StoreFixture) {
    let store = site.join();
    let sealed_store = store.sealed_store();
    expect_ok(sealed_store.put_credential(credential("a", 1)).await);
    expect_ok(sealed_store.put_credential(credential("b", 1)).await);
    expect_ok(sealed_store.put_keychain(keychain_entry("run:1", "token", None)).await);
    let old = expect_ok(sealed_store.sealed_with_other_keys("k2").await);
    let locations: Vec<_> = old.iter().map(|(location, _)| location.clone()).collect();
    let a = SealedLocation::Credential {
        name: "a".to_owned(),
        version: 1,
    };
    let b = SealedLocation::Credential {
        name: "b".to_owned(),
        version: 1,
    };
    let token = SealedLocation::Keychain {
        scope: "run:1".to_owned(),
        name: "token".to_owned(),
    };
    assert_eq!(locations, [a.clone(), b.clone(), token.clone()]);
    let new = |from: &SealedValue| SealedValue {
        key_id: "k2".to_owned(),
        data_key: vec![77; 60],
        ..from.clone()
    };
    for (location, from) in &old {
        assert!(expect_ok(sealed_store.rewrap(location, from, &new(from)).await));
        assert!(!expect_ok(sealed_store.rewrap(location, from, &new(from)).await));
    }
    assert!(expect_ok(sealed_store.sealed_with_other_keys("k2").await).is_empty());
    assert_eq!(expect_ok(sealed_store.sealed_with_other_keys("k1").await).len(), 3);
    let row = expect_ok(sealed_store.credential("a").await).expect("the credential exists");
    assert_eq!(row.sealed, new(&old[0].1));
}
