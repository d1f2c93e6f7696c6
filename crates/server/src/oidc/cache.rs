//! A document of the provider, cached for a time, with a bound for the requests that it costs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::oidc::error::SignInError;

/// How long a document is used without requesting it again.
const FRESH_FOR: Duration = Duration::from_secs(60 * 60);
/// How long an old document is used while the provider does not return a new one.
const STALE_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// How long after a failed request no other is sent.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Shortest time between two requests that a token with an unknown key causes.
const REFRESH_AFTER: Duration = Duration::from_secs(10);

/// A cached document. While one caller requests it, others wait for the same response.
pub(crate) struct DocumentCache<T>(Mutex<CachedDocument<T>>);

struct CachedDocument<T> {
    document: Option<(Instant, Arc<T>)>,
    failure: Option<(Instant, SignInError)>,
    refreshed_at: Option<Instant>,
}

impl<T> Default for DocumentCache<T> {
    fn default() -> Self {
        Self(Mutex::new(CachedDocument {
            document: None,
            failure: None,
            refreshed_at: None,
        }))
    }
}

impl<T> DocumentCache<T> {
    /// The document; it is requested if it is not fresh.
    pub(crate) async fn get(
        &self,
        request: impl Future<Output = Result<T, SignInError>>,
    ) -> Result<Arc<T>, SignInError> {
        let mut cached = self.0.lock().await;
        if let Some(document) = cached.younger_than(FRESH_FOR) {
            return Ok(document);
        }
        let old = cached.younger_than(STALE_FOR);
        match (cached.load(request).await, old) {
            (Ok(document), _) => Ok(document),
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "failed to read a document of the identity provider; using the previous one");
                Ok(old)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Requests a new document, unless this was done a short time ago.
    pub(crate) async fn refresh(
        &self,
        request: impl Future<Output = Result<T, SignInError>>,
    ) -> Result<Option<Arc<T>>, SignInError> {
        let mut cached = self.0.lock().await;
        if cached.refreshed_at.is_some_and(|at| at.elapsed() < REFRESH_AFTER) {
            return Ok(None);
        }
        cached.refreshed_at = Some(Instant::now());
        cached.load(request).await.map(Some)
    }
}

impl<T> CachedDocument<T> {
    fn younger_than(&self, age: Duration) -> Option<Arc<T>> {
        let (since, document) = self.document.as_ref()?;
        (since.elapsed() < age).then(|| Arc::clone(document))
    }

    async fn load(&mut self, request: impl Future<Output = Result<T, SignInError>>) -> Result<Arc<T>, SignInError> {
        if let Some((at, error)) = &self.failure
            && at.elapsed() < RETRY_AFTER
        {
            return Err(error.clone());
        }
        match request.await {
            Ok(document) => {
                let document = Arc::new(document);
                self.document = Some((Instant::now(), Arc::clone(&document)));
                self.failure = None;
                Ok(document)
            }
            Err(error) => {
                self.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::oidc::error::SignInFailureKind;

    fn failure() -> Result<u32, SignInError> {
        Err(SignInError::new(SignInFailureKind::Unreachable, "no response"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_fresh_document_is_not_requested_again() {
        let cache = DocumentCache::default();
        assert_eq!(*cache.get(async { Ok(1) }).await.unwrap(), 1);
        assert_eq!(*cache.get(async { panic!("it is cached") }).await.unwrap(), 1);
        advance(FRESH_FOR).await;
        assert_eq!(*cache.get(async { Ok(2) }).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_document_is_used_while_the_provider_fails() {
        let cache = DocumentCache::default();
        cache.get(async { Ok(1) }).await.unwrap();
        advance(FRESH_FOR).await;
        assert_eq!(*cache.get(async { failure() }).await.unwrap(), 1);
        advance(STALE_FOR).await;
        assert!(cache.get(async { failure() }).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_requests_are_paused() {
        let cache = DocumentCache::default();
        assert!(cache.get(async { failure() }).await.is_err());
        assert!(cache.get(async { panic!("the failure is recent") }).await.is_err());
        advance(RETRY_AFTER).await;
        assert_eq!(*cache.get(async { Ok(1) }).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_keys_cause_few_requests() {
        let cache = DocumentCache::default();
        cache.get(async { Ok(1) }).await.unwrap();
        assert_eq!(cache.refresh(async { Ok(2) }).await.unwrap().as_deref(), Some(&2));
        assert_eq!(cache.refresh(async { panic!("too soon") }).await.unwrap(), None);
        advance(REFRESH_AFTER).await;
        assert_eq!(cache.refresh(async { Ok(3) }).await.unwrap().as_deref(), Some(&3));
    }
}
