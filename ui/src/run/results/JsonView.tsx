// A JSON value as a tree, a table or text.
import * as Tabs from "@radix-ui/react-tabs";
import type { Json } from "../../api/types";
import { previewJson, toTable, type JsonTable } from "../../lib/json";
import { IconButton } from "../../parts/Button";
import { CopyIcon } from "../../parts/copy";
import { JsonTree } from "../../parts/JsonTree";
import { saveFile } from "../../parts/saveFile";

const rowsMax = 1000;
const textMax = 500_000;

export function JsonView({ value, name }: { value: Json; name: string }) {
  const table = toTable(value, rowsMax);
  const text = JSON.stringify(value, null, 2);
  return (
    <Tabs.Root className="json-view" defaultValue="tree">
      <div className="row">
        <Tabs.List className="json-tabs grow" aria-label="Form of the value">
          <Tabs.Trigger className="tab" value="tree">
            Tree
          </Tabs.Trigger>
          {table && (
            <Tabs.Trigger className="tab" value="table">
              Table
            </Tabs.Trigger>
          )}
          <Tabs.Trigger className="tab" value="text">
            Text
          </Tabs.Trigger>
        </Tabs.List>
        <CopyIcon text={text} what="the value" />
        <IconButton
          isSmall
          icon="download"
          label="Download"
          onClick={() => saveFile(name, `${text}\n`, "application/json")}
        />
      </div>
      <Tabs.Content value="tree">
        <JsonTree value={value} />
      </Tabs.Content>
      {table && (
        <Tabs.Content value="table">
          <ValueTable table={table} size={Array.isArray(value) ? value.length : 0} />
        </Tabs.Content>
      )}
      <Tabs.Content value="text">
        <pre className="block json-text-view" tabIndex={0}>
          {text.length > textMax ? `${text.slice(0, textMax)}\n… download the value to see all of it` : text}
        </pre>
      </Tabs.Content>
    </Tabs.Root>
  );
}

function ValueTable({ table, size }: { table: JsonTable; size: number }) {
  return (
    <div className="value-table" tabIndex={0} role="region" aria-label="Value as a table">
      <table>
        <thead>
          <tr>
            <th scope="col">#</th>
            {table.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              <td className="muted">{index}</td>
              {row.map((cell, column) => (
                <td key={column}>{typeof cell === "string" ? cell : previewJson(cell, 80)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {size > table.rows.length && (
        <p className="muted results-none">
          The first {table.rows.length.toLocaleString("en")} of {size.toLocaleString("en")} rows.
        </p>
      )}
    </div>
  );
}
