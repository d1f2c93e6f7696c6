// The sign-in page: an access token, sent once, becomes a session cookie.
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { signIn } from "../api/actions";
import { Button } from "../parts/Button";
import { ProblemNote } from "../parts/ProblemNote";

export function SignIn() {
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
    <main className="sign-in">
      <title>Sign in · NoETL</title>
      <form className="panel sign-in-form" onSubmit={(event) => void submit(event)}>
        <h1>Sign in to NoETL</h1>
        <div className="field">
          <label htmlFor={id}>Access token</label>
          <input
            id={id}
            name="token"
            type="password"
            className="input mono"
            placeholder="noetl_pat_…"
            autoComplete="current-password"
            autoFocus
          />
          <p className="field-hint">The token is sent once. The browser keeps a session cookie, not the token.</p>
        </div>
        {error !== null && <ProblemNote error={error} />}
        <Button type="submit" look="primary" disabled={isSending}>
          {isSending ? "Signing in…" : "Sign in"}
        </Button>
        <p className="muted">
          Create a token on the server: <code>noetl token create NAME --role viewer</code>
        </p>
      </form>
    </main>
  );
}
