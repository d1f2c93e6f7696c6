import type { Connect } from "vite";

export function createMock(server: string): Connect.NextHandleFunction;
