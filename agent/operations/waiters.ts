import type { OperationRecord } from './types.js'

interface Waiter {
  resolve: (record: OperationRecord) => void
  reject: (error: Error) => void
}

/** Promises of callers that wait for an operation to end. */
export class Waiters {
  readonly #byId = new Map<string, Waiter[]>()

  wait(id: string): Promise<OperationRecord> {
    return new Promise((resolve, reject) => {
      const waiting = this.#byId.get(id)
      if (waiting) waiting.push({ resolve, reject })
      else this.#byId.set(id, [{ resolve, reject }])
    })
  }

  resolve(record: OperationRecord): void {
    const waiting = this.#byId.get(record.id) ?? []
    this.#byId.delete(record.id)
    for (const { resolve } of waiting) resolve(record)
  }

  reject(id: string, error: Error): void {
    const waiting = this.#byId.get(id) ?? []
    this.#byId.delete(id)
    for (const { reject } of waiting) reject(error)
  }

  rejectAll(error: Error): void {
    const waiting = [...this.#byId.values()].flat()
    this.#byId.clear()
    for (const { reject } of waiting) reject(error)
  }
}
