import { expect } from 'chai'
import { pino } from 'pino'
import type { OperationOutcome, Step, StepContext } from '../../agent/operations/types.js'
import { conflict } from '../../shared/errors.js'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import { define, fail, order, step, useEngines } from '../support/operations/operation-lab.js'
import { waitFor } from '../support/wait.js'

describe('failing operations', () => {
  const lab = useEngines()

  it('undo their steps in reverse order from the failed step, and record why they failed', async () => {
    const seen: string[] = []
    const part = (name: string, run: () => void = () => undefined): Step<unknown, string> => ({
      name,
      run: async () => run(),
      undo: async () => void seen.push(name),
    })
    const outcomes: OperationOutcome[] = []
    const steps = [part('one'), step('no undo', () => undefined), part('three', withCause), part('four')]
    const engine = lab.start([define('a', steps, { settle: (_, outcome) => outcomes.push(outcome) })])
    engine.submit(order('1', 'a', 'g'))
    const record = await engine.wait('1')
    expect(seen).to.deep.equal(['three', 'one'])
    expect(record).to.include({ status: 'failed', errorCode: 'internal_error', error: 'outer: inner' })
    expect(outcomes).to.deep.equal([
      { status: 'failed', code: 'internal_error', message: 'outer: inner', undone: true },
    ])
  })

  for (const [name, thrown, code, message] of [
    ['an error with a code', conflict('port_conflict', 'taken'), 'port_conflict', 'taken'],
    ['a string', 'plain', 'internal_error', 'plain'],
    ['undefined', undefined, 'internal_error', 'the step failed without an error message'],
    ['an object that refers to itself', selfReferring(), 'internal_error', '[object Object]'],
    ['an error with a very long message', new Error('x'.repeat(5000)), 'internal_error', `${'x'.repeat(1999)}…`],
  ] as const)
    it(`record the error if a synchronous step throws ${name}`, async () => {
      const thrower: Step<unknown, string> = {
        name: 'x',
        run: () => {
          throw thrown
        },
      }
      const engine = lab.start([define('a', [thrower])])
      engine.submit(order('1', 'a', 'g'))
      expect(await engine.wait('1')).to.include({ status: 'failed', errorCode: code, error: message })
    })

  it('stop undoing if all attempts to undo a step fail, and report both errors', async () => {
    const seen: string[] = []
    const outcomes: OperationOutcome[] = []
    const steps: Step<unknown, string>[] = [
      { name: 'first', run: async () => undefined, undo: async () => void seen.push('first') },
      { name: 'second', run: async () => fail(), undo: async () => (seen.push('second'), fail('busy')) },
    ]
    const engine = lab.start([define('a', steps, { settle: (_, outcome) => outcomes.push(outcome) })])
    engine.submit(order('1', 'a', 'g'))
    const { status, error } = await engine.wait('1')
    expect({ status, error }).to.deep.equal({ status: 'failed', error: 'no; undo of second failed: busy' })
    expect(seen).to.deep.equal(['second', 'second', 'second'])
    expect(outcomes).to.have.length(1)
    expect(outcomes[0]).to.include({ undone: false })
  })

  it('are undone even if only a later attempt to undo a step succeeds', async () => {
    const seen: boolean[] = []
    const undo = async ({ repeated }: StepContext<unknown, string>): Promise<void> => {
      seen.push(repeated)
      if (seen.length < 3) fail()
    }
    const engine = lab.start([define('a', [{ name: 'x', run: async () => fail(), undo }])])
    engine.submit(order('1', 'a', 'g'))
    expect((await engine.wait('1')).error).to.equal('no')
    expect(seen).to.deep.equal([false, true, true])
  })

  it('repeat the failed step with growing delays if operations of their kind are never undone', async () => {
    const waits: number[] = []
    const repeats: boolean[] = []
    const clock = { now: Date.now, sleep: async (ms: number) => void waits.push(ms) }
    const run = async ({ repeated }: StepContext<unknown, string>): Promise<void> => {
      repeats.push(repeated)
      if (repeats.length < 9) fail()
    }
    const definition = define('delete', [{ name: 'x', run, undo: async () => fail('undone') }], {
      forwardOnly: true,
    })
    const engine = lab.start([definition], {
      clock,
      retry: { firstMs: 1000, maxMs: 60_000, undoAttempts: 1 },
    })
    engine.submit(order('1', 'delete', 'g'))
    expect(await engine.wait('1')).to.include({ status: 'done', error: '', errorCode: '' })
    expect(waits).to.deep.equal([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
    expect(repeats).to.deep.equal([false, ...Array.from({ length: 8 }, () => true)])
  })

  it('end as failed if the function for their result throws, even if this function throws repeatedly', async () => {
    const outcomes: string[] = []
    const settle =
      (times: number) =>
      (_: unknown, outcome: OperationOutcome): void => {
        outcomes.push(outcome.status)
        if (outcomes.length <= times) fail('settle')
      }
    const engine = lab.start([define('a', [], { settle: settle(1) }), define('b', [], { settle: settle(99) })])
    engine.submit(order('1', 'a', 'g'))
    expect(await engine.wait('1')).to.include({ status: 'failed', error: 'recording the result failed: settle' })
    expect(outcomes).to.deep.equal(['done', 'failed'])
    engine.submit(order('2', 'b', 'g'))
    expect(await engine.wait('2')).to.include({ status: 'failed', errorCode: 'internal_error' })
    expect(engine.stats()).to.include({ failed: 2, running: 0 })
  })

  it('pause while the journal is full, and continue as soon as the journal has space', async () => {
    const { db } = lab.changes
    const big = 'x'.repeat(100_000)
    db.exec('CREATE TABLE btest (x)')
    const settle = (): void => void db.prepare('INSERT INTO btest VALUES (?)').run(big)
    const fill = step('one', (context) => {
      db.pragma(`max_page_count = ${db.pragma('page_count', { simple: true }) as number}`)
      context.report(0.5, big)
    })
    const lines: string[] = []
    const kept = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
    const engine = lab.start([define('a', [fill], { settle })], { log: kept })
    engine.submit(order('1', 'a', 'g'))
    await waitFor(() => lines.length > 3)
    expect(lines[0])
      .to.include('could not write the progress of an operation to the database; trying again')
      .and.include('SQLITE_FULL')
    expect(engine.get('1')).to.include({ status: 'running', error: '' })
    expect(() => engine.submit({ ...order('2', 'a', 'h'), input: big })).to.throw('full')
    expect(engine.busy(guestSubject('h'))).to.equal(false)
    db.pragma('max_page_count = 1000000')
    expect((await engine.wait('1')).status).to.equal('done')
    expect(db.prepare('SELECT count(*) AS n FROM btest').get()).to.deep.equal({ n: 1 })
  })
})

function withCause(): never {
  throw new Error('outer', { cause: new Error('inner') })
}

function selfReferring(): unknown {
  const value: Record<string, unknown> = {}
  value['self'] = value
  return value
}
