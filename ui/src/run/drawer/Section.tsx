// A part of the drawer with a heading.

interface SectionProps {
  title: string;
  extra?: React.ReactNode;
  children: React.ReactNode;
}

export function Section({ title, extra, children }: SectionProps) {
  return (
    <section className="drawer-section">
      <div className="row">
        <h2 className="grow">{title}</h2>
        {extra}
      </div>
      {children}
    </section>
  );
}
