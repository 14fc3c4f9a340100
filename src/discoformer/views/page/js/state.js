// What the reader has chosen, in one place; listeners are told once per frame.

export class State {
  constructor(values) {
    this.values = { ...values };
    this.listeners = [];
    this.changed = null;
  }

  /** Change some values; listeners hear of all changes of a frame together, with the set of changed names. */
  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (this.values[name] === value) continue;
      this.values[name] = value;
      if (!this.changed) {
        this.changed = new Set();
        requestAnimationFrame(() => this.tell());
      }
      this.changed.add(name);
    }
  }

  /** Call `listener(values, changed)` for every frame in which something changed. */
  listen(listener) {
    this.listeners.push(listener);
  }

  tell() {
    const changed = this.changed;
    this.changed = null;
    for (const listener of this.listeners) listener(this.values, changed);
  }
}
