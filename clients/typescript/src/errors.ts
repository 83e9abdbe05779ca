/** Holdfast refused, or is not there. `code` is the code of the protocol or of the system. */
export class HoldfastError extends Error {
  override readonly name: string = "HoldfastError";
  readonly code: string | number | undefined;
  readonly data: Record<string, unknown>;

  constructor(message: string, code?: string | number, data: Record<string, unknown> = {}) {
    super(message);
    this.code = code;
    this.data = data;
  }
}
