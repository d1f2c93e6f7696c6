// Which data a form sends, and what is missing.
import { describe, expect, it } from "vitest";
import type { CredentialType } from "../api/types";
import { collectData, emptyDraft, listMissing } from "./fields";

const field = (name: string, isRequired: boolean) => ({
  name,
  description: name,
  is_secret: true,
  is_required: isRequired,
  is_multiline: false,
});
const login: CredentialType = {
  name: "basic",
  description: "",
  fields: [field("username", true), field("password", true), field("realm", false)],
};

describe("the data of a credential", () => {
  it("has the fields with a value, of the type and added ones", () => {
    const draft = { values: { username: "me", realm: "" }, own: [{ name: " zone ", value: "eu" }] };
    expect(collectData(login, draft)).toEqual({ username: "me", zone: "eu" });
  });

  it("does not contain values of another type or of fields without a name", () => {
    const draft = { values: { token: "secret" }, own: [{ name: "", value: "lost" }] };
    expect(collectData(login, draft)).toEqual({});
  });
});

describe("missing fields", () => {
  it("are the required ones without a value", () => {
    expect(listMissing(login, { ...emptyDraft, values: { username: "me" } })).toEqual(["password"]);
    expect(listMissing(undefined, emptyDraft)).toEqual([]);
  });
});
