//! The person that an ID token names, with the role that its claims give.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use wire::api::Role;

use crate::oidc::error::{SignInError, SignInFailureKind};

/// Maximum length of a subject in bytes, as the specification of ID tokens sets it.
const SUBJECT_BYTES_MAX: usize = 255;
/// Maximum length of a name in characters; longer names are cut.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of values of the role claim that are compared.
const ROLE_VALUES_MAX: usize = 10_000;

/// A person who signed in at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedInUser {
    /// ID of the person at the provider; it never changes.
    pub(crate) subject: String,
    /// Name to display.
    pub(crate) name: String,
    /// Role.
    pub(crate) role: Role,
}

impl SignedInUser {
    /// Reads the person from checked claims. The highest of the matching roles counts.
    pub(crate) fn from_claims(
        claims: &Map<String, Value>,
        role_claim: &str,
        roles: &BTreeMap<String, Role>,
    ) -> Result<Self, SignInError> {
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        let is_valid = (1..=SUBJECT_BYTES_MAX).contains(&subject.len()) && !subject.contains(char::is_control);
        if !is_valid {
            return Err(SignInError::invalid_token("the ID token has no valid `sub`"));
        }
        let name = display_name(claims).unwrap_or_else(|| subject.to_owned());
        let values = role_values(claims, role_claim);
        let role = values.iter().filter_map(|value| roles.get(*value)).max();
        let role = *role.ok_or_else(|| {
            let reason = format!(
                "no value of the claim `{role_claim}` of {name} ({subject}) has a role; the claim has {} values",
                values.len()
            );
            SignInError::new(SignInFailureKind::NoRole, reason)
        })?;
        Ok(Self {
            subject: subject.to_owned(),
            name,
            role,
        })
    }
}

fn display_name(claims: &Map<String, Value>) -> Option<String> {
    let names = ["preferred_username", "email"].into_iter();
    let mut names = names.filter_map(|claim| {
        let text = claims.get(claim)?.as_str()?;
        let text: String = text.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
        Some(text.trim().to_owned())
    });
    names.find(|name| !name.is_empty())
}

/// Values of the role claim: a text, or a list of texts.
fn role_values<'c>(claims: &'c Map<String, Value>, path: &str) -> Vec<&'c str> {
    match find_claim(claims, path) {
        Some(Value::String(value)) => vec![value],
        Some(Value::Array(values)) => {
            let values = values.iter().take(ROLE_VALUES_MAX);
            values.filter_map(Value::as_str).collect()
        }
        _ => Vec::new(),
    }
}

/// The claim with this name, which may contain dots; otherwise the claim at this path.
fn find_claim<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let mut names = path.split('.');
    let first = claims.get(names.next()?)?;
    names.try_fold(first, |value, name| value.as_object()?.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(claims: Value, role_claim: &str) -> Result<SignedInUser, SignInError> {
        let Value::Object(claims) = claims else { unreachable!() };
        let roles = [("staff", Role::Viewer), ("ops", Role::Operator), ("root", Role::Admin)];
        let roles = roles.map(|(value, role)| (value.to_owned(), role));
        SignedInUser::from_claims(&claims, role_claim, &roles.into())
    }

    #[test]
    fn the_highest_matching_role_counts() {
        let role = |groups: Value| read(json!({"sub": "7", "groups": groups}), "groups").map(|user| user.role);
        assert_eq!(role(json!(["staff", "ops", "other"])), Ok(Role::Operator));
        assert_eq!(role(json!(["root", "staff"])), Ok(Role::Admin));
        assert_eq!(role(json!("staff")), Ok(Role::Viewer));
        for groups in [
            json!([]),
            json!("STAFF"),
            json!(["staff "]),
            json!([["root"]]),
            json!({"root": true}),
            json!(true),
        ] {
            let refused = role(groups.clone()).unwrap_err();
            assert_eq!(refused.kind, SignInFailureKind::NoRole, "{groups}");
        }
    }

    #[test]
    fn the_role_claim_may_be_a_path_or_a_name_with_dots() {
        let nested = json!({"sub": "7", "realm_access": {"roles": ["ops"]}});
        assert_eq!(read(nested.clone(), "realm_access.roles").unwrap().role, Role::Operator);
        assert!(read(nested.clone(), "realm_access").is_err());
        assert!(read(nested, "realm_access.roles.0").is_err());
        let url = json!({"sub": "7", "https://noetl.example/roles": ["root"]});
        assert_eq!(read(url, "https://noetl.example/roles").unwrap().role, Role::Admin);
    }

    #[test]
    fn the_name_is_the_first_that_the_provider_knows() {
        let name = |claims: Value| {
            let Value::Object(mut claims) = claims else {
                unreachable!()
            };
            claims.extend([("sub".to_owned(), json!("7")), ("groups".to_owned(), json!("staff"))]);
            read(Value::Object(claims), "groups").unwrap().name
        };
        assert_eq!(name(json!({"preferred_username": "ada", "email": "a@b"})), "ada");
        assert_eq!(name(json!({"preferred_username": " \n", "email": "a@b"})), "a@b");
        assert_eq!(name(json!({"preferred_username": 7})), "7");
        assert_eq!(name(json!({"email": "x".repeat(500)})).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn a_person_without_a_subject_is_refused() {
        for subject in [json!(null), json!(""), json!(7), json!("x".repeat(256)), json!("a\nb")] {
            let refused = read(json!({"sub": subject, "groups": "root"}), "groups").unwrap_err();
            assert_eq!(refused.kind, SignInFailureKind::TokenInvalid);
        }
    }
}
