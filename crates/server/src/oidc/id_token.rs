//! Checks of the claims of an ID token, after its signature: who issued it, for whom, when, and for which sign-in.

use std::time::Duration;

use model::time::Time;
use serde_json::{Map, Value};

use crate::oidc::error::{SignInError, SignInFailureKind};

/// How much the clocks of the provider and this server may differ.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(60);

/// What the claims of an ID token must say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedClaims<'e> {
    /// The configured provider.
    pub(crate) issuer: &'e str,
    /// The configured client.
    pub(crate) client_id: &'e str,
    /// The nonce of the sign-in.
    pub(crate) nonce: &'e str,
    /// When the sign-in started.
    pub(crate) started_at: Time,
    /// The time of the check.
    pub(crate) now: Time,
}

impl ExpectedClaims<'_> {
    /// Checks the claims.
    pub(crate) fn check(&self, claims: &Map<String, Value>) -> Result<(), SignInError> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer) {
            return Err(mismatch("iss", "the configured issuer"));
        }
        self.check_audience(claims)?;
        if claims.get("nonce").and_then(Value::as_str) != Some(self.nonce) {
            return Err(mismatch("nonce", "the nonce of this sign-in"));
        }
        self.check_times(claims)
    }

    /// The token is for this client. A token for several clients must name this one as the client that requested it.
    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), SignInError> {
        let audiences = match claims.get("aud") {
            Some(Value::String(audience)) => vec![audience.as_str()],
            Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !audiences.contains(&self.client_id) {
            return Err(mismatch("aud", "the configured client"));
        }
        match claims.get("azp") {
            None if audiences.len() == 1 => Ok(()),
            Some(Value::String(party)) if party == self.client_id => Ok(()),
            _ => Err(mismatch("azp", "the configured client")),
        }
    }

    fn check_times(&self, claims: &Map<String, Value>) -> Result<(), SignInError> {
        let wrong = |reason: &str| Err(SignInError::new(SignInFailureKind::Clock, reason));
        let expires_at = read_time(claims, "exp")?;
        let issued_at = read_time(claims, "iat")?;
        let latest = self.now.after(CLOCK_DIFFERENCE_MAX);
        if expires_at <= self.now.before(CLOCK_DIFFERENCE_MAX) {
            return wrong("the ID token has expired (`exp`)");
        }
        if issued_at > latest {
            return wrong("the ID token was issued in the future (`iat`)");
        }
        if issued_at < self.started_at.before(CLOCK_DIFFERENCE_MAX) {
            return wrong("the ID token was issued before the sign-in started (`iat`)");
        }
        if claims.contains_key("nbf") && read_time(claims, "nbf")? > latest {
            return wrong("the ID token is not valid yet (`nbf`)");
        }
        Ok(())
    }
}

fn mismatch(claim: &str, expected: &str) -> SignInError {
    SignInError::invalid_token(format!("the claim `{claim}` of the ID token is not {expected}"))
}

/// A claim with seconds since 1970.
fn read_time(claims: &Map<String, Value>, claim: &str) -> Result<Time, SignInError> {
    let seconds = claims.get(claim).and_then(Value::as_f64);
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.map(|seconds| Time(0).after(seconds));
    time.ok_or_else(|| SignInError::invalid_token(format!("the ID token has no valid `{claim}`")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_S: u64 = 1_000_000;

    fn check(changes: Value) -> Result<(), SignInFailureKind> {
        let claims = json!({
            "iss": "https://login.example", "aud": "noetl", "nonce": "n-1", "sub": "ada",
            "exp": NOW_S + 300, "iat": NOW_S,
        });
        let Value::Object(mut claims) = claims else {
            unreachable!()
        };
        let Value::Object(changes) = changes else {
            unreachable!()
        };
        for (name, value) in changes {
            if value.is_null() {
                claims.remove(&name);
            } else {
                claims.insert(name, value);
            }
        }
        let now = Time(0).after(Duration::from_secs(NOW_S));
        let expected = ExpectedClaims {
            issuer: "https://login.example",
            client_id: "noetl",
            nonce: "n-1",
            started_at: now.before(Duration::from_secs(30)),
            now,
        };
        expected.check(&claims).map_err(|error| error.kind)
    }

    #[test]
    fn the_expected_claims_are_accepted() {
        assert_eq!(check(json!({})), Ok(()));
        assert_eq!(check(json!({"aud": ["noetl"]})), Ok(()));
        assert_eq!(check(json!({"aud": ["noetl", "other"], "azp": "noetl"})), Ok(()));
        assert_eq!(
            check(json!({"nbf": NOW_S + 59, "iat": NOW_S + 59})),
            Ok(()),
            "clocks differ a little"
        );
        assert_eq!(check(json!({"exp": NOW_S - 59})), Ok(()), "clocks differ a little");
    }

    #[test]
    fn tokens_of_others_for_others_and_of_other_sign_ins_are_refused() {
        for changes in [
            json!({"iss": "https://login.example/"}),
            json!({"iss": null}),
            json!({"aud": "other"}),
            json!({"aud": null}),
            json!({"aud": ["noetl", "other"]}),
            json!({"aud": ["noetl", "other"], "azp": "other"}),
            json!({"azp": "other"}),
            json!({"azp": 7}),
            json!({"nonce": "n-2"}),
            json!({"nonce": null}),
            json!({"exp": null}),
            json!({"exp": "soon"}),
            json!({"iat": null}),
            json!({"exp": -1}),
        ] {
            assert_eq!(
                check(changes.clone()),
                Err(SignInFailureKind::TokenInvalid),
                "{changes}"
            );
        }
    }

    #[test]
    fn wrong_times_are_reported_as_such() {
        for changes in [
            json!({"exp": NOW_S - 61}),
            json!({"iat": NOW_S + 61}),
            json!({"iat": NOW_S - 91}),
            json!({"nbf": NOW_S + 61}),
        ] {
            assert_eq!(check(changes.clone()), Err(SignInFailureKind::Clock), "{changes}");
        }
    }
}
