import { guestSubject } from '../../../agent/guests/operations/guest-order.js'
import { expect } from 'chai'
import { pino } from 'pino'
import { OperationEngine } from '../../../agent/operations/engine.js'
import type { EngineOptions, Submission } from '../../../agent/operations/submission.js'
import type { OperationDefinition, OperationRecord, Step, StepContext } from '../../../agent/operations/types.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'
import { waitFor } from '../wait.js'

export const log = pino({ level: 'silent' })
export const retry = { firstMs: 1, maxMs: 8, undoAttempts: 3 }

/** The objects that the tests of a suite share after a call of `useEngines`. */
export interface EngineLab {
  /** An agent's journal in memory. Each test gets a new one. */
  readonly changes: Changes
  /** Starts and recovers an engine on this journal. The engine is closed after the test. */
  start(definitions: readonly OperationDefinition<unknown, string>[], options?: Partial<EngineOptions>): OperationEngine
}

export function useEngines(): EngineLab {
  let changes: Changes
  const engines: OperationEngine[] = []

  beforeEach(() => (changes = new Changes(openDatabase(':memory:'))))
  afterEach(async () => {
    await Promise.all(engines.splice(0).map((engine) => engine.close(1000)))
    changes.db.close()
  })

  return {
    get changes() {
      return changes
    },
    start: (definitions, options = {}) => {
      const engine = new OperationEngine({ changes, definitions, parallel: 4, log, retry, ...options })
      engine.recover()
      engines.push(engine)
      return engine
    },
  }
}

/** A step that waits until a test calls `open`. A shutdown does not interrupt it. */
export class Gate {
  #open = (): void => undefined
  readonly #opened = new Promise<void>((resolve) => (this.#open = resolve))
  #entered = 0

  readonly step: Step<unknown, string> = { name: 'gate', run: () => this.pass() }

  pass(): Promise<void> {
    this.#entered += 1
    return this.#opened
  }

  open(): void {
    this.#open()
  }

  entered(times: number): Promise<unknown> {
    return waitFor(() => this.#entered >= times, { intervalMs: 2 })
  }
}

export function define(
  action: string,
  steps: readonly Step<unknown, string>[],
  rest: Partial<OperationDefinition<unknown, string>> = {},
): OperationDefinition<unknown, string> {
  return { action, steps, ...rest }
}

export function step(
  name: string,
  run: (context: StepContext<unknown, string>) => void | Promise<void>,
): Step<unknown, string> {
  return { name, run: async (context) => run(context) }
}

/** @param guest UUID of the guest; empty for an operation on an image that no other operation uses */
export function order(id: string, action: string, guest: string): Submission {
  const subject = guest === '' ? { kind: 'image', id } : guestSubject(guest)
  return {
    id,
    action,
    subject: { ...subject, name: 'seven', number: 7 },
    input: { x: 1 },
    requestedBy: 'test',
  }
}

export function fail(message = 'no'): never {
  throw new Error(message)
}

export function expectRefused(work: () => OperationRecord | void, code: string): void {
  let thrown: unknown
  try {
    work()
  } catch (error) {
    thrown = error
  }
  expect(thrown, 'refused').to.have.property('code', code)
}
