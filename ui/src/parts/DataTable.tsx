// A table of rows that are not selected, with a heading for each column. It scrolls sideways where it does not fit.
import "./table.css";

interface DataTableProps {
  /** What the rows are, for screen readers. */
  label: string;
  columns: string[];
  children: React.ReactNode;
}

export function DataTable({ label, columns, children }: DataTableProps) {
  return (
    <div className="data-table-frame panel" role="region" aria-label={label} tabIndex={0}>
      <table className="data-table">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column.startsWith("(") ? <span className="visually-hidden">{column.slice(1, -1)}</span> : column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

interface PartProps {
  title: string;
  extra?: React.ReactNode;
  children: React.ReactNode;
}

/** A part of a page with a heading. */
export function PagePart({ title, extra, children }: PartProps) {
  return (
    <section className="page-part">
      <div className="row">
        <h2 className="grow">{title}</h2>
        {extra}
      </div>
      {children}
    </section>
  );
}
