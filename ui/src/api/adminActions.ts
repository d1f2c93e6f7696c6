// What an admin can do: set and remove credentials, create and revoke access tokens.
import { api, readData } from "./client";
import type { Role } from "./types";

export const setCredential = (name: string, type: string, data: Record<string, string>) =>
  readData(api.POST("/api/credentials", { body: { name, type, data: data as Record<string, never> } }));

export const removeCredential = (name: string) =>
  readData(api.DELETE("/api/credentials/{name}", { params: { path: { name } } }));

export const rotateMasterKey = () => readData(api.POST("/api/keychain/rotate-key"));

export const createToken = (name: string, role: Role, expiresInS: number | undefined) =>
  readData(
    api.POST("/api/tokens", {
      body: { name, role, ...(expiresInS === undefined ? {} : { expires_in_s: expiresInS }) },
    }),
  );

export const revokeToken = (id: string) => readData(api.DELETE("/api/tokens/{id}", { params: { path: { id } } }));
