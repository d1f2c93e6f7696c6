//! Signatures that Node's `crypto` made, with their keys.

use serde_json::json;

use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("test_vectors.json")).unwrap()
}

/// Checks the token of a key; `change` modifies message and signature before.
fn check(
    keys: &KeySet,
    key_id: &str,
    algorithm: SignatureAlgorithm,
    change: impl Fn(&mut Vec<u8>, &mut Vec<u8>),
) -> SignatureVerdict {
    let vectors = vectors();
    let (message, signature) = vectors["tokens"][key_id].as_str().unwrap().rsplit_once('.').unwrap();
    let (mut message, mut signature) = (message.as_bytes().to_vec(), decode(signature).unwrap());
    change(&mut message, &mut signature);
    keys.check_signature(algorithm, Some(key_id), &message, &signature)
}

#[test]
fn each_algorithm_accepts_its_signature_and_no_changed_one() {
    let keys = KeySet::parse(&vectors()).unwrap();
    for (key_id, algorithm) in [
        ("rsa", SignatureAlgorithm::Rs256),
        ("pss", SignatureAlgorithm::Ps256),
        ("p256", SignatureAlgorithm::Es256),
        ("p384", SignatureAlgorithm::Es384),
        ("ed", SignatureAlgorithm::EdDsa),
    ] {
        let unchanged = check(&keys, key_id, algorithm, |_, _| {});
        assert_eq!(unchanged, SignatureVerdict::Valid, "{key_id}");
        let message = check(&keys, key_id, algorithm, |message, _| message[40] ^= 1);
        assert_eq!(message, SignatureVerdict::Invalid, "{key_id}");
        let signature = check(&keys, key_id, algorithm, |_, signature| signature[5] ^= 1);
        assert_eq!(signature, SignatureVerdict::Invalid, "{key_id}");
        let empty = check(&keys, key_id, algorithm, |_, signature| signature.clear());
        assert_eq!(empty, SignatureVerdict::Invalid, "{key_id}");
    }
}

#[test]
fn a_key_is_used_only_for_its_own_algorithm() {
    let keys = KeySet::parse(&vectors()).unwrap();
    for (key_id, algorithm) in [
        ("rsa", SignatureAlgorithm::Ps256),
        ("p256", SignatureAlgorithm::Es384),
        ("ed", SignatureAlgorithm::Es256),
    ] {
        assert_eq!(check(&keys, key_id, algorithm, |_, _| {}), SignatureVerdict::UnknownKey);
    }
}

#[test]
fn short_rsa_keys_are_refused() {
    let keys = KeySet::parse(&vectors()).unwrap();
    let verdict = check(&keys, "short", SignatureAlgorithm::Rs256, |_, _| {});
    assert_eq!(verdict, SignatureVerdict::Invalid);
}

#[test]
fn keys_for_encryption_and_ambiguous_keys_are_not_used() {
    let mut document = vectors();
    document["keys"][2]["use"] = json!("enc");
    let keys = KeySet::parse(&document).unwrap();
    let verdict = check(&keys, "p256", SignatureAlgorithm::Es256, |_, _| {});
    assert_eq!(verdict, SignatureVerdict::UnknownKey);

    let all = KeySet::parse(&vectors()).unwrap();
    let without_id = |algorithm| all.check_signature(algorithm, None, b"m", b"s");
    assert_eq!(
        without_id(SignatureAlgorithm::Rs256),
        SignatureVerdict::UnknownKey,
        "two keys fit"
    );
    assert_eq!(
        without_id(SignatureAlgorithm::Es256),
        SignatureVerdict::Invalid,
        "one key fits"
    );
}

#[test]
fn symmetric_and_missing_algorithms_are_unknown() {
    for name in ["none", "None", "HS256", "HS512", "RS1", "rs256", ""] {
        assert_eq!(SignatureAlgorithm::parse(name), None, "{name}");
    }
}

#[test]
fn unknown_kinds_of_keys_are_ignored() {
    let keys = KeySet::parse(&json!({"keys": [{"kty": "AKP", "kid": "new"}, 7, {"kid": "odd"}]})).unwrap();
    assert_eq!(keys.0.len(), 1);
    assert!(KeySet::parse(&json!({"keys": {}})).is_none());
    assert!(KeySet::parse(&json!([])).is_none());
}
