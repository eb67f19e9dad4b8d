import { expect } from 'chai'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import type { OperationOutcome, Step } from '../../agent/operations/types.js'
import {
  define,
  expectRefused,
  fail,
  Gate,
  order,
  step,
  retry,
  useEngines,
} from '../support/operations/operation-lab.js'
import { waitFor } from '../support/wait.js'

describe('operations when the agent shuts down and recovers', () => {
  const lab = useEngines()

  it('are interrupted without a failure or an undo, and continue in the same order after a restart', async () => {
    const seen: string[] = []
    const steps: Step<unknown, string>[] = [
      { name: 'one', run: async () => void seen.push('one'), undo: async () => void seen.push('undo one') },
      {
        name: 'two',
        run: async ({ signal, repeated }) => {
          seen.push(`two${repeated ? ' again' : ''}`)
          if (!repeated) await aborted(signal)
        },
        undo: async () => void seen.push('undo two'),
      },
      { name: 'three', run: async ({ repeated }) => void seen.push(`three${repeated ? ' again' : ''}`) },
    ]
    const definitions = [define('a', steps), define('b', [step('b', () => void seen.push('b'))])]
    const first = lab.start(definitions)
    first.submit(order('1', 'a', 'g'))
    first.submit(order('2', 'b', 'g'))
    const waiting = first.wait('2').then(
      () => 'ended',
      (error: Error) => error.message,
    )
    await waitFor(() => seen.includes('two'))
    expect(await first.close()).to.equal(true)
    expect(await waiting).to.equal('the agent is starting or stopping: try again later')
    expect(first.get('1')).to.include({ status: 'running', stage: 'two', error: '' })
    expect(first.get('2')).to.include({ status: 'pending' })

    const second = lab.start(definitions)
    await second.wait('2')
    expect(second.get('1')).to.include({ status: 'done' })
    expect(seen).to.deep.equal(['one', 'two', 'two again', 'three', 'b'])
  })

  it('delay the shutdown only for a limited time if a step ignores its abort signal', async () => {
    const gate = new Gate()
    const engine = lab.start([define('a', [gate.step, step('next', () => fail('must not begin'))])])
    engine.submit(order('1', 'a', 'g'))
    await gate.entered(1)
    expect(await engine.close(20)).to.equal(false)
    gate.open()
    await waitFor(() => engine.stats().running === 0)
    expect(engine.get('1')).to.include({ status: 'running', stage: 'gate' })
  })

  it('do not delay the shutdown while they wait for their next attempt, and are resumed later', async () => {
    let healed = false
    const remove = define('delete', [step('x', () => void (healed || fail()))], { forwardOnly: true })
    const patient = { retry: { firstMs: 60_000, maxMs: 60_000, undoAttempts: 2 } }
    const first = lab.start([remove], patient)
    first.submit(order('1', 'delete', 'g'))
    await waitFor(() => first.get('1').error !== '')
    expect(await first.close(500)).to.equal(true)
    healed = true
    const second = lab.start([remove], patient)
    expect(second.busy(guestSubject('g'))).to.equal(true)
    expectRefused(() => second.cancel('1'), 'task_running')
    expect((await second.wait('1')).status).to.equal('done')
  })

  it('continue after an interruption even if the interrupted step has no undo', async () => {
    const run = step('x', ({ signal, repeated }) => (repeated ? undefined : aborted(signal)))
    const first = lab.start([define('a', [run])])
    first.submit(order('1', 'a', 'g'))
    await waitFor(() => first.get('1').status === 'running')
    await first.close()
    expect(first.get('1').status).to.equal('running')
    expect((await lab.start([define('a', [run])]).wait('1')).status).to.equal('done')
  })

  it('do not delay the shutdown while they wait for a free slot', async () => {
    const remove = define('delete', [step('x', () => fail())], { forwardOnly: true })
    const busy = define('busy', [step('x', ({ signal }) => aborted(signal))])
    const engine = lab.start([remove, busy], { parallel: 1, retry: { ...retry, maxMs: 1 } })
    engine.submit(order('1', 'delete', 'g'))
    engine.submit(order('2', 'busy', 'h'))
    await waitFor(() => engine.get('2').status === 'running')
    await new Promise((done) => setTimeout(done, 20)) // the retry is due, but another operation has the only slot
    expect(await engine.close(2000)).to.equal(true)
  })

  it('are resumed within the limit for all guests, and before operations that were only pending', async () => {
    const gates = Array.from({ length: 4 }, () => new Gate())
    const definitions = gates.map((gate, n) => define(`a${n}`, [gate.step]))
    const first = lab.start(definitions)
    for (let n = 0; n < 4; n++) first.submit(order(`${n}`, `a${n}`, `g${n}`))
    await Promise.all(gates.map((gate) => gate.entered(1)))
    first.submit(order('later', 'a0', 'h'))
    await first.close(5) // the steps ignore the shutdown, so the journal is left as after a kill
    const begun: string[] = []
    const observer = ({ operationId, phase }: { operationId: string; phase: string }): void => {
      if (phase === 'before-run') begun.push(operationId)
    }
    for (const gate of gates) gate.open()
    const again = lab.start(definitions, { parallel: 1, observer })
    await again.wait('later')
    expect(begun).to.deep.equal(['0', '1', '2', '3', 'later'])
  })

  for (const [state, undone] of [
    ['pending', true],
    ['running', false],
  ] as const)
    it(`fail, without blocking the next operation, if their journal entry with the status "${state}" is damaged`, async () => {
      const outcomes: OperationOutcome[] = []
      const ran: string[] = []
      const settle = (_: unknown, outcome: OperationOutcome): void => void outcomes.push(outcome)
      const definition = define('a', [step('one', ({ operationId }) => void ran.push(operationId))], {
        settle,
      })
      const first = lab.start([definition])
      for (const id of ['1', '2']) first.submit(order(id, 'a', 'g'))
      await first.close()
      lab.changes.db.prepare("UPDATE operations SET input = '{\"x\":', status = ? WHERE id = '1'").run(state)
      const second = lab.start([definition])
      expect(await second.wait('1')).to.include({ status: 'failed', errorCode: 'journal_damaged' })
      expect((await second.wait('2')).status).to.equal('done')
      expect([ran, outcomes[0]]).to.deep.include(['2'])
      expect(outcomes[0]).to.include({ status: 'failed', undone })
      expectRefused(() => second.submit({ ...order('1', 'a', 'g'), hashOf: { x: 2 } }), 'operation_conflict')
    })

  it('fail, without blocking the next operation, if the journal rejects a write although the disk has space', async () => {
    lab.changes.db.exec(`CREATE TRIGGER btest BEFORE UPDATE OF step ON operations WHEN new.id = '1'
      BEGIN SELECT RAISE(ABORT, 'refused by a bug'); END`)
    const engine = lab.start([define('a', [step('one', () => undefined)])])
    for (const id of ['1', '2']) engine.submit(order(id, 'a', 'g'))
    const first = await engine.wait('1')
    expect(first).to.include({ status: 'failed', errorCode: 'internal_error' })
    expect(first.error).to.contain('refused by a bug')
    expect((await engine.wait('2')).status).to.equal('done')
  })

  it('report an error to waiting callers if the journal cannot record the end of the operation', async () => {
    lab.changes.db.exec(`CREATE TRIGGER btest BEFORE UPDATE OF finished_at_ms ON operations WHEN new.id = '1'
      BEGIN SELECT RAISE(ABORT, 'refused by a bug'); END`)
    const engine = lab.start([define('a', [step('one', () => undefined)])])
    for (const id of ['1', '2']) engine.submit(order(id, 'a', 'g'))
    const failure = await engine.wait('1').catch((error: Error) => error.message)
    expect(failure).to.equal('refused by a bug')
    expect((await engine.wait('2')).status).to.equal('done')
  })

  it('fail with a clear error, without blocking others, if this agent does not know their action', async () => {
    const first = lab.start([define('new', [])], { parallel: 1 })
    first.submit(order('1', 'new', 'g'))
    await first.close()
    const second = lab.start([define('a', [])])
    const record = await second.wait('1')
    expect(record).to.include({ status: 'failed', errorCode: 'unknown_action' })
    expect(record.error).to.include('does not know the operation new')
    second.submit(order('2', 'a', 'g'))
    expect((await second.wait('2')).status).to.equal('done')
  })

  for (const [name, steps, ran] of [
    [
      'begin again at the first step if the next version of the agent has an additional first step',
      ['zero', 'one', 'two'],
      ['zero again', 'one again', 'two'],
    ],
    ['begin again at the first step if the next version of the agent has fewer steps', ['zero'], ['zero again']],
    ['succeed immediately if the next version of the agent has no steps for them', [], []],
    [
      'continue at the interrupted step if the next version of the agent has the same steps',
      ['one', 'two'],
      ['two again'],
    ],
  ] as const)
    it(name, async () => {
      const gate = new Gate()
      const first = lab.start([define('a', [step('one', () => undefined), { ...gate.step, name: 'two' }])])
      first.submit(order('1', 'a', 'g'))
      await gate.entered(1)
      await first.close(5)
      const seen: string[] = []
      const others = steps.map((name) =>
        step(name, ({ repeated }) => void seen.push(repeated ? `${name} again` : name)),
      )
      const second = lab.start([define('a', others)])
      expect((await second.wait('1')).status).to.equal('done')
      expect(seen).to.deep.equal(ran)
      gate.open()
    })
})

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
  })
}
