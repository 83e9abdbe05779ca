// Questions before an action, and short notices after it.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ProblemError } from "./api.ts";

type Question = {
  title: string;
  body: ComponentChildren;
  action: string;
  field?: { label: string; value: string; placeholder?: string };
  danger?: boolean;
  answer: (value: string | null) => void;
};
type Notice = { id: number; text: string; remedy: string | null; bad: boolean };

const question = signal<Question | null>(null);
const notices = signal<Notice[]>([]);
let count = 0;

/** The typed text (empty without a field), or null if the user dismissed the dialog. */
export function askFor(what: Omit<Question, "answer">): Promise<string | null> {
  return new Promise((answer) => {
    question.value = { ...what, answer };
  });
}

export function tell(text: string, remedy: string | null = null, bad = false): void {
  const id = ++count;
  notices.value = [...notices.value.slice(-3), { id, text, remedy, bad }];
  setTimeout(() => dismiss(id), bad ? 12_000 : 5_000);
}

function dismiss(id: number): void {
  notices.value = notices.value.filter((one) => one.id !== id);
}

/** Do it, and show an error if it fails. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProblemError) tell(error.message, error.remedy, true);
    else tell(String(error), null, true);
    return undefined;
  }
}

export function Dialogs() {
  const asked = question.value;
  return (
    <>
      {asked !== null && <Ask key={asked.title} asked={asked} />}
      <div class="notices" role="status" aria-live="polite">
        {notices.value.map((one) => (
          <div key={one.id} class={one.bad ? "notice bad" : "notice"}>
            <div>
              {one.text}
              {one.remedy !== null && <div class="dim">{one.remedy}</div>}
            </div>
            <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
              ×
            </button>
          </div>
        ))}
      </div>
    </>
  );
}

function Ask({ asked }: { asked: Question }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    input.current?.focus();
  }, []);
  const end = (value: string | null) => {
    dialog.current?.close(); // gives the focus back
    question.value = null;
    asked.answer(value);
  };
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onCancel={() => end(null)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          end(input.current?.value ?? "");
        }}
      >
        <h2 id="dialog-title">{asked.title}</h2>
        <div class="dialog-body">{asked.body}</div>
        {asked.field !== undefined && (
          <label class="stacked">
            {asked.field.label}
            <input ref={input} defaultValue={asked.field.value} placeholder={asked.field.placeholder ?? ""} />
          </label>
        )}
        <div class="buttons end">
          <button type="button" onClick={() => end(null)}>
            Back
          </button>
          <button type="submit" class={asked.danger ? "danger" : "primary"}>
            {asked.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
