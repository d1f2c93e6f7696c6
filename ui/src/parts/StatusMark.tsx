// The mark of a status: a shape for each status, so that colour is never the only sign.
import { lookOf, type Mark } from "../lib/status";

const shapes: Record<Mark, React.ReactNode> = {
  done: <path d="M2 6.5 5 9.5 10.5 3" fill="none" stroke="currentColor" strokeWidth="1.8" />,
  running: (
    <>
      <circle cx="6" cy="6" r="4.8" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <circle cx="6" cy="6" r="2.4" fill="currentColor" />
    </>
  ),
  waiting: (
    <circle cx="6" cy="6" r="4.5" fill="none" stroke="currentColor" strokeWidth="1.4" strokeDasharray="2.2 1.4" />
  ),
  retrying: (
    <path
      d="M10.3 6A4.3 4.3 0 1 1 8.6 2.6M8.4.4v2.5h2.5"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinejoin="round"
    />
  ),
  failed: <path d="m2.5 2.5 7 7m0-7-7 7" fill="none" stroke="currentColor" strokeWidth="1.8" />,
  skipped: <path d="M2.5 6h7" fill="none" stroke="currentColor" strokeWidth="1.8" />,
  cancelled: <rect x="2" y="2" width="8" height="8" fill="currentColor" />,
  paused: <path d="M4 2v8M8 2v8" fill="none" stroke="currentColor" strokeWidth="2.2" />,
  none: <circle cx="6" cy="6" r="4.5" fill="none" stroke="currentColor" strokeWidth="1.2" />,
};

export function MarkIcon({ mark, size = 12 }: { mark: Mark; size?: number }) {
  return (
    <svg className={`tone-${mark}`} width={size} height={size} viewBox="0 0 12 12" aria-hidden="true">
      {shapes[mark]}
    </svg>
  );
}

interface StatusMarkProps {
  status: string;
  /** Shows only the mark; the word stays for screen readers. */
  isShort?: boolean;
}

export function StatusMark({ status, isShort = false }: StatusMarkProps) {
  const { mark, word } = lookOf(status);
  return (
    <span className={`status tone-${mark}`}>
      <MarkIcon mark={mark} />
      <span className={isShort ? "visually-hidden" : ""}>{word}</span>
    </span>
  );
}
