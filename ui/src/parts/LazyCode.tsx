// The editor, loaded when it is first shown.
import { lazy, Suspense } from "react";
import type { Diagnostic } from "../api/types";

const CodeEditor = lazy(() => import("./CodeEditor"));

interface LazyCodeProps {
  text: string;
  label: string;
  onChange?: (text: string) => void;
  line?: number | undefined;
  diagnostics?: Diagnostic[];
}

export function LazyCode(props: LazyCodeProps) {
  return (
    <Suspense fallback={<div className="code" />}>
      <CodeEditor {...props} />
    </Suspense>
  );
}
