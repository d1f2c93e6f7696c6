// A line of output with its colours.
import { parseAnsi } from "../../lib/ansi";
import "./logs.css";

export function AnsiText({ text }: { text: string }) {
  return parseAnsi(text).map((span, index) =>
    span.style ? (
      <span key={index} className={span.style}>
        {span.text}
      </span>
    ) : (
      span.text
    ),
  );
}
