// The address of the sign-in page. The server sends the browser there after a failed sign-in.

export const signInPath = "/sign-in";

/** Whether a text is the path of a page of this client, and not an address of another site. */
export function isPagePath(text: string): boolean {
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(text) && !text.includes("\\") && !text.startsWith(signInPath);
}
