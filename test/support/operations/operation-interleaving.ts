import { expect } from 'chai'
import fc from 'fast-check'
import { guestSubject } from '../../../agent/guests/operations/guest-order.js'
import { OperationEngine } from '../../../agent/operations/engine.js'
import type { Step, StepContext } from '../../../agent/operations/types.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'
import { define, log, order, retry } from './operation-lab.js'

type Command =
  | { kind: 'submit' | 'delete'; guest: number; steps: number; fails: boolean }
  | { kind: 'cancel'; nth: number }
  | { kind: 'turns'; count: number }
  | { kind: 'restart' }

export const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      guest: fc.integer({ min: 0, max: 3 }),
      steps: fc.integer({ min: 0, max: 3 }),
      fails: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('delete' as const),
      guest: fc.integer({ min: 1, max: 3 }),
      steps: fc.constant(1),
      fails: fc.constant(false),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), nth: fc.nat(40) }) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 8 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
)

/** Runs the commands with an operation journal of its own. A command with guest 0 is not about a guest. */
export async function interleave(commands: readonly Command[], parallel: number): Promise<void> {
  const world = new Interleaving(parallel)
  for (const item of commands) await world.apply(item)
  await world.check()
  await world.close()
}

class Interleaving {
  readonly #changes = new Changes(openDatabase(':memory:'))
  readonly #gauge = new Gauge()
  readonly #submitted: { id: string; fails: boolean }[] = []
  #engine: OperationEngine

  constructor(private readonly parallel: number) {
    this.#engine = this.#open()
    this.#engine.recover()
  }

  async apply(item: Command): Promise<void> {
    switch (item.kind) {
      case 'turns':
        for (let n = 0; n < item.count; n++) await new Promise(setImmediate)
        return
      case 'restart':
        await this.#engine.close()
        this.#engine = this.#open()
        return void this.#engine.recover()
      case 'cancel':
        return this.#cancel(this.#submitted[item.nth]?.id)
      case 'submit':
      case 'delete': {
        const id = `${this.#submitted.length}`
        const guest = item.guest === 0 ? '' : `g${item.guest}`
        this.#engine.submit({
          ...order(id, item.kind, guest),
          input: { steps: item.steps, fails: item.fails },
        })
        this.#submitted.push({ id, fails: item.fails && item.steps > 0 })
      }
    }
  }

  /** Checks that every operation has the expected status, and that the operations of each guest began in order. */
  async check(): Promise<void> {
    for (const { id, fails } of this.#submitted) {
      const { status, error } = await this.#engine.wait(id)
      const ended = fails ? 'failed' : 'done'
      expect([ended, 'canceled'], `${id}: ${error}`).to.include(status)
      expect(this.#gauge.firsts.includes(id), `${id} ran, ${status}`).to.equal(status !== 'canceled')
    }
    for (const guest of ['g1', 'g2', 'g3']) {
      const begun = this.#gauge.begun.get(guest) ?? []
      expect(begun).to.deep.equal(begun.toSorted((a, b) => Number(a) - Number(b)))
      expect(this.#engine.busy(guestSubject(guest))).to.equal(false)
    }
    expect(this.#gauge.mostOfGuest).to.be.at.most(1)
    expect(this.#gauge.most).to.be.at.most(this.parallel)
  }

  async close(): Promise<void> {
    await this.#engine.close()
    this.#changes.db.close()
  }

  #open(): OperationEngine {
    const definitions = [
      define(
        'submit',
        [0, 1, 2].map((index) => this.#step(index)),
      ),
      define('delete', [this.#step(0)], { forwardOnly: true }),
    ]
    return new OperationEngine({ changes: this.#changes, definitions, parallel: this.parallel, log, retry })
  }

  #step(index: number): Step<unknown, string> {
    return {
      name: `s${index}`,
      run: (context) => {
        const { steps, fails } = context.input as { steps: number; fails: boolean }
        return this.#gauge.during(context, () => {
          if (fails && index === steps - 1) throw new Error('wanted')
        })
      },
      undo: (context) => this.#gauge.during(context, () => undefined),
    }
  }

  #cancel(id: string | undefined): void {
    if (id !== undefined && this.#engine.get(id).status === 'pending') this.#engine.cancel(id)
  }
}

/** Records how many operations run a step at the same time, and the order in which operations begin. */
export class Gauge {
  most = 0
  mostOfGuest = 0
  readonly begun = new Map<string, string[]>()
  readonly firsts: string[] = []
  #running = 0
  readonly #ofGuest = new Map<string, number>()

  step(name: string): Step<unknown, string> {
    return { name, run: (context) => this.during(context, () => undefined) }
  }

  async during({ subject, operationId }: StepContext<unknown, string>, work: () => void): Promise<void> {
    const guestUuid = subject.kind === 'guest' ? subject.id : ''
    this.#enter(guestUuid, operationId)
    try {
      await new Promise(setImmediate)
      work()
    } finally {
      this.#running -= 1
      this.#ofGuest.set(guestUuid, (this.#ofGuest.get(guestUuid) ?? 1) - 1)
    }
  }

  #enter(guest: string, id: string): void {
    this.most = Math.max(this.most, (this.#running += 1))
    const ofGuest = (this.#ofGuest.get(guest) ?? 0) + 1
    this.#ofGuest.set(guest, ofGuest)
    if (guest !== '') this.mostOfGuest = Math.max(this.mostOfGuest, ofGuest)
    if (this.firsts.includes(id)) return
    this.firsts.push(id)
    this.begun.set(guest, [...(this.begun.get(guest) ?? []), id])
  }
}
