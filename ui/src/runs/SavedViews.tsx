// The menu of saved filters, and the dialog that saves the current one.
import { useId, useState } from "react";
import type { RunFilter } from "../lib/filter";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { Menu, MenuGroup, MenuItem } from "../parts/Menu";
import { Modal } from "../parts/Modal";
import { showToast } from "../parts/toasts";
import { loadViews, storeViews, withView, type SavedView } from "./savedViews";

interface SavedViewsProps {
  filter: RunFilter;
  onChange: (filter: RunFilter) => void;
}

export function SavedViews({ filter, onChange }: SavedViewsProps) {
  const [views, setViews] = useState(loadViews);
  const [isSaving, setIsSaving] = useState(false);
  const store = (next: SavedView[]) => {
    setViews(next);
    if (!storeViews(next)) showToast({ tone: "failed", text: "The browser did not save the view" });
  };
  const isEmpty = Object.keys(filter).length === 0;
  const current = views.find((view) => JSON.stringify(view.filter) === JSON.stringify(filter));
  return (
    <>
      <Menu
        trigger={
          <Button isSmall look="quiet">
            {current?.name ?? "Views"} <Icon name="down" />
          </Button>
        }
      >
        {views.length > 0 && (
          <MenuGroup title="Saved views">
            {views.map((view) => (
              <MenuItem key={view.name} onSelect={() => onChange(view.filter)}>
                {view.name}
              </MenuItem>
            ))}
          </MenuGroup>
        )}
        <MenuGroup title="This filter">
          {current ? (
            <MenuItem onSelect={() => store(views.filter((view) => view !== current))}>Remove this view</MenuItem>
          ) : (
            <MenuItem onSelect={() => (isEmpty ? onChange(filter) : setIsSaving(true))}>
              {isEmpty ? "Set a filter to save it as a view" : "Save as a view…"}
            </MenuItem>
          )}
        </MenuGroup>
      </Menu>
      {isSaving && (
        <SaveDialog
          onClose={() => setIsSaving(false)}
          onSave={(name) => {
            store(withView(views, { name, filter }));
            setIsSaving(false);
          }}
        />
      )}
    </>
  );
}

function SaveDialog({ onClose, onSave }: { onClose: () => void; onSave: (name: string) => void }) {
  const id = useId();
  const [name, setName] = useState("");
  const save = () => name.trim() && onSave(name.trim());
  return (
    <Modal
      title="Save this filter as a view"
      description="Saved views are kept in this browser."
      onClose={onClose}
      foot={
        <Button look="primary" disabled={!name.trim()} onClick={save}>
          Save
        </Button>
      }
    >
      <div className="field">
        <label htmlFor={id}>Name</label>
        <input
          id={id}
          className="input"
          maxLength={60}
          value={name}
          onChange={(event) => setName(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && save()}
        />
      </div>
    </Modal>
  );
}
