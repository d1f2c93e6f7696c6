// The version of the playbook that a retry or a rerun uses.
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { playbookQuery } from "../../api/queries";
import { useRun } from "../context";

interface VersionFieldProps {
  version: number;
  onChange: (version: number) => void;
}

export function VersionField({ version, onChange }: VersionFieldProps) {
  const { detail } = useRun();
  const { path, version: current } = detail.execution;
  const { data: latest } = useQuery(playbookQuery(path));
  const id = useId();
  const newest = Math.max(current, latest?.version ?? current);
  const versions = Array.from({ length: newest }, (_, index) => newest - index);
  return (
    <div className="field">
      <label htmlFor={id}>Version of {path}</label>
      <select id={id} className="input" value={version} onChange={(event) => onChange(Number(event.target.value))}>
        {versions.map((candidate) => (
          <option key={candidate} value={candidate}>
            {candidate}
            {candidate === current ? ", of this run" : ""}
            {candidate === newest ? ", the latest" : ""}
          </option>
        ))}
      </select>
    </div>
  );
}
