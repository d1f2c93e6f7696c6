// What a page shows if it fails: the problem, and a way to try again.
import { useRouter, type ErrorComponentProps } from "@tanstack/react-router";
import { ProblemNote } from "../parts/ProblemNote";
import { Page } from "./Page";

export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  return (
    <Page title="This page failed">
      <ProblemNote error={error} onRetry={retry} />
    </Page>
  );
}
