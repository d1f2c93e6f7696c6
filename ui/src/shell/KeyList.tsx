// The list of keys that act on the current page.
import { Modal } from "../parts/Modal";
import { useKeyGroups } from "./keyboard";

export function KeyList({ onClose }: { onClose: () => void }) {
  const groups = useKeyGroups();
  return (
    <Modal title="Keys" onClose={onClose}>
      {groups.map(({ title, entries }) => (
        <section key={title}>
          <h3>{title}</h3>
          <dl className="key-list">
            {entries.map(({ keys, label }) => (
              <div key={keys}>
                <dt>{label}</dt>
                <dd>
                  {showKeys(keys).map((key, index) => (
                    <kbd key={index}>{key}</kbd>
                  ))}
                </dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Modal>
  );
}

function showKeys(keys: string): string[] {
  const mod = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
  return keys.split(" ").flatMap((key) => (key.startsWith("mod+") ? [mod, key.slice(4).toUpperCase()] : [key]));
}
