// The sign-in page: an access token becomes a session cookie, or the identity provider signs the person in.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation, useRouter } from "@tanstack/react-router";
import { useEffect, useId, useState } from "react";
import { signIn } from "../api/actions";
import { apiUrl, baseUrl } from "../api/client";
import { ApiError } from "../api/problem";
import { sessionQuery, signInFailureQuery } from "../api/queries";
import { readText } from "../lib/search";
import { isPagePath, signInPath } from "../lib/signIn";
import { Button } from "../parts/Button";
import { ProblemNote } from "../parts/ProblemNote";

/** What is shown at the address of the sign-in page with a session: the page that the person wanted. */
export function SignedInAlready() {
  const { history } = useRouter();
  const path = useReturnPath();
  useEffect(() => history.replace(baseUrl.pathname.replace(/\/$/, "") + path), [history, path]);
  return null;
}

export function SignIn() {
  const { data: session } = useQuery(sessionQuery);
  const provider = session?.single_sign_on;
  return (
    <main className="sign-in">
      <title>Sign in · NoETL</title>
      <div className="panel sign-in-panel">
        <h1>Sign in to NoETL</h1>
        <FailureNote />
        {provider && <ProviderLink name={provider.name} />}
        <TokenForm isOnly={!provider} />
      </div>
    </main>
  );
}

/** The page to which the sign-in leads: the current one, or the one in the address of the sign-in page. */
function useReturnPath(): string {
  const { pathname, searchStr, search } = useLocation();
  if (pathname !== signInPath) return pathname + searchStr;
  const wanted = readText((search as Record<string, unknown>)["return_to"]);
  return wanted !== undefined && isPagePath(wanted) ? wanted : "/";
}

function FailureNote() {
  const { pathname, search } = useLocation();
  const code = pathname === signInPath ? readText((search as Record<string, unknown>)["failure"]) : undefined;
  const { data, error } = useQuery({ ...signInFailureQuery(code ?? ""), enabled: code !== undefined });
  if (code === undefined) return null;
  if (data) return <ProblemNote error={new ApiError(0, data.code, data.detail, data.remedy)} />;
  return error ? <ProblemNote error={error} /> : null;
}

function ProviderLink({ name }: { name: string }) {
  const url = apiUrl("/api/session/oidc/start");
  url.searchParams.set("return_to", useReturnPath());
  return (
    <>
      <a className="button button-primary sign-in-provider" href={url.href}>
        Sign in with {name}
      </a>
      <p className="sign-in-or muted">or with an access token</p>
    </>
  );
}

function TokenForm({ isOnly }: { isOnly: boolean }) {
  const [error, setError] = useState<unknown>(null);
  const [isSending, setIsSending] = useState(false);
  const client = useQueryClient();
  const id = useId();

  const submit = async (event: React.FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const token = new FormData(event.currentTarget).get("token");
    if (typeof token !== "string" || !token.trim()) return;
    setIsSending(true);
    setError(null);
    try {
      const session = await signIn(token.trim());
      client.setQueryData(["session"], session);
      await client.invalidateQueries();
    } catch (failure) {
      setError(failure);
    } finally {
      setIsSending(false);
    }
  };

  return (
    <form className="sign-in-form" onSubmit={(event) => void submit(event)}>
      <div className="field">
        <label htmlFor={id}>Access token</label>
        <input
          id={id}
          name="token"
          type="password"
          className="input mono"
          placeholder="noetl_pat_…"
          autoComplete="current-password"
          autoFocus={isOnly}
        />
        <p className="field-hint">The token is sent once. The browser keeps a session cookie, not the token.</p>
      </div>
      {error !== null && <ProblemNote error={error} />}
      <Button type="submit" look={isOnly ? "primary" : "plain"} disabled={isSending}>
        {isSending ? "Signing in…" : isOnly ? "Sign in" : "Sign in with the token"}
      </Button>
      <p className="muted">
        Create a token on the server: <code>noetl token create NAME --role viewer</code>
      </p>
    </form>
  );
}
