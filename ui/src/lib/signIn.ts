// The address of the sign-in page. The server sends the browser there after a failed sign-in.

export const signInPath = "/sign-in";

/** Whether a text is the path of a page of this client, and not an address of another site. */
export function isPagePath(text: string): boolean {
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(text) && !text.includes("\\") && !text.startsWith(signInPath);
}

/** Shortest and longest time between two reads of the session, in milliseconds. Timers cannot be longer. */
const readAfter = { min: 30_000, max: 2 ** 31 - 1 };

/** When the session should be read again, so that the sign-in page appears after its end; false if it has no end. */
export function sessionReadDelay(expiresAt: string | null | undefined, now: number): number | false {
  if (!expiresAt) return false;
  return Math.min(Math.max(Date.parse(expiresAt) - now, readAfter.min), readAfter.max);
}
