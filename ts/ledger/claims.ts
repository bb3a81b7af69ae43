/** Who works on which turn. In memory on purpose: a claim dies with the process that made it, so a crash frees all. */
export class Claims {
  readonly observed = new Set<string>();
  readonly judged = new Set<string>();

  free(turnId: string): void {
    this.observed.delete(turnId);
    this.judged.delete(turnId);
  }
}
