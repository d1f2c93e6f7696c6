// The frame of a view: title, actions and content. The title is also the title of the document.

interface PageProps {
  title: string;
  actions?: React.ReactNode;
  children: React.ReactNode;
}

export function Page({ title, actions, children }: PageProps) {
  return (
    <main className="page">
      <title>{`${title} · NoETL`}</title>
      <header className="page-head">
        <h1 className="truncate grow">{title}</h1>
        {actions}
      </header>
      {children}
    </main>
  );
}
