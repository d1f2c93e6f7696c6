// Line icons of 16 px, drawn for this client.

const paths = {
  home: "M2.5 7.5 8 3l5.5 4.5M4 6.8V13h8V6.8",
  runs: "M2 4h2m2 0h8M2 8h2m2 0h8M2 12h2m2 0h8",
  inbox: "M2.5 9.5 4.5 3h7l2 6.5V13h-11zM2.5 9.5H6a2 2 0 0 0 4 0h3.5",
  playbooks: "M3 2.5h8.5a1.5 1.5 0 0 1 1.5 1.5v9.5H4.5A1.5 1.5 0 0 1 3 12zM3 12a1.5 1.5 0 0 1 1.5-1.5H13",
  credentials: "M5.5 13a3 3 0 1 1 0-6 3 3 0 0 1 0 6zM7.6 7.9 13.5 2M11 4.5l2 2",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01M8 5h3M8 11h3",
  system: "M2 4.5h6m4 0h2M2 11.5h2m4 0h6M10 2.5a2 2 0 1 1 0 4 2 2 0 0 1 0-4zM6 9.5a2 2 0 1 1 0 4 2 2 0 0 1 0-4z",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3 14 14",
  close: "m4 4 8 8m0-8-8 8",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  link: "M6.5 9.5a2.8 2.8 0 0 0 4 0l2.5-2.5a2.8 2.8 0 0 0-4-4L8 4M9.5 6.5a2.8 2.8 0 0 0-4 0L3 9a2.8 2.8 0 0 0 4 4l1-1",
  down: "m4 6 4 4 4-4",
  right: "m6 4 4 4-4 4",
  left: "m10 4-4 4 4 4",
  toStart: "M4 4v8M12 4 8 8l4 4",
  toEnd: "M12 4v8M4 4l4 4-4 4",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  rows: "M2 4h12M2 8h12M2 12h12",
  keys: "M1.5 4h13v8h-13zM4 6.5h.01M6.5 6.5h.01M9 6.5h.01M11.5 6.5h.01M5 9.5h6",
  download: "M8 2.5v7m-3-3 3 3 3-3M3 13h10",
  wrap: "M2 4h12M2 8h9.5a2 2 0 0 1 0 4H8m2-2-2 2 2 2M2 12h3",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  exit: "M6 2.5H3v11h3M7 8h7m-2.5-2.5L14 8l-2.5 2.5",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={paths[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth={name === "more" ? 2.4 : 1.3}
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
