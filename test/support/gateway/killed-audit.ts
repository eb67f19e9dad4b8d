import { expect } from 'chai'

interface Entry {
  readonly action: string
  readonly success: boolean
  readonly detail: string
}

/** Checks that the audit log has all acknowledged changes, and no successful change of a value that was never seen. */
export class KilledAudit {
  readonly #observed = new Map<string, Set<string>>()
  readonly #acknowledged = new Map<string, Set<string>>()

  /** Records a value that a request has read. @param action name in the audit log of the change that set the value */
  observed(action: string, value: string): void {
    note(this.#observed, action, value)
  }

  acknowledged(action: string, value: string): void {
    note(this.#acknowledged, action, value)
  }

  /** @returns a function that tests whether an audit log contains all changes acknowledged until now */
  acknowledgedByNow(): (lines: string) => boolean {
    const changes = [...this.#acknowledged].map(([action, values]) => ({ action, values: [...values] }))
    return (lines) => {
      const entries = parse(lines)
      return changes.every(({ action, values }) => values.every((value) => isAudited(entries, action, value)))
    }
  }

  /** @param lines the whole audit log, one JSON object per line */
  check(lines: string): void {
    const entries = parse(lines)
    for (const [action, values] of this.#acknowledged) {
      for (const value of values)
        expect(isAudited(entries, action, value), `${action} ${value} is audited`).to.equal(true)
      const own = entries.filter((entry) => entry.action === action && entry.success)
      const seen = [...(this.#observed.get(action) ?? []), ...values]
      for (const { detail } of own)
        expect(
          seen.some((value) => detail.includes(value)),
          `${action} ${detail} was done`,
        ).to.equal(true)
    }
    for (const { success, detail, action } of entries) if (!success) expect(detail, action).to.not.equal('')
  }
}

function parse(lines: string): Entry[] {
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Entry)
}

function isAudited(entries: readonly Entry[], action: string, value: string): boolean {
  return entries.some((entry) => entry.action === action && entry.success && entry.detail.includes(value))
}

function note(kept: Map<string, Set<string>>, action: string, value: string): void {
  kept.set(action, (kept.get(action) ?? new Set()).add(value))
}
